//! Passes and versions.

use http::HeaderValue;

use super::*;

#[test]
fn each_pass_is_a_member() {
    let check = |lines: &[&str], want: usize| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&CDN_LOOP, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        assert_eq!(passes(&headers, "vickrey.example"), want, "{lines:?}");
    };
    check(&[], 0);
    check(&[""], 0);
    check(&["vickrey.example"], 1);
    check(&["Vickrey.Example; v=\"1, vickrey.example\", other"], 1);
    check(&["vickrey.example,vickrey.example", "vickrey.example"], 3);
    check(&["xvickrey.example, vickrey.examplex, \u{e9}"], 0);
}

#[test]
fn via_names_the_version_that_was_received() {
    assert_eq!(via_member(Version::HTTP_11, "vickrey"), "1.1 vickrey");
    assert_eq!(via_member(Version::HTTP_2, "vickrey"), "2.0 vickrey");
}
