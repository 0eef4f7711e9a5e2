//! Notices over the version of HTTP that their host offers.

use std::net::{IpAddr, Ipv4Addr};

use testbed::dsp::{self, DspProfile};
use testbed::server::{ServedVersions, ServerOptions, ServerTls};

use super::{LOOPBACK, RecordDir, beacons};
use crate::fixtures::{Running, Setup, banner, listener, until};

const AUCTIONS: u64 = 20;

/// Sells an impression several times to a DSP that serves `http` alone, and has both of its notices
/// delivered.
fn check(http: ServedVersions, is_tls: bool, keys: &str) {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (tls, authority) = ServerTls::generated(local).expect("a certificate");
    let profile = DspProfile { no_bid_ppm: 0, notices: true, ..DspProfile::default() };
    let profile = DspProfile { seats: vec!["s".to_owned()], ..profile };
    let options = ServerOptions { http, tls: is_tls.then_some(tls), ..ServerOptions::default() };
    let fleet = dsp::start(vec![profile], &options).expect("a fleet");
    let ca = if is_tls { format!("ca = '''{authority}'''\n") } else { String::new() };
    let (listener, record_dir) = (listener(), RecordDir::new());
    let address = listener.local_addr().expect("an address");
    let notices = record_dir.table(address, &format!("{LOOPBACK}{ca}"));
    let url = fleet.url(0);
    let rest =
        format!("{notices}[[dsp]]\nid = \"d0\"\nurl = \"{url}\"\nseats = [\"s\"]\n{ca}{keys}");
    let exchange = Running::on(listener, &Setup { rest: &rest, ..Setup::default() });
    for auction in 1..=AUCTIONS {
        let reply = exchange.auction(&banner(""));
        assert_eq!(reply.status, 200, "{reply:?}");
        for beacon in beacons(&exchange, &reply.body) {
            assert_eq!(exchange.caller().get(&beacon, "").status, 200);
        }
        until("both notices have come", || {
            let total = fleet.stats().total();
            (total.win.counted, total.bill.counted) == (auction, auction)
        });
    }
    let total = fleet.stats().total();
    assert_eq!((total.win.calls, total.bill.calls), (AUCTIONS, AUCTIONS));
    assert_eq!((total.malformed, total.win.malformed + total.bill.malformed), (0, 0));
    // One for bids, and one for notices. Over HTTP/1.1, both notices may be due at once.
    let most = if http == ServedVersions::Http2 { 2 } else { 3 };
    assert!((2..=most).contains(&total.connections_open), "{http:?}: {}", total.connections_open);
}

#[test]
fn notices_go_over_http2_where_the_host_offers_it() {
    use ServedVersions::{Both, Http1, Http2};
    // Without TLS, a host is known to speak it if its DSP is called so.
    check(Http2, false, "http = \"2\"\n");
    check(Both, false, "");
    check(Http1, false, "http = \"1.1\"\n");
    // With TLS, ALPN tells.
    check(Http2, true, "");
    check(Http1, true, "");
}
