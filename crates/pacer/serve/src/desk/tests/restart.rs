//! Lives of a ledger one after the other, in one directory.

use std::time::{Duration, Instant};

use pacer_core::store::{Change, Definition, DefinitionKey, Kind, Put};

use super::fake::{Till, start_in, usd};
use crate::Keyring;

#[test]
fn what_a_life_had_outstanding_is_frozen_settled_from_the_log_and_reclaimed() {
    const LIMIT: u64 = 20_000;
    const TTL: Duration = Duration::from_secs(2);
    let folder = tempfile::tempdir().unwrap();
    let mut till = Till::open_for(folder.path(), 2, TTL);
    till.feed.replayed();
    let keys = Keyring::open(folder.path(), None, None).unwrap();
    till.define(5, LIMIT);
    let tokens: Vec<_> = (0..10).map(|at| till.reserve(at % 2, 5, 100)).collect();
    let texts: Vec<_> = tokens.iter().map(|token| keys.seals().seal(token)).collect();
    for (seq, at) in (1..=3).zip(0..3) {
        till.shards[at % 2].settle(&tokens[at]);
        till.feed.settled(seq, &tokens[at], usd());
    }
    // Shards say nothing any more: nothing expires.
    while till.feed.applied_seq() < 3 {
        std::thread::yield_now();
    }
    let epoch = till.handle.status().epoch;
    till.close();

    let mut till = Till::open_for(folder.path(), 2, TTL);
    assert!(epoch < till.handle.status().epoch);
    assert_eq!(till.feed.applied_seq(), 3);
    till.define(5, LIMIT);
    // The rest of what the first life had leased, of which nobody knows what became.
    let frozen = till.why(5).frozen.get();
    assert!((700..=LIMIT - 300).contains(&frozen), "{frozen}");
    assert_eq!(till.spent(5), 300);
    // Two wins more are in the log, sealed with a key that is given by now, as the older one was not.
    let keys = Keyring::open(folder.path(), Some([9; 16]), None).unwrap();
    for (seq, text) in (4..=5).zip(&texts[3..]) {
        let token = keys.open_token(text.as_str().as_bytes()).unwrap();
        assert_eq!(token.origin().epoch, epoch);
        till.feed.settled(seq, &token, usd());
    }
    // What was told before changes nothing.
    till.feed.settled(2, &tokens[1], usd());
    till.until("both are spent", |till| till.spent(5) == 500);
    // No time is enough until the whole log is known.
    let begun = Instant::now();
    till.until("tokens expire", |_| begun.elapsed() > TTL + TTL / 2);
    assert_eq!(till.why(5).frozen.get(), frozen - 200);
    till.feed.replayed();
    till.until("the rest is reclaimed", |till| till.why(5).frozen.get() == 0);
    assert_eq!(till.spent(5), 500);
    let mut reserved = 0;
    till.until("all that is left is reserved", |till| {
        for shard in &mut till.shards {
            let token = shard.reserve(5, 500).ok();
            if let Some(token) = token {
                shard.settle(&token);
                reserved += 500;
            }
        }
        assert!(reserved <= LIMIT - 500, "{reserved}");
        reserved == LIMIT - 500
    });
    till.until("and spent", |till| till.spent(5) == LIMIT);
    till.close();
}

#[test]
fn whoever_only_opens_uses_up_no_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let till = Till::first(folder.path(), 1);
    let epoch = till.handle.status().epoch.0;
    let key = DefinitionKey { kind: Kind::Account, id: "acme".to_owned() };
    let definition = Definition { version: 1, body: b"{}".to_vec() };
    let put = Put { key: key.clone(), expected: Some(0), definition: definition.clone() };
    till.handle.change(Change { puts: vec![put], ..Change::default() }).unwrap();
    till.close();
    for _ in 0..3 {
        let mut opened = start_in(folder.path(), 1).open().unwrap();
        assert_eq!(opened.definitions(Kind::Account), Ok(vec![(key.clone(), definition.clone())]));
        assert_eq!(opened.definitions(Kind::Campaign), Ok(Vec::new()));
    }
    let till = Till::first(folder.path(), 1);
    assert_eq!(till.handle.status().epoch.0, epoch + 1);
    till.close();
}

#[test]
fn whoever_closes_loses_nothing_that_was_said() {
    let folder = tempfile::tempdir().unwrap();
    for seq in 1..=5 {
        let mut till = Till::open(folder.path(), 1);
        assert_eq!(till.feed.applied_seq(), seq - 1);
        till.feed.replayed();
        till.define(0, 1_000_000);
        assert_eq!(till.spent(0), 100 * (seq - 1));
        let token = till.reserve(0, 0, 100);
        till.shards[0].settle(&token);
        till.feed.settled(seq, &token, usd());
        // At once: no batch says it yet.
        till.close();
    }
}
