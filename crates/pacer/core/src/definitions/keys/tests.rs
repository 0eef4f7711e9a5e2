//! Idempotency keys: repeated, reused, and forgotten when they are old.

use serde_json::json;

use super::*;

#[test]
fn a_key_stands_for_one_request() {
    let mut keys = Keys::default();
    let (one, other) = (Keyed::new("a", "x"), Keyed::new("a", "y"));
    assert_eq!(keys.look(&one, 0), Known::Fresh);
    keys.keep(one.clone(), &json!(1), 0);
    assert_eq!(keys.look(&one, KEPT_MS - 1), Known::Answered(json!(1)));
    assert_eq!(keys.look(&other, KEPT_MS - 1), Known::Reused);
    assert_eq!(keys.look(&other, KEPT_MS), Known::Fresh, "a day later");
}

#[test]
fn they_are_so_many() {
    let mut keys = Keys::default();
    for number in 0..=KEYS_MAX {
        keys.keep(Keyed::new(&number.to_string(), ""), &json!(number), 0);
    }
    assert_eq!(keys.look(&Keyed::new("0", ""), 0), Known::Fresh);
    assert_eq!(keys.look(&Keyed::new("1", ""), 0), Known::Answered(json!(1)));
    assert_eq!((keys.by_key.len(), keys.by_age.len()), (KEYS_MAX, KEYS_MAX));
}

#[test]
fn their_answers_are_so_many_bytes() {
    let mut keys = Keys::default();
    let answer = json!("x".repeat(ANSWER_BYTES_MAX / 4 - 2));
    for number in [0, 1, 1, 2, 3, 4] {
        keys.keep(Keyed::new(&number.to_string(), ""), &answer, 0);
    }
    let known = |keys: &mut Keys, key: &str| keys.look(&Keyed::new(key, ""), 0) != Known::Fresh;
    assert!(!known(&mut keys, "0") && (1..=4).all(|it| known(&mut keys, &it.to_string())));
    assert_eq!(keys.bytes, ANSWER_BYTES_MAX);
    keys.look(&Keyed::new("0", ""), KEPT_MS);
    assert_eq!((keys.bytes, keys.by_key.len()), (0, 0));
}

/// Digests are kept on disk: another program must come to the same.
#[test]
fn digests_stay() {
    assert_eq!(Keyed::new("a", "x").body, Keyed::new("b", "x").body);
    assert_ne!(Keyed::new("a", "x").body, Keyed::new("a", "y").body);
    assert_eq!(Keyed::new("a", "{}").body, "95f44026b86983962d7672b2fc3683b6");
}
