//! DSPs with TLS: which certificates are trusted, and that all else is unchanged.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use exchange_core::ResponseFate;
use exchange_core::record::CallOutcome;
use exchange_serve::{Backoff, ExchangeConfig};
use http2::Http2ErrorCode;
use runtime::config::ms;
use testbed::dsp::{self, BidFault, DspAct, DspBehaviour, DspProfile, Fleet};
use testbed::server::{Cut, DripFrom, Http2Fault, ServedVersions, ServerOptions, ServerTls};

use crate::fixtures::{Dsp, Running, Setup, banner, until};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One DSP that bids whenever it can, and its authority's certificate.
fn fleet(profile: DspProfile, listen: IpAddr) -> (Fleet, String) {
    let (tls, authority) = ServerTls::generated(LOOPBACK).expect("a certificate");
    let dsps = vec![DspProfile { no_bid_ppm: 0, seats: vec!["s".to_owned()], ..profile }];
    let options = ServerOptions { listen, tls: Some(tls), ..ServerOptions::default() };
    (dsp::start(dsps, &options).expect("a fleet"), authority)
}

/// An exchange with DSP `d0` at `url`, whose certificate is signed by `authority`, and another DSP
/// without TLS.
fn exchange(url: &str, authority: &str, keys: &str, other: &Dsp) -> Running {
    let rest = format!(
        "[[dsp]]\nid = \"d0\"\nurl = \"{url}\"\nca = '''{authority}'''\nseats = [\"s\"]\nbreaker = false\n{keys}\n\
         [[dsp]]\nid = \"d1\"\nurl = \"http://{}/bid\"\n",
        other.address
    );
    let tune = |config: &mut ExchangeConfig| {
        config.pool.drain_timeout = ms(100);
        config.pool.backoff = Backoff { unanswered_max: 1_000_000, min: ms(1), max: ms(1) };
    };
    Running::start(&Setup { tune, rest: &rest, ..Setup::default() })
}

/// Runs this many auctions, all of which are filled.
fn auctions(exchange: &Running, count: usize, request: &str) {
    for _ in 0..count {
        assert_eq!(exchange.auction(request).status, 200);
    }
}

#[test]
fn a_dsp_is_asked_over_one_connection_that_is_kept() {
    for host in ["127.0.0.1", "localhost"] {
        let (fleet, authority) = fleet(DspProfile::default(), LOOPBACK);
        let other = Dsp::bidding("0.01");
        let url = fleet.url(0).replace("127.0.0.1", host);
        let exchange = exchange(&url, &authority, "", &other);
        until("its name is resolved", || {
            exchange.auction(&banner(""));
            exchange.outcomes(0, CallOutcome::Answered) > 0
        });
        let before = exchange.responses(0, ResponseFate::Bids);
        auctions(&exchange, 20, &banner(""));
        assert_eq!(exchange.responses(0, ResponseFate::Bids), before + 20);
        assert_eq!(exchange.open(0), 1, "on one connection");
        assert_eq!(fleet.stats().total().connections_open, 1);
    }
}

