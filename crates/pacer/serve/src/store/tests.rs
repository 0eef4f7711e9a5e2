//! The store over a failing disk, over real directories, and over damaged files.

mod conformance;
mod damage;
pub(crate) mod disk;
mod faults;
mod folds;
mod holds;
mod thread;

use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::store::{
    Batch, CommitOutcome, Lease, LeaseKey, QueryResult, StoreAnswer, StoreQuery, StoreRequest,
    StoreWriter, WriteOutcome,
};
use units::Nanos;

use super::directory::StoreDirectory;
use super::engine::StoreEngine;

fn key(slot: u32) -> LeaseKey {
    LeaseKey { slot: CampaignIndex(slot), period: Period(7_000_000), node: 1, epoch: Epoch(1) }
}

fn granted(nanos: u64) -> Lease {
    Lease { granted: Nanos::new(nanos), ..Lease::default() }
}

/// A batch that sets each lease to its number.
fn batch(number: u64, slots: u32) -> Batch {
    let leases = (0..slots).map(|slot| (key(slot), granted(number))).collect();
    Batch { number, leases, applied_seq: number, ..Batch::default() }
}

fn ask<P: StoreDirectory>(engine: &mut StoreEngine<P>, request: StoreRequest) -> StoreAnswer {
    let mut answers = engine.serve(&[request]);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

fn begin<P: StoreDirectory>(engine: &mut StoreEngine<P>) -> StoreWriter {
    let answer = ask(engine, StoreRequest::Begin(1, Epoch(1)));
    let StoreAnswer::Begun { node, begun: Ok(begun) } = answer else { panic!("{answer:?}") };
    StoreWriter { node, epoch: begun.epoch }
}

fn ended(answer: &StoreAnswer) -> CommitOutcome {
    let StoreAnswer::Ended(WriteOutcome { ended, .. }) = answer else { panic!("{answer:?}") };
    *ended
}

fn leases<P: StoreDirectory>(engine: &mut StoreEngine<P>) -> Vec<(u32, u64)> {
    let answer = ask(engine, StoreRequest::Read(StoreQuery::Leases(None)));
    let StoreAnswer::Read(Ok(QueryResult::Leases(leases))) = answer else { panic!("{answer:?}") };
    leases.into_iter().map(|(key, lease)| (key.slot.0, lease.granted.get())).collect()
}
