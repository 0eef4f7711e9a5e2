//! The conformance suite of [`LeaseStore`]: [`check`] runs all of it.
//!
//! It knows an engine only through the trait and a [`Subject`], which creates, restarts and waits.
//! An engine may answer late, refuse for a while, or not know the outcome: the suite retries, as
//! the ledger does. Eventually the engine must succeed, without loss of what it confirmed.

mod definitions;
mod epoch_lifetimes;
mod folds;
mod holds;
mod leases;
mod random;

use units::Nanos;

use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{
    AttemptNumber, Batch, ChargeKey, CommitOutcome, DefinitionChange, EpochLifetime, EpochStart,
    Fold, HoldName, HoldState, Lease, LeaseKey, LeaseStore, QueryResult, SpentSum, StoreAnswer,
    StoreDenial, StoreQuery, StoreWriter, StoredHold, StoredHoldKey, SumKey, UnattributedWin,
    WriteKind, WriteOutcome,
};

const ASKED_MAX: u32 = 200;
const POLLED_MAX: u32 = 20_000;

/// An engine under test.
pub trait Subject {
    /// The engine's store.
    type Store: LeaseStore;

    /// Creates an empty store, independent of all others.
    fn fresh(&mut self) -> Self::Store;

    /// Kills the process of `store` and starts another on its data.
    fn restart(&mut self, store: Self::Store) -> Self::Store;

    /// Waits until there may be an answer. Does nothing if polling suffices.
    fn wait(&mut self, store: &mut Self::Store);
}

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{case}: {what}")]
pub struct Violation {
    /// The case that found it.
    pub case: &'static str,
    /// What it found.
    pub what: String,
}

type Checked = Result<(), String>;

/// Runs the whole suite.
///
/// # Errors
/// The first violation.
pub fn check<S: Subject>(subject: &mut S) -> Result<(), Violation> {
    let mut bench = Bench { subject, store: None };
    for (case, run) in cases() {
        bench.store = Some(bench.subject.fresh());
        run(&mut bench).map_err(|what| Violation { case, what })?;
    }
    for seed in 0..random::SEEDS {
        bench.store = Some(bench.subject.fresh());
        let said = |what| Violation { case: "random", what: format!("seed {seed}: {what}") };
        random::run(&mut bench, seed).map_err(said)?;
    }
    Ok(())
}

fn cases<S: Subject>() -> impl Iterator<Item = Case<S>> {
    let money = leases::cases().into_iter().chain(folds::cases());
    money.chain(holds::cases()).chain(epoch_lifetimes::cases()).chain(definitions::cases())
}

type Case<S> = (&'static str, fn(&mut Bench<'_, S>) -> Checked);

struct Bench<'a, S: Subject> {
    subject: &'a mut S,
    /// None during a restart.
    store: Option<S::Store>,
}

