//! Batches through the store, with several in flight.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::store::{
    Batch, CommitOutcome, Lease, LeaseKey, LeaseStore as _, StoreAnswer, StoreWriter, WriteOutcome,
};
use pacer_serve::{DiskStore, StoreOptions};
use units::Nanos;

use crate::{Measured, settle};

/// Timeout of a batch: a failing disk ends the run.
const PATIENCE: Duration = Duration::from_secs(30);
/// Not a factor of any number of leases used: a batch's leases are spread over all, as campaigns'
/// are.
const STRIDE: u64 = 7_919;

/// Batches of `leases` leases out of those stored, for a time.
pub(crate) fn measure(
    directory: &Path,
    (leases, filled): (u32, u32),
    in_flight: u64,
    time: Duration,
) -> Result<Measured> {
    let mut store = DiskStore::open(directory, StoreOptions::default())?;
    store.begin(1, Epoch(1));
    let writer = match answer(&mut store)? {
        StoreAnswer::Begun { node, begun } => StoreWriter { node, epoch: begun?.epoch },
        other => bail!("an epoch begins by {other:?}"),
    };
    store.submit(writer, batch(writer, 1, filled, filled));
    committed(&mut store, 1)?;
    settle();

    let before = store.counters().commits;
    let (mut asked, mut sent, mut latencies) = (1, VecDeque::new(), Vec::new());
    let begun = Instant::now();
    loop {
        let is_over = begun.elapsed() >= time;
        while !is_over && (sent.len() as u64) < in_flight {
            asked += 1;
            let batch = batch(writer, asked, leases, filled);
            sent.push_back((asked, Instant::now()));
            store.submit(writer, batch);
        }
        let Some((number, at)) = sent.pop_front() else { break };
        committed(&mut store, number)?;
        latencies.push(at.elapsed());
    }
    let took = begun.elapsed();
    let commits = store.counters().commits - before;
    store.close().map_err(|cause| anyhow!("the store {cause}"))?;
    Ok(Measured { batches: latencies.len() as u64, commits, took, latencies })
}

fn batch(writer: StoreWriter, number: u64, leases: u32, filled: u32) -> Batch {
    let lease = |index: u32| {
        let spread = (u64::from(index) * STRIDE + number) % u64::from(filled);
        let slot = CampaignIndex(u32::try_from(spread).expect("below a u32"));
        let key = LeaseKey { slot, period: Period(1), node: writer.node, epoch: writer.epoch };
        (key, Lease { granted: Nanos::new(number), ..Lease::default() })
    };
    Batch {
        number,
        leases: (0..leases).map(lease).collect(),
        applied_seq: number,
        ..Batch::default()
    }
}

fn answer(store: &mut DiskStore) -> Result<StoreAnswer> {
    store.wait(PATIENCE);
    store.poll().context("the store does not answer")
}

fn committed(store: &mut DiskStore, number: u64) -> Result<()> {
    let answer = answer(store)?;
    let StoreAnswer::Ended(WriteOutcome { number: of, ended, denied, .. }) = answer else {
        bail!("batch {number} is answered by {answer:?}");
    };
    ensure!(of == number && ended == CommitOutcome::Committed, "batch {of}: {ended:?} {denied:?}");
    Ok(())
}
