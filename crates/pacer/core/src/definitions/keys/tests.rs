//! Idempotency keys: repeated, reused, and expired.

use serde_json::json;

use super::*;

#[test]
fn a_key_stands_for_one_request() {
    let mut keys = IdempotencyKeys::default();
    let (one, other) = (KeyedRequest::new("a", "x"), KeyedRequest::new("a", "y"));
    assert_eq!(keys.look(&one, 0), KeyLookup::Fresh);
    keys.remember(one.clone(), &json!(1), 0);
    assert_eq!(keys.look(&one, KEPT_MS - 1), KeyLookup::Answered(json!(1)));
    assert_eq!(keys.look(&other, KEPT_MS - 1), KeyLookup::Reused);
    assert_eq!(keys.look(&other, KEPT_MS), KeyLookup::Fresh, "a day later");
}

#[test]
fn they_are_so_many() {
    let mut keys = IdempotencyKeys::default();
    for number in 0..=KEYS_MAX {
        keys.remember(KeyedRequest::new(&number.to_string(), ""), &json!(number), 0);
    }
    assert_eq!(keys.look(&KeyedRequest::new("0", ""), 0), KeyLookup::Fresh);
    assert_eq!(keys.look(&KeyedRequest::new("1", ""), 0), KeyLookup::Answered(json!(1)));
    assert_eq!((keys.by_key.len(), keys.by_age.len()), (KEYS_MAX, KEYS_MAX));
}

#[test]
fn their_answers_are_so_many_bytes() {
    let mut keys = IdempotencyKeys::default();
    let answer = json!("x".repeat(ANSWER_BYTES_MAX / 4 - 2));
    for number in [0, 1, 1, 2, 3, 4] {
        keys.remember(KeyedRequest::new(&number.to_string(), ""), &answer, 0);
    }
    let known = |keys: &mut IdempotencyKeys, key: &str| {
        keys.look(&KeyedRequest::new(key, ""), 0) != KeyLookup::Fresh
    };
    assert!(!known(&mut keys, "0") && (1..=4).all(|it| known(&mut keys, &it.to_string())));
    assert_eq!(keys.bytes, ANSWER_BYTES_MAX);
    keys.look(&KeyedRequest::new("0", ""), KEPT_MS);
    assert_eq!((keys.bytes, keys.by_key.len()), (0, 0));
}

/// Digests are stored on disk, so they must never change.
#[test]
fn digests_stay() {
    assert_eq!(KeyedRequest::new("a", "x").body, KeyedRequest::new("b", "x").body);
    assert_ne!(KeyedRequest::new("a", "x").body, KeyedRequest::new("a", "y").body);
    assert_eq!(KeyedRequest::new("a", "{}").body, "95f44026b86983962d7672b2fc3683b6");
}
