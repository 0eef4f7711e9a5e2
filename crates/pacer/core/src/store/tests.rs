//! The in-memory store passes the suite with and without faults.

use units::Nanos;

use super::testing::conformance::{Subject, Violation, check};
use super::testing::{MemoryFaults, MemoryStore};
use super::{
    BATCH_LEASES_MAX, Batch, CHANGE_BYTES_MAX, CHANGE_ITEMS_MAX, CommitOutcome, DefinitionChange,
    DefinitionKey, DefinitionPut, Lease, LeaseKey, LeaseStore, StoreAnswer, StoreDenial,
    StoreQuery, StoreWriter, StoredDefinition, StoredKind, WriteOutcome,
};
use crate::calendar::Period;
use crate::messages::{CampaignIndex, Epoch};

struct InMemory {
    seed: u64,
    faults: MemoryFaults,
}

impl Subject for InMemory {
    type Store = MemoryStore;

    fn fresh(&mut self) -> MemoryStore {
        self.seed += 1;
        let mut store = MemoryStore::new(self.seed);
        store.set_faults(self.faults);
        store
    }

    fn restart(&mut self, mut store: MemoryStore) -> MemoryStore {
        store.crash();
        store
    }

    fn wait(&mut self, _: &mut MemoryStore) {}
}

fn hold(seed: u64, faults: MemoryFaults) -> Result<(), Violation> {
    check(&mut InMemory { seed, faults })
}

const WORST: MemoryFaults =
    MemoryFaults { late_polls_max: 5, refused_once_in: 6, unknown_once_in: 4 };

#[test]
fn the_suite_is_passed_whatever_goes_wrong() {
    hold(0, MemoryFaults::default()).unwrap();
    for seed in 0..20 {
        hold(seed * 1_000, WORST).unwrap();
    }
}

fn writer(epoch: u32) -> StoreWriter {
    StoreWriter { node: 1, epoch: Epoch(epoch) }
}

fn granted(number: u64) -> Batch {
    let key = LeaseKey { slot: CampaignIndex(1), period: Period(4), node: 1, epoch: Epoch(1) };
    let lease = Lease { granted: Nanos::new(number), ..Lease::default() };
    Batch { number, leases: vec![(key, lease)], ..Batch::default() }
}

