//! A process that writes batches is killed again and again. Batches that it reported as committed
//! are there and complete, and the next process continues after them.
//!
//! `KILLS` sets the number of kills.

use std::env;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use faults::Chance;
use faults::process::{Once, kills};
use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::store::{
    Batch, CommitOutcome, Lease, LeaseKey, LeaseStore as _, QueryResult, StoreAnswer, StoreQuery,
    StoreWriter,
};
use pacer_serve::{DiskStore, StoreOpenError, StoreOptions};
use units::Nanos;

/// As many as a normal test run has time for.
const KILLS: u64 = 20;
/// Leases that every batch sets to its number.
const SHARED: u32 = 200;
/// Most reported batches before the kill.
const SAID_MAX: u64 = 60;
/// Longer than any step takes.
const EVER: Duration = Duration::from_secs(60);

/// The child's directory, and the batch after which it begins.
const ROOT: &str = "LEDGER_TEST_ROOT";
const BEHIND: &str = "LEDGER_TEST_BEHIND";

fn answer(store: &mut DiskStore) -> StoreAnswer {
    store.wait(EVER);
    store.poll().expect("it is answered")
}

fn begin(store: &mut DiskStore) -> (StoreWriter, u64) {
    store.begin(1, Epoch(1));
    let answer = answer(store);
    let StoreAnswer::Begun { node, begun: Ok(begun) } = answer else { panic!("{answer:?}") };
    (StoreWriter { node, epoch: begun.epoch }, begun.applied_seq)
}

fn batch(number: u64) -> Batch {
    let lease = |slot| {
        let (slot, period) = (CampaignIndex(slot), Period(1));
        let key = LeaseKey { slot, period, node: 1, epoch: Epoch(1) };
        (key, Lease { granted: Nanos::new(number), ..Lease::default() })
    };
    let own = SHARED + u32::try_from(number).expect("few");
    let leases = (0..SHARED).chain([own]).map(lease).collect();
    Batch { number, leases, applied_seq: number, ..Batch::default() }
}

/// The last batch found; all are complete, and none is missing before it.
fn last(root: &Path) -> u64 {
    let mut store = DiskStore::open(root, StoreOptions::default()).expect("nobody has it");
    let (_, applied_seq) = begin(&mut store);
    store.read(StoreQuery::Leases(None));
    let answer = answer(&mut store);
    let StoreAnswer::Read(Ok(QueryResult::Leases(mut leases))) = answer else {
        panic!("{answer:?}")
    };
    leases.sort_unstable_by_key(|(key, _)| *key);
    let values: Vec<_> =
        leases.into_iter().map(|(key, lease)| (key.slot.0, lease.granted.get())).collect();
    let shared = (0..SHARED).map(|slot| (slot, applied_seq));
    let own =
        (1..=applied_seq).map(|number| (SHARED + u32::try_from(number).expect("few"), number));
    let want: Vec<_> = shared.chain(own).filter(|_| applied_seq > 0).collect();
    assert_eq!(values, want, "whole, up to {applied_seq}");
    store.close().expect("its disk is well");
    applied_seq
}

#[test]
fn what_a_killed_process_said_is_there() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let mut chance = Chance::new(1);
    let (mut behind, mut times_in_all) = (0, 0);
    let lives = kills(KILLS);
    for life in 0..lives {
        let (said, times) = live(root, behind, chance.below(SAID_MAX));
        // Only every second run is inspected before the next begins.
        if life % 2 == 0 {
            let found = last(root);
            assert!(found >= said, "life {life}: {said} was said, {found} is there");
            behind = found;
        } else {
            // The next run may begin anywhere after the reported batch: repeated batches change
            // nothing.
            behind = said;
        }
        times_in_all += times;
    }
    assert!(last(root) >= behind);
    assert!(times_in_all > 10 * lives, "{times_in_all} prove nothing");
}

/// A run, killed after `until` reports. Returns the last batch reported as committed, and the
/// number of reports.
fn live(root: &Path, behind: u64, until: u64) -> (u64, u64) {
    let (mut said, mut times) = (behind, 0);
    start(root, behind).kill_after(until, |line| {
        let Some((_, number)) = line.split_once("committed ") else { return false };
        said = number.parse().expect("a number");
        times += 1;
        true
    });
    (said, times)
}

fn start(root: &Path, behind: u64) -> Once {
    let behind = behind.to_string();
    Once::more("killed::child", &[(ROOT, root.as_os_str()), (BEHIND, behind.as_ref())])
}

#[test]
#[ignore = "writes until it is killed: the other tests here start it"]
fn child() {
    let root = PathBuf::from(env::var_os(ROOT).expect("where"));
    let behind: u64 = env::var(BEHIND).expect("behind which").parse().expect("a number");
    let mut store = DiskStore::open(&root, StoreOptions::default()).unwrap();
    let (writer, _) = begin(&mut store);
    writeln!(stdout(), "open").unwrap();
    // Some batches are always in flight.
    (behind + 1..behind + 4).for_each(|number| store.submit(writer, batch(number)));
    for number in behind + 4.. {
        let answer = answer(&mut store);
        let StoreAnswer::Ended(outcome) = answer else { panic!("{answer:?}") };
        assert_eq!(outcome.ended, CommitOutcome::Committed, "{outcome:?}");
        writeln!(stdout(), "committed {}", outcome.number).unwrap();
        store.submit(writer, batch(number));
    }
}

#[test]
fn a_directory_in_use_by_another_process_is_refused_by_its_name() {
    let temporary = tempfile::tempdir().unwrap();
    let mut child = start(temporary.path(), 0);
    child.await_line("open");
    let refused = DiskStore::open(temporary.path(), StoreOptions::default()).err();
    let want = format!(
        "{} is in use by process {}: end it, or name another directory",
        temporary.path().display(),
        child.id()
    );
    drop(child);
    let refused = refused.expect("it is in use");
    assert!(matches!(refused, StoreOpenError::InUse { .. }));
    assert_eq!(refused.to_string(), want);
    DiskStore::open(temporary.path(), StoreOptions::default()).expect("nobody holds it any more");
}
