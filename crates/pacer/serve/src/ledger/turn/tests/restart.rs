//! Consecutive runs of a ledger in one directory.

use std::time::{Duration, Instant, SystemTime};

use pacer_core::messages::Epoch;
use pacer_core::store::{
    DefinitionChange, DefinitionKey, DefinitionPut, LeaseStore, StoredDefinition, StoredKind,
};

use super::fake::{TestLedger, settle, start_in};
use crate::Keyring;
use crate::store::thread::{DiskStore, StoreOptions};

#[test]
fn what_a_life_had_outstanding_is_frozen_settled_from_the_log_and_reclaimed() {
    const LIMIT: u64 = 20_000;
    const TTL: Duration = Duration::from_secs(2);
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::open_for(folder.path(), 2, TTL);
    ledger.feed.replayed();
    let keys = Keyring::open(folder.path(), None, None).unwrap();
    ledger.define(5, LIMIT);
    let tokens: Vec<_> = (0..10).map(|at| ledger.reserve(at % 2, 5, 100)).collect();
    let texts: Vec<_> = tokens.iter().map(|token| keys.seals().seal(token)).collect();
    for (seq, at) in (1..=3).zip(0..3) {
        ledger.shards[at % 2].settle(&tokens[at]);
        settle(&ledger.feed, seq, &tokens[at]);
    }
    // The shards are gone: nothing expires.
    while ledger.feed.applied_seq() < 3 {
        std::thread::yield_now();
    }
    let epoch = ledger.handle.status().epoch;
    ledger.close();

    let mut ledger = TestLedger::open_for(folder.path(), 2, TTL);
    assert!(epoch < ledger.handle.status().epoch);
    assert_eq!(ledger.feed.applied_seq(), 3);
    ledger.define(5, LIMIT);
    // The rest of what the first run had leased; its fate is unknown.
    let frozen = ledger.why(5).frozen.get();
    assert!((700..=LIMIT - 300).contains(&frozen), "{frozen}");
    assert_eq!(ledger.spent(5), 300);
    // Two more wins are in the log, sealed with the stored key; now another key is configured.
    let keys = Keyring::open(folder.path(), Some([9; 16]), None).unwrap();
    for (seq, text) in (4..=5).zip(&texts[3..]) {
        let token = keys.open_token(text.as_str().as_bytes()).unwrap();
        assert_eq!(token.origin().epoch, epoch);
        settle(&ledger.feed, seq, &token);
    }
    // A repeated settlement changes nothing.
    settle(&ledger.feed, 2, &tokens[1]);
    ledger.until("both are spent", |ledger| ledger.spent(5) == 500);
    // Nothing is reclaimed until the log is replayed.
    let begun = Instant::now();
    ledger.until("tokens expire", |_| begun.elapsed() > TTL + TTL / 2);
    assert_eq!(ledger.why(5).frozen.get(), frozen - 200);
    ledger.feed.replayed();
    ledger.until("the rest is reclaimed", |ledger| ledger.why(5).frozen.get() == 0);
    assert_eq!(ledger.spent(5), 500);
    let mut reserved = 0;
    ledger.until("all that is left is reserved", |ledger| {
        for shard in &mut ledger.shards {
            let token = shard.reserve(5, 500).ok();
            if let Some(token) = token {
                shard.settle(&token);
                reserved += 500;
            }
        }
        assert!(reserved <= LIMIT - 500, "{reserved}");
        reserved == LIMIT - 500
    });
    ledger.until("and spent", |ledger| ledger.spent(5) == LIMIT);
    ledger.close();
}

