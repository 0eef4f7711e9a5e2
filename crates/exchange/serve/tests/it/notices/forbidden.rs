//! DSPs choose the URLs of their notices: none of them leads to a forbidden address.

use std::net::TcpListener;

use serde_json::json;

use super::{LOOPBACK, RecordDir, bid_at, dsp};
use crate::fixtures::{Host, Reaction, Running, banner, until};

/// Names of loopback, all declared by a malicious DSP.
const DECLARED: &str = "notice_hosts = [\"127.0.0.1\", \"localhost\", \"0x7f000001\", \"2130706433\", \
                        \"127.1\", \"0177.0.0.1\", \"::1\", \"[::ffff:127.0.0.1]\", \"0.0.0.0\", \
                        \"169.254.169.254\", \"dsp.example\"]\n";

/// One auction for each URL, used as the winner's win notice: none reaches the host.
fn auctions(exchange_keys: &str, dsp_keys: &str, urls: &[String], host: &Host) {
    for url in urls {
        let winner = dsp(&[bid_at(host, "a", json!({ "nurl": url, "burl": null, "lurl": null }))]);
        let record_dir = RecordDir::new();
        let keys = format!("retries = 0\n{exchange_keys}");
        let exchange = record_dir.start(&keys, &[(winner.address, dsp_keys)], "");
        assert_eq!(exchange.auction(&banner("")).status, 200, "it is sold all the same: {url}");
        until(&format!("{url} is given up"), || given_up(&exchange) == 1);
        assert_eq!(host.accepted(), 0, "{url} led to the host");
    }
}

fn given_up(exchange: &Running) -> u64 {
    let unsent = |reason: &str| {
        let metric = format!("exchange_notices_unsent_total{{dsp=\"d0\",reason=\"{reason}\"}}");
        exchange.scraped(&metric).parse::<u64>().expect("a number")
    };
    let unsent: u64 =
        ["unreadable", "bad_url", "undeclared_host", "unsealed"].map(unsent).iter().sum();
    unsent + exchange.notices().counters.best_effort_failed
}

#[test]
fn loopback_is_out_of_reach_by_any_name() {
    let host = Host::start();
    let port = host.address.port();
    let urls = [
        "http://127.0.0.1:{}/win",
        "http://localhost:{}/win",
        "http://0x7f000001:{}/win",
        "http://2130706433:{}/win",
        "http://127.1:{}/win",
        "http://0177.0.0.1:{}/win",
        "http://0.0.0.0:{}/win",
        "http://[::ffff:127.0.0.1]:{}/win",
        "http://127.0.0.1.:{}/win",
        "http://dsp.example@127.0.0.1:{}/win",
        "http://127.0.0.1:{}@dsp.example/win",
        "http://dsp.example\\@127.0.0.1:{}/win",
        "http://127.0.0.1:{}#@dsp.example/win",
        "http://%31%32%37.0.0.1:{}/win",
        "http://127.0.0.1%00.dsp.example:{}/win",
        "//127.0.0.1:{}/win",
        "gopher://127.0.0.1:{}/_x",
        "file:///etc/passwd?{}",
    ];
    let urls = urls.map(|url| url.replace("{}", &port.to_string()));
    auctions("", DECLARED, &urls, &host);
}

#[test]
fn loopback_of_ipv6_too() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return }; // A machine without IPv6.
    let host = Host::on(listener);
    let urls = ["http://[::1]:{}/win", "http://[0:0:0:0:0:0:0:1]:{}/win"]
        .map(|url| url.replace("{}", &host.address.port().to_string()));
    auctions("", DECLARED, &urls, &host);
    // Proves that the host is reachable.
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let dsps = [(winner.address, DECLARED)];
    let exchange = record_dir.start("networks_allowed = [\"::1\"]", &dsps, "");
    exchange.auction(&banner(""));
    drop(host.call("/a/win"));
}

#[test]
fn undeclared_hosts_are_not_called() {
    let host = Host::start();
    let port = host.address.port();
    let urls = [
        "http://127.0.0.1:{}/win",
        "http://dsp.example.127.0.0.1:{}/win",
        "http://localhost:{}/win",
    ];
    let urls = urls.map(|url| url.replace("{}", &port.to_string()));
    auctions(LOOPBACK, "notice_hosts = [\"dsp.example\"]", &urls, &host);
    // An undeclared host is not called by a beacon either, nor is markup fetched from it.
    let winner = dsp(&[
        bid_at(&host, "a", json!({ "price": 2, "adm": null })),
        bid_at(&host, "b", json!({})),
    ]);
    let record_dir = RecordDir::new();
    let dsps = [(winner.address, "notice_hosts = [\"dsp.example\"]")];
    let exchange = record_dir.start(LOOPBACK, &dsps, "");
    let reply = exchange.auction(&banner(""));
    let bid = super::only_bid(&reply);
    assert_eq!(bid["id"], "b", "whose ad is here");
    let beacon = &super::beacons(&exchange, &reply.body)[0];
    assert_eq!(exchange.caller().get(beacon, "").status, 200, "it counts for us");
    assert_eq!(host.accepted(), 0);
}

/// A host that was declared when the beacon was sealed may not be declared any more.
#[test]
fn a_reload_that_takes_a_host_back_holds_for_beacons_under_way() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let dsps = [(winner.address, "")];
    let exchange = record_dir.start(LOOPBACK, &dsps, "");
    let reply = exchange.auction(&banner(""));
    drop(host.call("/a/win"));
    let beacon = &super::beacons(&exchange, &reply.body)[0];
    let rest = record_dir.table(exchange.address, LOOPBACK);
    let dsps = [(winner.address, "notice_hosts = [\"dsp.example\"]")];
    exchange.reload(&crate::fixtures::Setup { dsps: &dsps, rest: &rest, ..Default::default() });
    until("the reload is in force", || {
        exchange.auction(&banner(""));
        given_up(&exchange) > 0
    });
    assert_eq!(exchange.caller().get(beacon, "").status, 200, "it counts for us");
    assert!(host.calls("/a/bill").is_empty());
    assert_eq!(exchange.notices().counters.beacons_accepted, 0, "there is nothing to deliver");
}

/// No picture replaces the markup either.
#[test]
fn an_ad_whose_host_was_taken_back_is_not_relayed() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({ "adm": null }))]);
    let record_dir = RecordDir::new();
    let keys = format!("mode = \"upstream\"\n{LOOPBACK}");
    let exchange = record_dir.start(&keys, &[(winner.address, "")], "");
    let win = || {
        let reply = exchange.auction(&banner(""));
        super::beacons(&exchange, &reply.body).first().cloned()
    };
    let sealed = win().expect("our win notice");
    let rest = record_dir.table(exchange.address, &keys);
    let dsps = [(winner.address, "notice_hosts = [\"dsp.example\"]")];
    exchange.reload(&crate::fixtures::Setup { dsps: &dsps, rest: &rest, ..Default::default() });
    until("the reload is in force", || win().is_none());
    assert_eq!(exchange.caller().get(&sealed, "").status, 502);
    assert_eq!(host.accepted(), 0);
}

#[test]
fn redirects_are_not_followed() {
    let (host, elsewhere) = (Host::start(), Host::start());
    host.react("/a/win", Reaction::Redirect(format!("http://{}/x", elsewhere.address)));
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("retries = 0", &[&winner]);
    exchange.auction(&banner(""));
    until("it has failed", || exchange.notices().counters.best_effort_failed == 1);
    assert_eq!((host.calls("/a/win").len(), elsewhere.accepted()), (1, 0));
}
