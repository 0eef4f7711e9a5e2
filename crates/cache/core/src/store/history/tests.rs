//! Purges that are compared with entries when those are read.

use super::*;
use crate::fields::dates::UnixSeconds;
use crate::key::CacheKey;

const STALE: PurgeEffect = PurgeEffect::Stale(UnixSeconds(50));

fn purge(scope: PurgeScope, effect: PurgeEffect) -> Purge {
    Purge { scope, effect }
}

fn name(name: &str) -> PurgeScope {
    PurgeScope::SurrogateKey(name.into())
}

fn prefix(prefix: &str) -> PurgeScope {
    PurgeScope::Prefix(prefix.into())
}

fn history(purges: &[Purge]) -> PurgeHistory {
    let mut history = PurgeHistory::default();
    for (number, purge) in (1..).zip(purges) {
        history.list(PurgeNumber(number), purge);
    }
    history
}

#[test]
fn an_entry_takes_the_purges_since_it_was_written() {
    let history = history(&[
        purge(name("a"), PurgeEffect::Gone),
        purge(prefix("http://one/"), STALE),
        purge(
            PurgeScope::Key(CacheKey::written("http://one/x")),
            PurgeEffect::Stale(UnixSeconds(40)),
        ),
    ]);
    let effect = |key: &str, names: &[u8], through| {
        history.effect_on(key, &SurrogateKeys::listed(names), PurgeNumber(through))
    };
    assert_eq!(effect("http://two/", b"b a", 0), Some(PurgeEffect::Gone));
    assert_eq!(effect("http://two/", b"b a", 1), None);
    assert_eq!(effect("http://one/y", b"", 1), Some(STALE));
    // Of two, the earlier time counts.
    assert_eq!(effect("http://one/x", b"", 1), Some(PurgeEffect::Stale(UnixSeconds(40))));
    assert_eq!(effect("http://one/x", b"", 3), None);
}

#[test]
fn a_purge_of_all_leaves_nothing_that_is_older() {
    let history = history(&[purge(name("a"), STALE), purge(prefix(""), PurgeEffect::Gone)]);
    let effect =
        |through| history.effect_on("http://one/", &SurrogateKeys::default(), PurgeNumber(through));
    assert_eq!((effect(1), effect(2)), (Some(PurgeEffect::Gone), None));
    assert_eq!(history.scopes(), 0);
}

#[test]
fn what_is_forgotten_counts_as_purged_and_what_is_applied_does_not() {
    let mut history = PurgeHistory::default();
    for number in 1..=PREFIXES_MAX as u64 + 1 {
        let scope = prefix(&format!("http://{number}/"));
        history.list(PurgeNumber(number), &purge(scope, STALE));
    }
    let newest = history.newest();
    let effect = |history: &PurgeHistory, through| {
        history.effect_on("http://other/", &SurrogateKeys::default(), through)
    };
    assert_eq!(effect(&history, PurgeNumber(newest.0 - 1)), Some(PurgeEffect::Gone));
    assert_eq!(effect(&history, newest), None);
    let mut history = PurgeHistory::default();
    history.list(PurgeNumber(1), &purge(prefix("http://other/"), STALE));
    history.list(PurgeNumber(2), &purge(prefix("http://other/"), PurgeEffect::Gone));
    history.applied(PurgeNumber(1));
    assert_eq!(effect(&history, PurgeNumber(1)), Some(PurgeEffect::Gone));
    history.applied(PurgeNumber(2));
    assert_eq!((effect(&history, PurgeNumber(1)), history.scopes()), (None, 0));
}

#[test]
fn many_soft_purges_of_one_name_stay_few_and_lose_no_effect() {
    let mut history = PurgeHistory::default();
    for number in 1..=100 {
        let effect = PurgeEffect::Stale(UnixSeconds(1_000 + number));
        history.list(PurgeNumber(number), &purge(name("a"), effect));
    }
    assert_eq!(history.names["a"].len(), OF_SCOPE_MAX);
    let effect = |through| {
        history.effect_on("http://one/", &SurrogateKeys::listed(b"a"), PurgeNumber(through))
    };
    assert_eq!(effect(0), Some(PurgeEffect::Stale(UnixSeconds(1_001))));
    assert_eq!(effect(99), Some(PurgeEffect::Stale(UnixSeconds(1_100))));
}
