//! Purges against responses that came before and after them.

use http::{HeaderMap, HeaderValue};

use super::*;
use crate::fields::surrogate::SURROGATE_KEY;
use crate::key::QueryRules;

const STALE: PurgeEffect = PurgeEffect::Stale(UnixSeconds(7));

fn purge(scope: PurgeScope, effect: PurgeEffect) -> Purge {
    Purge { scope, effect }
}

fn names(text: &'static str) -> SurrogateKeys {
    let mut headers = HeaderMap::new();
    headers.insert(&SURROGATE_KEY, HeaderValue::from_static(text));
    SurrogateKeys::of(&headers)
}

fn key(text: &str) -> CacheKey {
    CacheKey::of(&text.parse().unwrap(), &QueryRules::default()).unwrap()
}

#[test]
fn entries_are_compared_with_purges_that_are_not_applied() {
    let (a, b) = ("http://cdn.example/a", "http://cdn.example/b");
    let mut purges = Purges::default();
    let before = purges.newest();
    purges.list(purge(PurgeScope::Prefix(a.into()), STALE)).unwrap();
    purges.list(purge(PurgeScope::SurrogateKey("x".into()), PurgeEffect::Gone)).unwrap();
    let effect =
        |purges: &Purges, of: &str, text, through| purges.of(of).effect_on(&names(text), through);
    assert_eq!(effect(&purges, a, "", before), Some(STALE));
    assert_eq!(effect(&purges, a, "y x", before), Some(PurgeEffect::Gone));
    assert_eq!(effect(&purges, b, "y", before), None);
    // A response that was asked for after them.
    assert_eq!(effect(&purges, a, "x", purges.newest()), None);
    purges.applied(purges.newest());
    assert_eq!(effect(&purges, a, "x", before), None);
    assert_eq!(purges.pending(), 0);
}

#[test]
fn responses_on_their_way_are_compared_with_all_since_their_request() {
    let mut purges = Purges::default();
    let before = purges.newest();
    let url = "http://cdn.example/a";
    purges.list(purge(PurgeScope::Key(key(url)), STALE)).unwrap();
    purges.list(purge(PurgeScope::SurrogateKey("x".into()), PurgeEffect::Gone)).unwrap();
    purges.applied(purges.newest());
    let since = |purges: &Purges, text: Option<&'static str>, through| {
        purges.of(url).effect_since(text.map(names).as_ref(), through)
    };
    assert_eq!(since(&purges, None, before), Some(STALE));
    assert_eq!(since(&purges, Some("x"), before), Some(PurgeEffect::Gone));
    assert_eq!(purges.of("http://cdn.example/").effect_since(None, before), None);
    assert_eq!(since(&purges, Some("x"), purges.newest()), None);
    // A list from before the request.
    assert_eq!(since(&Purges::default(), Some("x"), purges.newest()), None);
    // Soft ones count from the first on.
    let earlier = PurgeEffect::Stale(UnixSeconds(3));
    purges.list(purge(PurgeScope::Prefix("http".into()), earlier)).unwrap();
    assert_eq!(since(&purges, None, before), Some(earlier));
}

#[test]
fn what_is_forgotten_counts_as_purged() {
    let mut purges = Purges::default();
    let before = purges.newest();
    let list = |purges: &mut Purges| {
        purges.list(purge(PurgeScope::Key(key("http://cdn.example/other")), STALE)).unwrap();
    };
    for _ in 0..RECENT_MAX {
        list(&mut purges);
    }
    assert_eq!(purges.of("http://cdn.example/").effect_since(None, before), None);
    list(&mut purges);
    let forgotten = Some(PurgeEffect::Gone);
    assert_eq!(purges.of("http://cdn.example/").effect_since(None, before), forgotten);
}

#[test]
fn too_many_are_refused_until_some_are_applied() {
    let mut purges = Purges::default();
    let all = || purge(PurgeScope::Prefix("".into()), STALE);
    for _ in 0..PENDING_MAX {
        purges.list(all()).unwrap();
    }
    assert_eq!(purges.list(all()), Err(TooManyPurges));
    purges.list(purge(PurgeScope::Key(key("http://cdn.example/")), STALE)).unwrap();
    purges.applied(PurgeNumber(1));
    assert_eq!(purges.pending(), PENDING_MAX - 1);
    purges.list(all()).unwrap();
}
