//! A store whose disk fails or is full, and then recovers.

use std::thread;

use faults::{DiskFaults, FaultDisk};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::Denial;
use pacer_core::store::{
    AuditEntry, DefinitionChange, DefinitionKey, DefinitionPut, StoreDenial, StoreFault,
    StoredDefinition, StoredKind,
};

use super::fake::{TestLedger, settle, start_in};
use crate::ledger::status::LedgerWaker;
use crate::store::engine::StoreEngine;
use crate::store::tests::disk;
use crate::store::thread::{DiskStore, StoreOptions};
use crate::{LedgerError, LedgerFault, LedgerStart, LedgerStartError};

fn store(disk: &FaultDisk, waker: &LedgerWaker) -> DiskStore {
    let waker = waker.clone();
    let options = StoreOptions { wake: Box::new(move || waker.wake()), ..StoreOptions::default() };
    DiskStore::start(StoreEngine::open(disk.clone()).unwrap(), options).unwrap()
}

const BROKEN: DiskFaults = DiskFaults { write: 1, sync: 1, other: 1 };

fn change(bytes: usize) -> DefinitionChange {
    let put = DefinitionPut {
        key: DefinitionKey { kind: StoredKind::Campaign, id: "a".to_owned() },
        expected: Some(0),
        definition: StoredDefinition { version: 1, body: vec![1; bytes] },
    };
    let audit = vec![AuditEntry { at_unix_ms: 1, body: vec![2] }];
    DefinitionChange { number: 0, puts: vec![put], audit }
}

fn open(disk: &FaultDisk) -> TestLedger {
    open_with(disk, |_| ())
}

pub(super) fn open_with(disk: &FaultDisk, change: impl FnOnce(&mut LedgerStart)) -> TestLedger {
    let waker = LedgerWaker::default();
    let mut start = start_in("disk".as_ref(), 1);
    change(&mut start);
    let (origin, shutdown) = (start.origin, start.shutdown.clone());
    let started = start.start_over(store(disk, &waker), waker, disk.clone()).unwrap();
    let ledger = TestLedger::of(started, origin, shutdown);
    ledger.feed.replayed();
    ledger
}

#[test]
fn a_disk_that_fails_grants_nothing_new_and_the_rest_goes_on() {
    let disk = disk::empty(1);
    let mut ledger = open(&disk);
    ledger.define(0, 1_000_000);
    let token = ledger.reserve(0, 0, 100);
    disk.set_faults(BROKEN);
    // Shards spend what was granted.
    let mut reserved = 0;
    ledger.until("nothing more is granted", |ledger| {
        reserved += ledger.shards[0].reserve(0, 100).map_or(0, |_| 100);
        ledger.why(0).refusal == Some(SpendRefusal::LedgerUnavailable)
    });
    assert!(reserved < 1_000_000, "{reserved}");
    let refused = Denial::Refused(SpendRefusal::LedgerUnavailable);
    ledger.until("shards say so", |ledger| ledger.shards[0].reserve(0, 100_000) == Err(refused));
    ledger.until("it is told", |ledger| ledger.handle.status().failing == Some(StoreFault::Disk));
    assert!(ledger.handle.is_ready(), "auctions go on");
    ledger.shards[0].settle(&token);
    settle(&ledger.feed, 1, &token);
    ledger.until("wins are booked", |ledger| ledger.spent(0) >= 100);
    let failed =
        |ledger: &TestLedger| ledger.handle.status().refused + ledger.handle.status().unknown;
    let before = failed(&ledger);
    ledger.until("batches that say so fail", |ledger| failed(ledger) > before + 1);
    assert_eq!(ledger.feed.applied_seq(), 0, "and not durable yet");
    let denied = ledger.handle.change(change(10));
    assert_eq!(denied, Err(LedgerError::Denied(StoreDenial::Failing(StoreFault::Disk))));
    disk.set_faults(DiskFaults::default());
    ledger.until("it recovers by itself", |ledger| {
        ledger.shards[0].reserve(0, 100).is_ok() && ledger.feed.applied_seq() == 1
    });
    ledger.until("it is told", |ledger| ledger.handle.status().failing.is_none());
    let status = ledger.handle.status();
    assert!(status.refused + status.unknown > 0, "{status:?}");
    assert_eq!(ledger.handle.change(change(10)), Ok(()));
    assert!(!ledger.shutdown.is_started());
    ledger.close();
}

