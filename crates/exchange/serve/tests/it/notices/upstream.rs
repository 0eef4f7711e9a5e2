//! Before an upstream auction: the bid carries our notices, whose calls fire the DSP's.

use serde_json::{Value, json};

use super::{LOOPBACK, RecordDir, beacons, bid_at, dsp, only_bid, query};
use crate::fixtures::{Host, Reaction, Running, banner, until};

const UPSTREAM: &str = "mode = \"upstream\"\n";

/// The path of one of our notices, with its macros replaced as by the caller's auction.
#[track_caller]
fn called(exchange: &Running, bid: &Value, key: &str, (price, loss): (&str, &str)) -> String {
    let url = bid[key].as_str().expect("a URL");
    let (base, query) = url.split_once('?').expect("a query");
    assert_eq!(
        query,
        "p=${AUCTION_PRICE}&c=${AUCTION_CURRENCY}&l=${AUCTION_LOSS}&m=${AUCTION_MIN_TO_WIN}"
    );
    let [path] = &beacons(exchange, base)[..] else { panic!("a beacon in {url}") };
    format!("{path}?p={price}&c=USD&l={loss}&m=7.77")
}

#[test]
fn ours_fire_theirs() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({ "price": 10 }))]);
    let second = dsp(&[bid_at(&host, "b", json!({ "price": 5 }))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with(UPSTREAM, &[&winner, &second]);
    let reply = exchange.auction(&banner(r#","at":2"#));
    let id = winner.request(0).id();
    let bid = only_bid(&reply);
    assert!(!reply.body.contains(&host.address.to_string()), "{}", reply.body);
    assert_eq!(beacons(&exchange, bid["adm"].as_str().expect("markup")), [""; 0], "not in markup");
    drop(host.call("/b/loss"));
    assert_eq!(host.targets().len(), 1, "the winner has not won above yet");
    let won = format!("{id}|r-7|1|d0||5.01|NS4wMQ%3D%3D|USD|0.501|0|5|1|0");
    let mut caller = exchange.caller();
    for (key, path, told, want) in [
        ("nurl", "/a/win", ("4.2", "0"), won.clone()),
        ("burl", "/a/bill", ("4.2", ""), won),
        ("lurl", "/a/loss", ("", "102"), format!("{id}|r-7|1|d0||||USD||102|5||0")),
    ] {
        let url = called(&exchange, &bid, key, told);
        for _ in 0..3 {
            assert_eq!(caller.get(&url, "").status, 200, "{key}");
        }
        let call = host.call(path);
        assert_eq!(query(&call), want, "{key}");
        assert!(!call.head.contains("4.2") && !call.head.contains("7.77"), "{}", call.head);
    }
    until("repeats are known", || exchange.notices().counters.beacons_duplicate == 6);
    // The upstream price is counted once and passed on to no DSP.
    assert_eq!(exchange.count(|metrics| metrics.upstream_priced.value()), 1);
    assert_eq!(exchange.count(|metrics| metrics.upstream_nanos.value()), 4_200_000);
    assert_eq!(host.targets().len(), 4, "once each: {:?}", host.targets());
}

#[test]
fn a_loss_without_a_reason_is_told_without_one() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with(UPSTREAM, &[&winner]);
    let bid = only_bid(&exchange.auction(&banner("")));
    // An invalid loss code is dropped, and nothing else of the query reaches the DSP.
    let url = called(&exchange, &bid, "lurl", ("1", "1%0d%0ax"));
    assert_eq!(exchange.caller().get(&format!("{url}&l2=3"), "").status, 200);
    let call = host.call("/a/loss");
    assert!(query(&call).contains("|USD|||0|") && !call.head.contains("l2"), "{call:?}");
}

/// The response to the win notice is the markup, once for the caller.
#[test]
fn our_win_notice_relays_the_ad_once() {
    let host = Host::start();
    let ad = "<b id=x>${AUCTION_PRICE} ${AUCTION_ID} ${AUCTION_BID_ID}</b>";
    host.react("/a/win", Reaction::Body(ad.to_owned()));
    let winner = dsp(&[bid_at(&host, "a", json!({ "price": 3, "adm": null }))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with(UPSTREAM, &[&winner]);
    let bid = only_bid(&exchange.auction(&banner("")));
    assert_eq!((&bid["adm"], host.targets().len()), (&Value::Null, 0));
    let url = called(&exchange, &bid, "nurl", ("9", ""));
    let mut caller = exchange.caller();
    let relayed = caller.get(&url, "");
    let id = winner.request(0).id();
    assert_eq!((relayed.status, relayed.body), (200, format!("<b id=x>3 {id} </b>")));
    assert_eq!(relayed.head.matches("text/html; charset=utf-8").count(), 1);
    let again = caller.get(&url, "");
    let forged = caller.get("/n/AAAA", "");
    assert_eq!((again.status, &again.body), (404, &forged.body), "as if it never was");
    assert_eq!(host.calls("/a/win").len(), 1);
}

/// A win notice whose response has no markup is only a win notice: the ad is preloaded.
#[test]
fn our_win_notice_of_a_preloaded_ad_is_taken() {
    for reaction in [Reaction::Status(204), Reaction::Body(String::new())] {
        let host = Host::start();
        host.react("/a/win", reaction.clone());
        let winner = dsp(&[bid_at(&host, "a", json!({ "adm": null, "adid": "7" }))]);
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with(UPSTREAM, &[&winner]);
        let bid = only_bid(&exchange.auction(&banner("")));
        let url = called(&exchange, &bid, "nurl", ("1", ""));
        assert_eq!(exchange.caller().get(&url, "").status, 204, "{reaction:?}");
        assert_eq!(host.calls("/a/win").len(), 1);
    }
}

#[test]
fn an_ad_that_cannot_be_had_is_a_bad_gateway() {
    let status = |code| Reaction::Status(code);
    let big = Reaction::Body("x".repeat(2000));
    for (reaction, keys) in [
        (status(500), ""),
        (status(302), ""),
        (Reaction::Close, ""),
        (Reaction::Hang, "timeout = \"50ms\"\n"),
        (big, "markup_bytes_max = \"1KiB\"\n"),
        (Reaction::Body("${AUCTION_ID}".repeat(1001)), ""),
    ] {
        let host = Host::start();
        host.react("/a/win", reaction.clone());
        let winner = dsp(&[bid_at(&host, "a", json!({ "adm": null }))]);
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with(&format!("{UPSTREAM}{keys}"), &[&winner]);
        let bid = only_bid(&exchange.auction(&banner("")));
        let url = called(&exchange, &bid, "nurl", ("1", ""));
        assert_eq!(exchange.caller().get(&url, "").status, 502, "{reaction:?}");
    }
}

/// For callers with an auction of their own: up to three bids, each with its own notices.
#[test]
fn a_publisher_may_have_them_all() {
    let host = Host::start();
    let prices = [("a", 4.0), ("b", 3.0), ("c", 2.0), ("d", 1.0)];
    let dsps = prices.map(|(id, price)| dsp(&[bid_at(&host, id, json!({ "price": price }))]));
    let of: Vec<_> = dsps.iter().map(|dsp| (dsp.address, "")).collect();
    let publisher = "[[publisher]]\nid = \"p1\"\nnotices = \"upstream\"\nbids = \"all\"\n[[publisher]]\nid = \"p2\"\n";
    let record_dir = RecordDir::new();
    let exchange = record_dir.start(LOOPBACK, &of, publisher);
    let by = |publisher: &str| {
        let site = format!(r#","site":{{"publisher":{{"id":"{publisher}"}}}}"#);
        exchange.auction(&banner(&site)).json()
    };
    let answer = by("p1");
    let seats = answer["seatbid"].as_array().expect("seats").iter();
    let bids: Vec<_> = seats.flat_map(|seat| seat["bid"].as_array().expect("bids")).collect();
    let told: Vec<_> = bids.iter().map(|bid| bid["price"].to_string()).collect();
    assert_eq!(told, ["4", "3", "2"]);
    let loss = host.call("/d/loss");
    assert!(query(&loss).contains("|102|4|"), "{loss:?}");
    for (bid, (id, price)) in bids.iter().zip(prices) {
        let url = called(&exchange, bid, "burl", ("1", ""));
        assert_eq!(exchange.caller().get(&url, "").status, 200);
        let billed = host.call(&format!("/{id}/bill"));
        assert!(query(&billed).contains(&format!("|{price}|")), "{billed:?}");
    }
    // Another publisher has the exchange's mode: final, with only the winner.
    let answer = by("p2");
    assert_eq!(answer["seatbid"].as_array().expect("seats").len(), 1);
    drop(host.call("/a/win"));
}