/// A series of requests and answers, with crashes.
fn trace(seed: u64) -> Vec<Option<StoreAnswer>> {
    let mut store = MemoryStore::new(seed);
    store.set_faults(WORST);
    let mut said = Vec::new();
    for number in 1..200 {
        store.begin(1, Epoch(1));
        store.submit(writer(u32::try_from(number).expect("few")), granted(number));
        store.read(StoreQuery::Leases(None));
        said.extend((0..4).map(|_| store.poll()));
        if number % 50 == 0 {
            store.crash();
            assert_eq!(store.waiting(), 0);
        }
    }
    said
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn every_fault_happens() {
    let mut unknown = [0; 2];
    let (mut refused, mut late, mut strays) = (0, 0, 0);
    for seed in 0..300 {
        let mut store = MemoryStore::new(seed);
        store.begin(1, Epoch(1));
        assert!(store.poll().is_some(), "at once while nothing goes wrong");
        store.set_faults(WORST);
        store.submit(writer(1), granted(5));
        let mut polls = 1;
        let answer = loop {
            match store.poll() {
                Some(answer) => break answer,
                None => polls += 1,
            }
        };
        late += u32::from(polls > 1);
        assert!(polls <= WORST.late_polls_max + 1);
        let StoreAnswer::Ended(WriteOutcome { ended, denied, .. }) = answer else {
            panic!("{answer:?}")
        };
        store.set_faults(MemoryFaults::default());
        let granted = |store: &mut MemoryStore| {
            store.read(StoreQuery::Leases(None));
            let answer = store.poll();
            let Some(StoreAnswer::Read(Ok(super::QueryResult::Leases(found)))) = answer else {
                panic!("{answer:?}")
            };
            found.len()
        };
        let at_once = granted(&mut store);
        (0..30).for_each(|_| drop(store.poll()));
        let then = granted(&mut store);
        assert!(at_once <= then);
        match ended {
            CommitOutcome::Committed => assert_eq!((at_once, denied), (1, None)),
            CommitOutcome::Refused => {
                refused += 1;
                assert_eq!(then, 0);
                assert!(matches!(denied, Some(StoreDenial::Failing(_))), "{denied:?}");
            }
            CommitOutcome::Unknown => {
                unknown[then] += 1;
                strays += then - at_once;
            }
        }
    }
    let seen = [refused, late, unknown[0], unknown[1], u32::try_from(strays).expect("few")];
    assert!(seen.into_iter().all(|times| times > 5), "{seen:?}");
}

#[test]
fn a_crash_keeps_what_was_answered_and_some_of_the_rest() {
    let mut kept = [0; 4];
    for seed in 0..100 {
        let mut store = MemoryStore::new(seed);
        store.begin(1, Epoch(1));
        store.poll().expect("at once");
        store.submit(writer(1), granted(1));
        store.poll().expect("at once");
        (2..=3).for_each(|number| store.submit(writer(1), granted(number)));
        store.crash();
        assert_eq!(store.poll(), None, "nobody is left to answer to");
        store.read(StoreQuery::Leases(Some(1)));
        let answer = store.poll();
        let Some(StoreAnswer::Read(Ok(super::QueryResult::Leases(found)))) = answer else {
            panic!("{answer:?}")
        };
        kept[usize::try_from(found[0].1.granted.get()).expect("few")] += 1;
    }
    assert_eq!(kept[0], 0, "what was answered stays");
    assert!(kept[1..].iter().all(|times| *times > 10), "{kept:?}");
}

#[test]
fn limits_are_kept_at_their_edges() {
    let lease = |slot| {
        let key =
            LeaseKey { slot: CampaignIndex(slot), period: Period(0), node: 0, epoch: Epoch(1) };
        (key, Lease::default())
    };
    let leases = |count: usize| Batch {
        leases: (0..u32::try_from(count).expect("a million")).map(lease).collect(),
        ..Batch::default()
    };
    assert_eq!(leases(BATCH_LEASES_MAX).check(), Ok(()));
    assert!(leases(BATCH_LEASES_MAX + 1).check().is_err());

    let put = |id: usize, bytes: usize| DefinitionPut {
        key: DefinitionKey { kind: StoredKind::Account, id: id.to_string() },
        expected: None,
        definition: StoredDefinition { version: 1, body: vec![0; bytes] },
    };
    let of = |puts: Vec<DefinitionPut>| DefinitionChange { number: 1, puts, audit: vec![] };
    assert_eq!(of((0..CHANGE_ITEMS_MAX).map(|id| put(id, 0)).collect()).check(), Ok(()));
    assert!(of((0..=CHANGE_ITEMS_MAX).map(|id| put(id, 0)).collect()).check().is_err());
    assert_eq!(of(vec![put(0, CHANGE_BYTES_MAX - 1), put(1, 1)]).check(), Ok(()));
    assert!(of(vec![put(0, CHANGE_BYTES_MAX), put(1, 1)]).check().is_err());
}

#[test]
fn a_lease_is_balanced_up_to_the_nano() {
    let lease = |granted, returned, settled| Lease {
        granted: Nanos::new(granted),
        returned: Nanos::new(returned),
        settled: Nanos::new(settled),
        late: Nanos::new(u64::MAX),
        over: Nanos::new(u64::MAX),
    };
    assert!(lease(3, 1, 2).is_balanced());
    assert!(!lease(2, 1, 2).is_balanced());
    assert!(!lease(u64::MAX, u64::MAX, 1).is_balanced());
}