#[test]
fn a_stop_over_a_disk_that_fails_ends_as_a_kill_does() {
    let disk = disk::empty(2);
    let mut ledger = open(&disk);
    ledger.define(0, 1_000);
    ledger.reserve(0, 0, 100);
    disk.set_faults(BROKEN);
    ledger.shards[0].close();
    let thread = ledger.thread.take().unwrap();
    assert!(matches!(thread.close(), Err(LedgerFault::Store(_))), "it ends, and says why not well");
    drop(ledger);
    disk.set_faults(DiskFaults::default());
    let ledger = open(&disk);
    ledger.define(0, 1_000);
    let why = ledger.why(0);
    assert!(
        why.frozen.get() > 100,
        "more than the reservation, for nothing was given back: {why:?}"
    );
    ledger.close();
}

#[test]
fn a_change_that_finds_no_room_is_refused_and_nothing_else_is() {
    let disk = disk::empty(3);
    let mut ledger = open(&disk);
    disk.set_space(Some(disk.used()));
    let full = LedgerError::Denied(StoreDenial::Failing(StoreFault::DiskFull));
    assert_eq!(ledger.handle.change(change(4 << 20)), Err(full));
    disk.set_space(None);
    let kept = |ledger: &TestLedger| ledger.handle.definitions(StoredKind::Campaign);
    ledger.until("it can be read", |ledger| kept(ledger).is_ok());
    assert_eq!(kept(&ledger), Ok(Vec::new()));
    ledger.until("there is room", |ledger| ledger.handle.change(change(4 << 20)).is_ok());
    assert_eq!(ledger.handle.definitions(StoredKind::Campaign).unwrap().len(), 1);
    ledger.close();
}

/// A change of unknown outcome is retried until the store knows, and the caller hears that.
#[test]
fn nobody_hears_that_a_change_may_be_durable() {
    for seed in 0..20 {
        let disk = disk::empty(seed);
        let mut ledger = open(&disk);
        // Either the write fails, or its outcome is unknown.
        let write = if seed % 2 == 0 { 2 } else { 0 };
        disk.set_faults(DiskFaults { sync: 2, write, other: 0 });
        let handle = ledger.handle.clone();
        let changing = thread::spawn(move || handle.change(change(100)));
        ledger.until("it is tried", |ledger| {
            changing.is_finished() || ledger.handle.status().failing.is_some()
        });
        disk.set_faults(DiskFaults::default());
        let changed = changing.join().unwrap();
        let is_there =
            || ledger.handle.definitions(StoredKind::Campaign).map(|found| !found.is_empty());
        let found = std::iter::repeat_with(is_there).find_map(Result::ok).unwrap();
        match changed {
            Ok(()) => assert!(found, "seed {seed}"),
            Err(LedgerError::Denied(StoreDenial::Failing(_))) => assert!(!found, "seed {seed}"),
            Err(other) => panic!("seed {seed}: {other}"),
        }
        ledger.close();
    }
}

#[test]
fn a_disk_that_fails_at_the_start_is_told_with_its_place() {
    let disk = disk::empty(2);
    let waker = LedgerWaker::default();
    let store = store(&disk, &waker);
    disk.set_faults(BROKEN);
    let refused =
        start_in("/where/it/is".as_ref(), 1).start_over(store, waker, disk.clone()).unwrap_err();
    assert!(matches!(refused, LedgerStartError::Begin { .. }), "{refused:?}");
    let text = refused.to_string();
    let want = "/where/it/is: the ledger's store cannot be read or written: see to its disk";
    assert!(text.starts_with(want), "{text}");
}