#[test]
fn a_clean_stop_leaves_frozen_what_reservations_hold_and_nothing_else() {
    const LIMIT: u64 = 20_000;
    // Longer than the test: nothing expires.
    const TTL: Duration = Duration::from_secs(3_600);
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::open_for(folder.path(), 2, TTL);
    ledger.feed.replayed();
    ledger.define(5, LIMIT);
    let tokens: Vec<_> = (0..10).map(|at| ledger.reserve(at % 2, 5, 100)).collect();
    for (seq, at) in (1..=3).zip(0..3) {
        ledger.shards[at % 2].settle(&tokens[at]);
        settle(&ledger.feed, seq, &tokens[at]);
    }
    ledger.shards[1].release(&tokens[9]);
    ledger.stop();

    // Six reservations are unbilled: all else is free at once.
    let mut ledger = TestLedger::open_for(folder.path(), 2, TTL);
    ledger.feed.replayed();
    ledger.define(5, LIMIT);
    assert_eq!((ledger.why(5).frozen.get(), ledger.spent(5)), (600, 300));
    let spendable = LIMIT - 900;
    let mut reserved = 0;
    ledger.until("all that is left is reserved", |ledger| {
        for shard in &mut ledger.shards {
            reserved += shard.reserve(5, 100).map_or(0, |_| 100);
        }
        assert!(reserved <= spendable, "{reserved}");
        reserved == spendable
    });
    // Billed now, they are spent inside the lease: none is late.
    for (seq, token) in (4..).zip(&tokens[3..9]) {
        settle(&ledger.feed, seq, token);
    }
    ledger.until("they are spent", |ledger| ledger.spent(5) == 900);
    let levels = ledger.why(5).levels.unwrap();
    assert!(levels.iter().all(|level| level.late.get() == 0), "{levels:?}");
    assert_eq!(ledger.why(5).frozen.get(), 0);
    ledger.stop();
}

#[test]
fn whoever_only_opens_uses_up_no_epoch() {
    let folder = tempfile::tempdir().unwrap();
    // Far ahead of the clock, so that the next epoch is this one plus one.
    let mut store = DiskStore::open(folder.path(), StoreOptions::default()).unwrap();
    store.begin(1, Epoch(4_000_000_000));
    store.close().unwrap();
    let ledger = TestLedger::first(folder.path(), 1);
    let epoch = ledger.handle.status().epoch.0;
    let key = DefinitionKey { kind: StoredKind::Account, id: "acme".to_owned() };
    let definition = StoredDefinition { version: 1, body: b"{}".to_vec() };
    let put = DefinitionPut { key: key.clone(), expected: Some(0), definition: definition.clone() };
    ledger
        .handle
        .change(DefinitionChange { puts: vec![put], ..DefinitionChange::default() })
        .unwrap();
    ledger.close();
    for _ in 0..3 {
        let mut opened = start_in(folder.path(), 1).open().unwrap();
        assert_eq!(
            opened.definitions(StoredKind::Account),
            Ok(vec![(key.clone(), definition.clone())])
        );
        assert_eq!(opened.definitions(StoredKind::Campaign), Ok(Vec::new()));
    }
    let ledger = TestLedger::first(folder.path(), 1);
    assert_eq!(ledger.handle.status().epoch.0, epoch + 1);
    ledger.close();
}

/// If the store is lost, or an old copy restored, tokens of earlier epochs may still exist.
#[test]
fn an_emptied_directory_begins_no_epoch_again() {
    let seconds = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u32::try_from(since.as_secs()).unwrap()
    };
    let before = seconds();
    let first = tempfile::tempdir().unwrap();
    let ledger = TestLedger::first(first.path(), 1);
    let epoch = ledger.handle.status().epoch.0;
    ledger.close();
    assert!((before..=seconds()).contains(&epoch), "{epoch} of {before}");
    while seconds() == epoch {
        std::thread::yield_now();
    }
    let second = tempfile::tempdir().unwrap();
    let ledger = TestLedger::first(second.path(), 1);
    assert!(ledger.handle.status().epoch.0 > epoch);
    ledger.close();
}

#[test]
fn whoever_closes_loses_nothing_that_was_said() {
    let folder = tempfile::tempdir().unwrap();
    for seq in 1..=5 {
        let mut ledger = TestLedger::open(folder.path(), 1);
        assert_eq!(ledger.feed.applied_seq(), seq - 1);
        ledger.feed.replayed();
        ledger.define(0, 1_000_000);
        assert_eq!(ledger.spent(0), 100 * (seq - 1));
        let token = ledger.reserve(0, 0, 100);
        ledger.shards[0].settle(&token);
        settle(&ledger.feed, seq, &token);
        // At once, before a batch includes it.
        ledger.close();
    }
}