impl<S: Subject> Bench<'_, S> {
    fn answer(&mut self) -> Result<StoreAnswer, String> {
        for _ in 0..POLLED_MAX {
            let store = self.store.as_mut().expect("it is there");
            if let Some(answer) = store.poll() {
                return Ok(answer);
            }
            self.subject.wait(store);
        }
        Err("a request is never answered".to_owned())
    }

    fn store(&mut self) -> &mut S::Store {
        self.store.as_mut().expect("it is there but while it starts again")
    }

    fn restart(&mut self) {
        let store = self.store.take().expect("it is there");
        self.store = Some(self.subject.restart(store));
    }

    fn begin(&mut self, node: u32) -> Result<EpochStart, String> {
        self.begin_at(node, Epoch(1))
    }

    fn begin_at(&mut self, node: u32, least: Epoch) -> Result<EpochStart, String> {
        for _ in 0..ASKED_MAX {
            self.store().begin(node, least);
            match self.answer()? {
                StoreAnswer::Begun { node: of, begun: Ok(begun) } if of == node => {
                    return Ok(begun);
                }
                StoreAnswer::Begun { node: of, begun: Err(denied) } if of == node => {
                    may_pass(&denied)?;
                }
                other => return Err(format!("begun: {other:?}")),
            }
        }
        Err("an epoch never begins".to_owned())
    }

    fn writer(&mut self, node: u32) -> Result<StoreWriter, String> {
        Ok(StoreWriter { node, epoch: self.begin(node)?.epoch })
    }

    /// Retries until the batch is committed, or refused for good.
    fn submit(
        &mut self,
        writer: StoreWriter,
        batch: &Batch,
    ) -> Result<Result<(), StoreDenial>, String> {
        for _ in 0..ASKED_MAX {
            self.store().submit(writer, batch.clone());
            if let Some(end) = self.end(writer, WriteKind::Batch, batch.number)? {
                return Ok(end);
            }
        }
        Err(format!("batch {} never ends", batch.number))
    }

    fn change(
        &mut self,
        writer: StoreWriter,
        change: &DefinitionChange,
    ) -> Result<Result<(), StoreDenial>, String> {
        for _ in 0..ASKED_MAX {
            self.store().change(writer, change.clone());
            if let Some(end) = self.end(writer, WriteKind::Change, change.number)? {
                return Ok(end);
            }
        }
        Err(format!("change {} never ends", change.number))
    }

    fn end(
        &mut self,
        writer: StoreWriter,
        sent: WriteKind,
        number: u64,
    ) -> Result<Option<Result<(), StoreDenial>>, String> {
        let answer = self.answer()?;
        let StoreAnswer::Ended(WriteOutcome {
            writer: of,
            kind: what,
            number: which,
            ended,
            denied,
        }) = answer
        else {
            return Err(format!("{sent:?} {number} is answered by {answer:?}"));
        };
        if (of, what, which) != (writer, sent, number) {
            return Err(format!("{sent:?} {number} is answered for {what:?} {which} of {of:?}"));
        }
        match (ended, denied) {
            (CommitOutcome::Committed, None) => Ok(Some(Ok(()))),
            (CommitOutcome::Unknown, None) => Ok(None),
            (CommitOutcome::Refused, Some(StoreDenial::Busy | StoreDenial::Failing(_))) => Ok(None),
            (CommitOutcome::Refused, Some(denied)) => Ok(Some(Err(denied))),
            (ended, denied) => Err(format!("{ended:?} for {denied:?}")),
        }
    }

    fn read(&mut self, query: &StoreQuery) -> Result<QueryResult, String> {
        for _ in 0..ASKED_MAX {
            self.store().read(query.clone());
            match self.answer()? {
                StoreAnswer::Read(Ok(found)) => return Ok(found),
                StoreAnswer::Read(Err(denied)) => may_pass(&denied)?,
                other => return Err(format!("{query:?} is answered by {other:?}")),
            }
        }
        Err(format!("{query:?} is never answered"))
    }

    fn leases(&mut self, node: Option<u32>) -> Result<Vec<(LeaseKey, Lease)>, String> {
        match self.read(&StoreQuery::Leases(node))? {
            QueryResult::Leases(mut leases) => {
                leases.sort_unstable_by_key(|(key, _)| *key);
                Ok(leases)
            }
            other => Err(format!("leases are {other:?}")),
        }
    }
}

/// Whether a retry may help.
fn may_pass(denied: &StoreDenial) -> Checked {
    match denied {
        StoreDenial::Busy | StoreDenial::Failing(_) => Ok(()),
        _ => Err(format!("denied: {denied}")),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, want: &T) -> Checked {
    if found == want { Ok(()) } else { Err(format!("{what}: {found:?}, not {want:?}")) }
}

fn key(slot: u32, writer: StoreWriter) -> LeaseKey {
    LeaseKey {
        slot: CampaignIndex(slot),
        period: Period(7_000_000),
        node: writer.node,
        epoch: writer.epoch,
    }
}

fn lease(granted: u64, returned: u64, settled: u64) -> Lease {
    Lease {
        granted: Nanos::new(granted),
        returned: Nanos::new(returned),
        settled: Nanos::new(settled),
        ..Lease::default()
    }
}

fn batch(number: u64, leases: &[(LeaseKey, Lease)]) -> Batch {
    Batch { number, leases: leases.to_vec(), applied_seq: number * 10, ..Batch::default() }
}

const fn before(writer: StoreWriter) -> StoreWriter {
    StoreWriter { epoch: Epoch(writer.epoch.0 - 1), ..writer }
}
