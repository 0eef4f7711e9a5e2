//! Names of responses.

use super::*;

#[test]
fn names_are_separated_by_spaces_and_compared_in_full() {
    let mut headers = HeaderMap::new();
    headers.append(&SURROGATE_KEY, HeaderValue::from_static(" creative/17\t advertiser/3 "));
    headers.append(&SURROGATE_KEY, HeaderValue::from_static("all"));
    let keys = SurrogateKeys::of(&headers);
    let names: Vec<_> = keys.iter().collect();
    assert_eq!(names, [&b"creative/17"[..], b"advertiser/3", b"all"]);
    assert!(keys.contains("creative/17") && keys.contains("all"));
    assert!(!keys.contains("creative/1") && !keys.contains(""));
    assert!(!SurrogateKeys::default().contains(""));
}

#[test]
fn keys_of_purges_are_single_names() {
    assert!(is_surrogate_key(&"k".repeat(KEY_BYTES_MAX)));
    for wrong in ["", "a b", "a\n", &"k".repeat(KEY_BYTES_MAX + 1)] {
        assert!(!is_surrogate_key(wrong), "{wrong:?}");
    }
}