/// More than any record or socket buffer, in both directions.
#[test]
fn large_requests_and_answers() {
    let profile = DspProfile { bid_bytes: 700_000, ..DspProfile::default() };
    let (fleet, authority) = fleet(profile, LOOPBACK);
    let other = Dsp::bidding("0.01");
    let exchange = exchange(&fleet.url(0), &authority, "response_bytes_max = \"1MiB\"", &other);
    let request = banner(&format!(r#","ext":"{}""#, "x".repeat(200_000)));
    auctions(&exchange, 5, &request);
    auctions(&exchange, 5, &banner(""));
    assert_eq!(exchange.responses(0, ResponseFate::Bids), 10);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1, "kept throughout");
    assert_eq!(fleet.stats().total().malformed, 0);
}

#[test]
fn compressed_answers() {
    let (fleet, authority) = fleet(DspProfile::default(), LOOPBACK);
    fleet.set_behaviour(0, DspAct::Gzip { always: false }).expect("gzip");
    let other = Dsp::bidding("0.01");
    for keys in ["gzip = true", "gzip = false"] {
        let exchange = exchange(&fleet.url(0), &authority, keys, &other);
        auctions(&exchange, 5, &banner(""));
        assert_eq!(exchange.responses(0, ResponseFate::Bids), 5, "{keys}");
    }
    fleet.set_behaviour(0, DspAct::GzipBomb { inflated: 32 << 20 }).expect("a bomb");
    let exchange = exchange(&fleet.url(0), &authority, "gzip = true", &other);
    auctions(&exchange, 5, &banner(""));
    assert_eq!(exchange.outcomes(0, CallOutcome::TooLarge), 5);
}

/// What the DSP offers, and what `http` asks for.
#[test]
fn alpn_and_the_configuration_choose_the_version_of_http() {
    use ServedVersions::{Both, Http1, Http2};
    let (tls, authority) = ServerTls::generated(LOOPBACK).expect("a certificate");
    for (served, keys, want) in [
        (Both, "", "2"),
        (Both, "http = \"auto\"", "2"),
        (Both, "http = \"1.1\"", "1.1"),
        (Both, "http = \"2\"", "2"),
        (Http1, "", "1.1"),
        (Http1, "http = \"2\"", "neither"),
        (Http2, "", "2"),
        (Http2, "http = \"1.1\"", "neither"),
    ] {
        let profile =
            DspProfile { no_bid_ppm: 0, seats: vec!["s".to_owned()], ..DspProfile::default() };
        let options =
            ServerOptions { tls: Some(tls.clone()), http: served, ..ServerOptions::default() };
        let fleet = dsp::start(vec![profile], &options).expect("a fleet");
        // Over HTTP/1.1 it bids.
        let reset = Http2Fault::Reset { code: Http2ErrorCode::CANCEL.0 };
        fleet.set_behaviour(0, DspAct::Http2(reset)).expect("a behaviour that makes sense");
        let other = Dsp::bidding("0.01");
        let exchange = exchange(&fleet.url(0), &authority, keys, &other);
        auctions(&exchange, 1, &banner(""));
        let seen = CallOutcome::ALL.into_iter().find(|outcome| exchange.outcomes(0, *outcome) > 0);
        let version = match seen {
            Some(CallOutcome::Reset) => "2",
            Some(CallOutcome::Answered) => "1.1",
            Some(CallOutcome::Unreachable) => "neither",
            other => panic!("{served:?}, {keys}: {other:?}"),
        };
        assert_eq!(version, want, "{served:?}, {keys}");
        if served == Http1 && want == "neither" {
            let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
            assert!(!errors.is_empty(), "the reason is kept");
        }
    }
}

/// A DSP with a wrong certificate is not called, and affects no other.
#[test]
fn a_certificate_that_is_not_good_is_no_connection() {
    let (trusted, authority) = fleet(DspProfile::default(), LOOPBACK);
    let (_, another) = ServerTls::generated(LOOPBACK).expect("a certificate");
    let (misnamed, of_misnamed) =
        fleet(DspProfile::default(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
    let plain = Dsp::bidding("9");
    let other = Dsp::bidding("1");
    for (url, authority, asked) in [
        (trusted.url(0), &another, "by another authority"),
        (misnamed.url(0), &of_misnamed, "for another address"),
        (format!("https://{}/bid", plain.address), &authority, "of nobody"),
    ] {
        let exchange = exchange(&url, authority, "", &other);
        for _ in 0..2 {
            assert_eq!(exchange.auction(&banner("")).price(), "1", "{asked}");
        }
        assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), 2, "{asked}");
        assert_eq!(exchange.outcomes(1, CallOutcome::Answered), 2, "{asked}");
        let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
        assert!(errors[0].1.contains("cannot connect"), "{asked}: {errors:?}");
        assert_eq!(exchange.open(0), 0, "{asked}");
    }
    assert_eq!(trusted.stats().total().requests + misnamed.stats().total().requests, 0);
    assert_eq!(plain.requests(), 0);
}

/// A hanging handshake ends with the attempt to connect.
#[test]
fn a_handshake_that_hangs_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address");
    let other = Dsp::bidding("1");
    let rest = format!(
        "[[dsp]]\nid = \"d0\"\nurl = \"https://{address}/\"\nbreaker = false\n\
         [[dsp]]\nid = \"d1\"\nurl = \"http://{}/\"\n",
        other.address
    );
    let pool = "connect_timeout = \"50ms\"";
    let exchange = Running::start(&Setup { pool, rest: &rest, ..Setup::default() });
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.outcomes(0, CallOutcome::Unreachable), 1);
    let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
    assert!(errors[0].1.contains("timed out"), "{errors:?}");
}

#[test]
fn sick_answers_cost_as_little_as_in_the_clear() {
    let drip = DspAct::Trickle { bytes: 1, every: Duration::from_millis(1), from: DripFrom::Head };
    for (act, want) in [
        (DspAct::Hang, CallOutcome::Late),
        (DspAct::Garbage, CallOutcome::Malformed),
        (DspAct::Close { at: Cut::Before }, CallOutcome::Reset),
        (DspAct::Close { at: Cut::Body }, CallOutcome::Malformed),
        (DspAct::Reset { at: Cut::Body }, CallOutcome::Malformed),
        (BidFault::Huge { bytes: None }.into(), CallOutcome::TooLarge),
        (DspAct::Interim { code: 103, count: None }, CallOutcome::TooLarge),
        (drip, CallOutcome::Trickle),
    ] {
        let (fleet, authority) = fleet(DspProfile::default(), LOOPBACK);
        let other = Dsp::bidding("0.01");
        let timeout = if act == DspAct::Hang { "timeout = \"100ms\"" } else { "" };
        let keys = format!("http = \"1.1\"\n{timeout}");
        let exchange = exchange(&fleet.url(0), &authority, &keys, &other);
        auctions(&exchange, 3, &banner(""));
        fleet.set_behaviour(0, act.clone()).expect("a behaviour that makes sense");
        auctions(&exchange, 4, &banner(""));
        assert_eq!(exchange.outcomes(0, want), 4, "{act:?}");
        fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
        let bids = || exchange.responses(0, ResponseFate::Bids);
        let before = bids();
        until("it bids again", || {
            auctions(&exchange, 1, &banner(""));
            bids() > before
        });
        until("connections are few", || fleet.stats().total().connections_open <= 1);
    }
}
