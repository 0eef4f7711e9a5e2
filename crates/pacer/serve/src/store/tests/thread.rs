//! The store with its thread: waiting requests share a transaction, failures heal, and every
//! request is answered even if the thread panics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pacer_core::messages::Epoch;
use pacer_core::store::{
    Batch, CommitOutcome, LeaseStore as _, QueryResult, StoreAnswer, StoreDenial, StoreFault,
    StoreQuery, StoreWriter, WriteOutcome,
};

use super::{batch, disk};
use crate::store::engine::StoreEngine;
use crate::store::thread::WAITING_MAX;
use crate::{DiskStore, StoreOptions};

const EVER: Duration = Duration::from_secs(60);

fn answer(store: &mut DiskStore) -> StoreAnswer {
    let begun = Instant::now();
    loop {
        if let Some(answer) = store.poll() {
            return answer;
        }
        assert!(begun.elapsed() < EVER, "a request is never answered");
        store.wait(EVER);
    }
}

fn begin(store: &mut DiskStore) -> StoreWriter {
    store.begin(1, Epoch(1));
    let answer = answer(store);
    let StoreAnswer::Begun { node, begun: Ok(begun) } = answer else { panic!("{answer:?}") };
    StoreWriter { node, epoch: begun.epoch }
}

fn outcome(store: &mut DiskStore) -> WriteOutcome {
    let answer = answer(store);
    let StoreAnswer::Ended(outcome) = answer else { panic!("{answer:?}") };
    outcome
}

#[test]
fn what_waits_together_is_committed_together() {
    let temporary = tempfile::tempdir().unwrap();
    let woken = Arc::<AtomicU64>::default();
    let wakes = Arc::clone(&woken);
    let (hold, held) = mpsc::channel::<()>();
    let wake = move || {
        // The thread goes on once the test allows it, or ends.
        let _ended = held.recv();
        wakes.fetch_add(1, Ordering::Relaxed);
    };
    let options = StoreOptions { wake: Box::new(wake), ..StoreOptions::default() };
    let mut store = DiskStore::open(temporary.path(), options).unwrap();
    let writer = begin(&mut store);
    (1..=200).for_each(|number| store.submit(writer, batch(number, 3)));
    drop(hold);
    for number in 1..=200 {
        let outcome = outcome(&mut store);
        assert_eq!((outcome.number, outcome.ended), (number, CommitOutcome::Committed));
    }
    // One wake for each group, the last perhaps a moment later.
    let counters = store.counters();
    assert_eq!((counters.commits, counters.answered, counters.failures), (2, 201, 0));
    assert_eq!(store.failing(), None);
    store.close().unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 2);
}

#[test]
fn too_many_at_once_are_refused_in_their_order() {
    let temporary = tempfile::tempdir().unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let wake = move || {
        let _ended = held.recv();
    };
    let options = StoreOptions { wake: Box::new(wake), ..StoreOptions::default() };
    let mut store = DiskStore::open(temporary.path(), options).unwrap();
    let writer = begin(&mut store);
    let most = WAITING_MAX as u64;
    (1..=most + 2).for_each(|number| store.submit(writer, batch(number, 1)));
    drop(hold);
    for number in 1..=most + 2 {
        let outcome = outcome(&mut store);
        let (ended, denied) = match number {
            number if number > most => (CommitOutcome::Refused, Some(StoreDenial::Busy)),
            _ => (CommitOutcome::Committed, None),
        };
        assert_eq!((outcome.number, outcome.ended, outcome.denied), (number, ended, denied));
    }
    store.submit(writer, batch(most + 1, 1));
    assert_eq!(outcome(&mut store).ended, CommitOutcome::Committed, "there is room again");
}

#[test]
fn a_disk_that_was_full_heals_by_itself() {
    let disk = disk::empty(1);
    let engine = StoreEngine::open(disk.clone()).unwrap();
    let options = StoreOptions { retry_max: Duration::from_millis(20), ..StoreOptions::default() };
    let mut store = DiskStore::start(engine, options).unwrap();
    let writer = begin(&mut store);
    disk.set_space(Some(disk.used()));
    store.submit(writer, batch(1, 20_000));
    assert_ne!(outcome(&mut store).ended, CommitOutcome::Committed);
    let (begun, calls) = (Instant::now(), disk.calls());
    // The file opens again, but still nothing can be written.
    let mut tries = 0;
    while disk.calls() == calls || tries < 3 {
        assert_eq!(store.failing(), Some(StoreFault::DiskFull), "nothing was written since");
        store.submit(writer, batch(1, 20_000));
        assert_ne!(outcome(&mut store).ended, CommitOutcome::Committed);
        tries += 1;
        assert!(begun.elapsed() < EVER, "it is tried again");
    }
    disk.set_space(None);
    loop {
        store.submit(writer, batch(1, 20_000));
        if outcome(&mut store).ended == CommitOutcome::Committed {
            break;
        }
        assert!(begun.elapsed() < 2 * EVER, "there is room");
    }
    assert_eq!(store.failing(), None);
    assert_eq!(store.counters().failures, 1, "it was one and the same");
    store.read(StoreQuery::Leases(Some(1)));
    let answer = answer(&mut store);
    let StoreAnswer::Read(Ok(QueryResult::Leases(leases))) = answer else { panic!("{answer:?}") };
    assert_eq!(leases.len(), 20_000);
    store.close().unwrap();
}

#[test]
fn a_thread_that_is_gone_leaves_unknown_what_it_was_asked() {
    let temporary = tempfile::tempdir().unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let wake = move || {
        let _ended = held.recv();
        panic!("somebody's mistake");
    };
    let options = StoreOptions { wake: Box::new(wake), ..StoreOptions::default() };
    let mut store = DiskStore::open(temporary.path(), options).unwrap();
    let writer = begin(&mut store);
    (1..=3).for_each(|number| store.submit(writer, batch(number, 1)));
    drop(hold);
    for number in 1..=3 {
        let outcome = outcome(&mut store);
        assert_eq!((outcome.number, outcome.ended), (number, CommitOutcome::Unknown));
    }
    store.begin(1, Epoch(1));
    assert!(matches!(
        answer(&mut store),
        StoreAnswer::Begun { begun: Err(StoreDenial::Failing(_)), .. }
    ));
    store.read(StoreQuery::Leases(None));
    assert!(matches!(answer(&mut store), StoreAnswer::Read(Err(StoreDenial::Failing(_)))));
    store.submit(StoreWriter { node: 9, ..writer }, Batch::default());
    assert_eq!(outcome(&mut store).writer.node, 9);
    assert_eq!(store.poll(), None);
    assert_eq!(store.close(), Err(StoreFault::Disk));
    DiskStore::open(temporary.path(), StoreOptions::default()).unwrap();
}
