//! Valid and invalid request heads.

use hyper::Request;

use super::*;

#[track_caller]
fn check(version: Version, headers: &[(&str, &str)], want: Result<(), MalformedHead>) {
    let mut request = Request::builder().version(version);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    assert_eq!(check_head(&head), want, "{version:?} {headers:?}");
}

#[test]
fn hosts() {
    use MalformedHead::{Host, HostCount};
    let check = |headers: &[(&str, &str)], want| check(Version::HTTP_11, headers, want);
    check(&[], Err(HostCount));
    check(&[("host", "a"), ("host", "a")], Err(HostCount));
    for host in ["", "a", "a.example:8080", "192.0.2.1:80", "[::1]", "[::1]:80", "a:"] {
        check(&[("host", host)], Ok(()));
    }
    for host in ["a b", "a@b", "a:b", "a, b", "a/b", "[::1", "http://a"] {
        check(&[("host", host)], Err(Host));
    }
}

#[test]
fn http_1_0_and_http_2_need_no_host() {
    check(Version::HTTP_10, &[], Ok(()));
    check(Version::HTTP_2, &[], Ok(()));
    check(Version::HTTP_10, &[("host", "a")], Ok(()));
    let two = [("host", "a"), ("host", "b")];
    check(Version::HTTP_10, &two, Err(MalformedHead::HostCount));
}

#[test]
fn transfer_codings() {
    let check = |codings: &[&str], want| {
        let coded = codings.iter().map(|coding| ("transfer-encoding", *coding));
        let headers: Vec<_> = [("host", "a")].into_iter().chain(coded).collect();
        check(Version::HTTP_11, &headers, want);
    };
    check(&["Chunked"], Ok(()));
    for refused in [&["chunked", "chunked"][..], &["chunked, chunked"], &["gzip, chunked"], &[""]] {
        check(refused, Err(MalformedHead::TransferEncoding));
    }
}

/// Whatever is plain is a host as the parser of authorities reads it.
#[test]
fn plain_hosts_are_hosts() {
    let letters = b"aZ0.-:@[]/% ";
    let count = letters.len();
    let mut plain = 0;
    for number in 0..count.pow(5) {
        let mut rest = number;
        let mut value = Vec::new();
        while rest > 0 {
            value.push(letters[rest % count]);
            rest /= count;
        }
        if is_plain_host(&value) {
            plain += 1;
            let authority = Authority::try_from(&*value);
            assert!(authority.is_ok_and(|it| value.starts_with(it.host().as_bytes())), "{value:?}");
        }
    }
    assert!(plain > 3_000, "{plain}");
}
