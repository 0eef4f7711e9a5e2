//! Versions by ALPN and by first bytes.

use super::VersionChoice::{self, Http1, Http2, Neither, Undecided};
use super::choose;
use crate::server::options::ServedVersions::{self, Both};

#[test]
fn versions_are_chosen_as_soon_as_bytes_differ() {
    #[track_caller]
    fn check(served: ServedVersions, alpn: Option<&str>, first: &str, want: VersionChoice) {
        assert_eq!(choose(served, alpn.map(str::as_bytes), first.as_bytes()), want);
    }
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    check(Both, None, "", Undecided);
    check(Both, None, "P", Undecided);
    check(Both, None, "PO", Http1);
    check(Both, None, "POST / HTTP/1.1\r\nhost: x\r\n\r\n", Http1);
    check(Both, None, &preface[..23], Undecided);
    check(Both, None, preface, Http2);
    check(Both, None, &format!("{preface}more"), Http2);
    check(Both, Some("h2"), "G", Http2);
    check(Both, Some("http/1.1"), preface, Http1);
    check(ServedVersions::Http1, None, preface, Http1);
    check(ServedVersions::Http2, None, preface, Http2);
    check(ServedVersions::Http2, None, "PRI *", Undecided);
    check(ServedVersions::Http2, None, "G", Neither);
}
