//! Markup in responses to win notices, in the final auction: fetched while there is time, or the
//! next bid wins.

use serde_json::{Value, json};

use super::{RecordDir, beacons, bid_at, dsp, only_bid, query};
use crate::fixtures::{Host, Reaction, Running, banner, until};

/// One bid at 10 whose win notice has this response, and one at 5 with its markup.
struct Two {
    exchange: Running,
    host: Host,
    _dsps: [crate::fixtures::Dsp; 2],
    _record_dir: RecordDir,
}

impl Two {
    fn start(reaction: Reaction, keys: &str, change: &Value) -> Self {
        let host = Host::start();
        host.react("/a/win", reaction);
        let mut bid = bid_at(&host, "a", json!({ "price": 10, "adm": null }));
        for (key, value) in change.as_object().expect("an object") {
            bid[key] = value.clone();
        }
        let dsps = [dsp(&[bid]), dsp(&[bid_at(&host, "b", json!({ "price": 5 }))])];
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with(keys, &[&dsps[0], &dsps[1]]);
        Self { exchange, host, _dsps: dsps, _record_dir: record_dir }
    }

    /// Runs an auction and returns the winning bid.
    fn winner(&self, request: &str) -> Value {
        only_bid(&self.exchange.auction(request))
    }
}

#[test]
fn an_ad_is_fetched_and_marked() {
    let ad = "<b>${AUCTION_PRICE}</b>";
    let two = Two::start(Reaction::Body(ad.to_owned()), "", &json!({}));
    let bid = two.winner(&banner(r#","at":2"#));
    let adm = bid["adm"].as_str().expect("markup");
    assert!((bid["id"] == "a") && adm.starts_with("<b>5.01</b>"), "{bid}");
    let [beacon] = &beacons(&two.exchange, adm)[..] else { panic!("{adm}") };
    let lost = two.host.call("/b/loss");
    assert!(query(&lost).contains("|102|5.01|"), "{lost:?}");
    assert_eq!(two.exchange.caller().get(beacon, "").status, 200);
    assert!(query(&two.host.call("/a/bill")).contains("|5.01|"));
    let wins = two.host.calls("/a/win");
    assert_eq!(wins.len(), 1, "the fetch was the win notice");
    assert!(query(&wins[0]).contains("|5.01|"));
}

#[test]
fn who_cannot_show_its_ad_loses() {
    let elsewhere = Host::start();
    let there = format!("http://{}/ad", elsewhere.address);
    for (reaction, keys) in [
        (Reaction::Status(500), ""),
        (Reaction::Status(204), ""),
        (Reaction::Body(String::new()), ""),
        (Reaction::Body("  \n".to_owned()), ""),
        (Reaction::Redirect(there), ""),
        (Reaction::Close, ""),
        (Reaction::Hang, "markup_timeout = \"50ms\""),
        (Reaction::Body("x".repeat(2000)), "markup_bytes_max = \"1KiB\""),
    ] {
        let two = Two::start(reaction.clone(), keys, &json!({}));
        let bid = two.winner(&banner(r#","at":2"#));
        assert_eq!(bid["id"], "b", "{reaction:?}");
        // It set no price: there is no other bid and no floor.
        assert_eq!(bid["price"], 0, "{reaction:?}");
        let lost = two.host.call("/a/loss");
        assert!(query(&lost).contains("|USD||7|"), "{reaction:?}: {lost:?}");
        drop(two.host.call("/b/win"));
        assert_eq!(two.exchange.fates(exchange_core::Fate::NoMarkup), 1);
        assert_eq!(two.host.calls("/a/win").len(), 1, "{reaction:?}");
    }
    assert_eq!(elsewhere.accepted(), 0, "redirects are not followed");
}

/// Fetched markup is judged like inline markup.
#[test]
fn fetched_ads_are_held_to_the_same() {
    let ad = "<img src=\"http://cdn.example/x.png\">";
    let two = Two::start(Reaction::Body(ad.to_owned()), "", &json!({}));
    let secure = banner("").replace(r#""id":"1""#, r#""id":"1","secure":1"#);
    assert_eq!(two.winner(&secure)["id"], "b");
    assert!(query(&two.host.call("/a/loss")).contains("|207|"));
}

/// It never responds in time, and still the caller gets its response in time.
#[test]
fn the_deadline_holds_though_the_ad_hangs() {
    let two = Two::start(Reaction::Hang, "markup_timeout = \"10s\"", &json!({}));
    let bid = two.winner(&banner(r#","tmax":150"#));
    assert_eq!(bid["id"], "b");
    assert_eq!(two.host.calls("/a/win").len(), 1);
    // Its host has 4 s; a response that is hardly late did not wait for it.
    let overdue_us = two.exchange.count(|metrics| metrics.overshoot.snapshot().sum_us());
    assert!(overdue_us < 2_000_000, "{overdue_us} us");
}

/// Hanging hosts delay no other notice, and fetches that no auction waits for are not called.
#[test]
fn hanging_ads_do_not_pile_up() {
    let keys = "markup_timeout = \"5ms\"\nconnections_max = 2\ntimeout = \"300ms\"";
    let two = Two::start(Reaction::Hang, keys, &json!({}));
    for _ in 0..40 {
        assert_eq!(two.winner(&banner(""))["id"], "b");
    }
    let done = || two.exchange.notices().counters.best_effort_delivered;
    until("every other notice is delivered", || done() == 80);
    let wins = two.host.calls("/a/win").len();
    assert!(wins < 40, "{wins} of 40 were called, of which nobody waited for most");
}

/// Once the time is over, no other host gets a win notice that could not win.
#[test]
fn whom_there_is_no_time_for_is_not_asked_for_its_ad() {
    let host = Host::start();
    let bid = |price: u32| {
        let id = format!("b{price}");
        host.react(&format!("/{id}/win"), Reaction::Hang);
        bid_at(&host, &id, json!({ "price": price, "adm": null, "lurl": null }))
    };
    let bids: Vec<_> = (2..10).map(bid).collect();
    let dsps = [dsp(&bids), dsp(&[bid_at(&host, "a", json!({}))])];
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("markup_timeout = \"50ms\"", &[&dsps[0], &dsps[1]]);
    assert_eq!(only_bid(&exchange.auction(&banner("")))["id"], "a");
    drop(host.call("/a/win"));
    let called: Vec<_> = host.targets().iter().map(|target| target[..7].to_owned()).collect();
    assert_eq!(called, ["/b9/win", "/a/win?"]);
}

#[test]
fn a_preloaded_ad_stands_without_an_answer() {
    let two = Two::start(Reaction::Status(500), "retries = 0", &json!({ "adid": "7" }));
    let bid = two.winner(&banner(""));
    assert_eq!((&bid["id"], &bid["adid"], &bid["adm"]), (&json!("a"), &json!("7"), &Value::Null));
    drop(two.host.call("/b/loss"));
    assert_eq!(two.exchange.fates(exchange_core::Fate::NoMarkup), 0);
    let unmarked = "exchange_ads_unmarked_total{dsp=\"d0\",reason=\"absent\"}";
    assert_eq!(two.exchange.scraped(unmarked), "1", "it has no beacon, and is never billed");
}

/// A win notice whose response has no markup is only a win notice.
#[test]
fn the_win_notice_of_a_preloaded_ad_is_called_once() {
    for reaction in [Reaction::Status(204), Reaction::Body(String::new())] {
        let two = Two::start(reaction.clone(), "", &json!({ "adid": "7" }));
        assert_eq!(two.winner(&banner(""))["id"], "a", "{reaction:?}");
        drop(two.host.call("/b/loss"));
        let counters = || two.exchange.notices().counters;
        until("nothing waits to be sent", || {
            let counters = counters();
            counters.best_effort_delivered == 1 && counters.best_effort_waiting == 0
        });
        assert_eq!(two.host.calls("/a/win").len(), 1, "{reaction:?}");
    }
}
