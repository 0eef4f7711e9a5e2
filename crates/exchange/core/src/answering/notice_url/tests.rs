//! Valid notice URLs, and declarations of their hosts.

use super::*;

#[track_caller]
fn check(url: &str, want: Option<(bool, &str, u16, &str)>) {
    let got = NoticeTarget::parse(url)
        .map(|target| (target.is_tls, target.host, target.port, target.path_and_query));
    assert_eq!(got, want, "{url}");
}

#[test]
fn urls_come_apart() {
    check("http://a.example", Some((false, "a.example", 80, "")));
    check("HTTPS://A.Example:8443/p?q#f", Some((true, "A.Example", 8443, "/p?q")));
    check("https://a_b-c.example?q=${X}|", Some((true, "a_b-c.example", 443, "?q=${X}|")));
    check("https://a#@b/", Some((true, "a", 443, "")));
    check("http://127.0.0.1:80/", Some((false, "127.0.0.1", 80, "/")));
    check("http://[::1]/", Some((false, "::1", 80, "/")));
    check("http://[::ffff:1.2.3.4]:81", Some((false, "::ffff:1.2.3.4", 81, "")));
    check("http://a/http://b@c", Some((false, "a", 80, "/http://b@c")));
}

#[test]
fn what_readers_might_disagree_on_is_refused() {
    for url in [
        "",
        "a.example/",
        "//a.example/",
        "ftp://a.example/",
        "javascript:alert(1)",
        "http:/a.example",
        "http:///a.example",
        "http://",
        "http://user@a.example/",
        "http://user:pass@a.example/",
        "http://good.example\\@evil.example/",
        "http://a.example:/",
        "http://a.example:0/",
        "http://a.example:65536/",
        "http://a.example:+80/",
        "http://a.example:80:80/",
        "http://a..example/",
        "http://.example/",
        "http://a.example./",
        "http://a%2eexample/",
        "http://a.exa mple/",
        "http://a.example/ x",
        "http://a.example/\\x",
        "http://a.example/\r\nHost: b",
        "http://a.example/\u{e9}",
        "http://\u{430}.example/",
        "http://a${AUCTION_IMP_TS}.example/",
        "http://[::1/",
        "http://[a.example]/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        " http://a.example/",
    ] {
        check(url, None);
    }
    let long = format!("http://a.example/{}", "x".repeat(URL_BYTES_MAX));
    check(&long, None);
    assert!(NoticeTarget::parse(&long[..URL_BYTES_MAX]).is_some());
}

#[test]
fn hosts_are_declared_with_their_subdomains_and_addresses_alone() {
    let hosts: Vec<Box<str>> =
        ["dsp.example", "127.0.0.1", "::1", "[::2]", "1", "7f", "x1"].map(Into::into).to_vec();
    for (host, want) in [
        ("dsp.example", true),
        ("DSP.example", true),
        ("n.eu.dsp.example", true),
        ("xdsp.example", false),
        ("dsp.example.evil", false),
        ("example", false),
        ("127.0.0.1", true),
        ("9.127.0.0.1", false),
        ("127.0.0.2", false),
        ("10.0.0.1", false),
        ("evil.1", false),
        ("2130706433", false),
        ("0x7f.1", false),
        ("a.0x7f", false),
        ("a.x1", true),
        ("[::1]", true),
        ("[::2]", true),
        ("[::3]", false),
        ("[::1:1]", false),
    ] {
        let url = format!("http://{host}/");
        let target = NoticeTarget::parse(&url).unwrap();
        assert_eq!(target.is_declared(&hosts), want, "{host}");
        assert!(!target.is_declared(&[]));
    }
}
