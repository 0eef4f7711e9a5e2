//! Clients that nobody here wrote: curl and a browser.

use std::fs;
use std::process::Command;

use ::faults::browser::shown;

use super::fixtures::Proxy;
use super::tls::TlsProxy;

const FRESH: &str = "200 OK\r\ncontent-type: text/html\r\ncache-control: max-age=60\r\netag: \"v1\"\r\n\
                     last-modified: Thu, 26 Nov 2026 00:00:00 GMT\r\n";

/// What curl prints with these arguments. None without curl.
#[expect(clippy::print_stderr, reason = "says that a test has not run")]
fn curl(arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("curl").arg("-sS").args(arguments).output() else {
        eprintln!("SKIPPED: curl is not on the PATH");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {error}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// HTTP version, status, and length of the body.
const FORM: &str = "%{http_version} %{response_code} %{size_download} ";

/// Asks in the ways in which players and download tools ask.
fn check_with_curl(url: &str, version: &str, more: &[&str]) -> Option<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let etag = directory.path().join("etag");
    fs::write(&etag, "\"v1\"\n").expect("a file");
    let etag = etag.display().to_string();
    let cases: [(&[&str], &str); 9] = [
        (&[], "200 10"),
        (&["-r", "1-3"], "206 3"),
        (&["-r", "-4"], "206 4"),
        (&["-r", "20-"], "416 0"),
        (&["-C", "4"], "206 6"),
        (&["-I"], "200 0"),
        (&["--etag-compare", &etag], "304 0"),
        (&["-z", "Fri, 27 Nov 2026 00:00:00 GMT"], "304 0"),
        (&["-r", "1-3", "-H", "if-range: \"v2\""], "200 10"),
    ];
    for (arguments, want) in cases {
        let out = ["-o", "/dev/null", "-w", FORM, url];
        let said = curl(&[arguments, more, &out].concat())?;
        assert_eq!(said.trim_end(), format!("{version} {want}"), "{arguments:?}");
    }
    let parts = curl(&[more, &["-r", "0-1,8-9", url]].concat())?;
    assert!(parts.contains("content-range: bytes 0-1/10\r\n\r\n01\r\n"), "{parts}");
    assert!(parts.contains("content-range: bytes 8-9/10\r\n\r\n89\r\n"), "{parts}");
    Some(())
}

#[test]
fn curl_gets_parts_conditions_and_the_rest() {
    let proxy = Proxy::start("");
    proxy.origin.answer(FRESH, "0123456789");
    let url = format!("http://{}/a", proxy.address);
    if check_with_curl(&url, "1.1", &[]).is_none() {
        return;
    }
    // Two on one connection, of which the second is a hit that hyper does not see.
    let twice = curl(&[&url, &url]).expect("curl is there");
    assert_eq!(twice, "01234567890123456789");
    assert_eq!(proxy.origin.received().len(), 1);
}

#[test]
fn curl_gets_the_same_over_http_2() {
    let tls = TlsProxy::start();
    tls.proxy.origin.answer(FRESH, "0123456789");
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("ca.pem");
    fs::write(&authority, &tls.certificate).expect("a file");
    let url = format!("https://localhost:{}/a", tls.proxy.address.port());
    let more = ["--http2", "--cacert", authority.to_str().expect("text")];
    if check_with_curl(&url, "2", &more).is_some() {
        assert_eq!(tls.proxy.origin.received().len(), 1);
    }
}

/// Fetches `/a` in several ways, and shows what came.
const PAGE: &str =
    "<!doctype html><title></title><link rel=icon href='data:,'><script>(async () => {
    const told = [];
    const tell = async (what, options) => {
        const answer = await fetch('/a', options);
        const text = await answer.text();
        told.push(what + ' ' + answer.status + ' ' + text);
    };
    await tell('first', {});
    await tell('part', { headers: { Range: 'bytes=1-3' }, cache: 'no-store' });
    await tell('again', { cache: 'no-cache' });
    await tell('anew', { cache: 'reload' });
    const used = performance.getEntriesByType('resource').at(-1).nextHopProtocol;
    document.title = told.join(', ') + ', ' + used;
})().catch(error => { document.title = error });</script>";

const WANT: &str =
    "<title>first 200 0123456789, part 206 123, again 200 0123456789, anew 200 0123456789, ";

#[test]
fn a_browser_gets_parts_and_validates() {
    let proxy = Proxy::start("");
    let tls = TlsProxy::start();
    for origin in [&proxy.origin, &tls.proxy.origin] {
        origin.answer(FRESH, PAGE).answer(FRESH, "0123456789");
    }
    let plain = shown(&format!("http://{}/page", proxy.address), &[]);
    let Some(plain) = plain else { return };
    assert!(plain.contains(&format!("{WANT}http/1.1</title>")), "{plain}");
    let url = format!("https://localhost:{}/page", tls.proxy.address.port());
    let encrypted = shown(&url, &["--ignore-certificate-errors"]).expect("it was there");
    assert!(encrypted.contains(&format!("{WANT}h2</title>")), "{encrypted}");
    for proxy in [&proxy, &tls.proxy] {
        let asked: Vec<_> =
            proxy.origin.received().into_iter().map(|request| request.line).collect();
        assert_eq!(asked.iter().filter(|line| *line == "GET /a").count(), 1, "{asked:?}");
    }
}
