//! Where floors come from, and their exact values.

use openrtb::codes::MediaType;
use serde_json::{Value, json};
use units::{Cpm, Currency};

use crate::auction::fate::Fate;
use crate::fixtures::{
    answers, bid, cpm, imp, market, merged, ppm, price, request, response, with_auction,
};
use crate::judging::judge::judge;
use crate::market::size::AdSize;
use crate::market::{DealTerms, FloorRule, Market, PublisherTerms};

/// The floor, in the auction's currency, for a bid of the first DSP on the first impression. A bid
/// at that floor must pass and one a micro below must not.
#[track_caller]
fn check_in(market: &Market, of_request: &Value, of_bid: &Value, want: &str) {
    let body = request(of_request.clone());
    let want = cpm(want);
    let has_banner = of_request["imp"][0].get("banner").is_some();
    let shows_video = of_bid["mtype"].as_u64().map_or(!has_banner, |mtype| mtype > 1);
    with_auction(market, &body, |auction| {
        let judged = |micros: u64| {
            let price = Cpm::new(micros).unwrap().to_string();
            let price: Value = serde_json::from_str(&price).unwrap();
            let own = json!({ "cur": auction.currency.code() });
            let own = merged(&serde_json::from_str(&response(&[])).unwrap(), &own);
            let adm = if shows_video { "<VAST/>" } else { "<p>" };
            let priced = json!({ "price": price, "adm": adm });
            let priced = merged(&bid(of_bid.clone()), &priced);
            let own = merged(&own, &json!({ "seatbid": [{ "bid": [priced] }] }));
            let answers = [(0, own.to_string())];
            let judgement = judge(auction, &self::answers(auction, &answers));
            judgement.bids[0].entry.map(|entry| judgement.entries[entry].floor)
        };
        let below = match of_bid.get("dealid") {
            Some(_) => Fate::BelowDealFloor,
            None => Fate::BelowFloor,
        };
        assert_eq!(judged(1_000_000_000_000), Ok(want), "{body} {of_bid}");
        if want > Cpm::ZERO {
            assert_eq!(judged(want.micros()), Ok(want), "{body} {of_bid}");
        }
        if want.micros() > 1 {
            assert_eq!(judged(want.micros() - 1), Err(below), "{body} {of_bid}");
        }
    });
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
#[track_caller]
fn check(of_imp: Value, of_bid: Value, want: &str) {
    check_in(&market(), &json!({ "imp": [imp(of_imp)] }), &of_bid, want);
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn video(own: Value) -> Value {
    json!({ "banner": null, "bidfloor": 2, "video": merged(&json!({ "mimes": ["v"] }), &own) })
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn audio(own: Value) -> Value {
    json!({ "banner": null, "bidfloor": 2, "audio": merged(&json!({ "mimes": ["a"] }), &own) })
}

#[test]
fn an_open_bid_meets_the_highest() {
    check(json!({}), json!({}), "0");
    check(json!({ "bidfloor": 0.85 }), json!({}), "0.85");
    check(json!({ "bidfloor": 0 }), json!({}), "0");
    check(json!({ "bidfloor": 1.0000001 }), json!({}), "1.000001");
    // The impression's, and for video and audio also theirs.
    check(video(json!({ "mincpmpersec": 0.1 })), json!({ "dur": 30 }), "3");
    check(video(json!({ "mincpmpersec": 0.1 })), json!({ "dur": 20 }), "2");
    check(video(json!({ "mincpmpersec": 0.1 })), json!({ "dur": 19 }), "2");
    check(audio(json!({ "mincpmpersec": 0.1 })), json!({ "dur": 30 }), "3");
    let both = merged(
        &video(json!({ "mincpmpersec": 0.1 })),
        &json!({ "banner": { "w": 1, "h": 1 }, "audio": { "mimes": ["a"], "mincpmpersec": 0.2 } }),
    );
    check(both.clone(), json!({ "mtype": 2, "dur": 30 }), "3");
    check(both.clone(), json!({ "mtype": 3, "dur": 30 }), "6");
    check(both, json!({ "mtype": 1, "dur": 30 }), "2");
    // One currency for all but deals.
    let euros = merged(&video(json!({ "mincpmpersec": 0.1 })), &json!({ "bidfloorcur": "EUR" }));
    check(euros.clone(), json!({ "dur": 30 }), "3.24");
    check(euros, json!({ "dur": 1 }), "2.16");
    // Both forms of guidance: the higher.
    let ranges = json!([{ "mindur": 1, "bidfloor": 4 }]);
    let of = |per_second: f64| json!({ "mincpmpersec": per_second, "durfloors": ranges });
    check(video(of(0.1)), json!({ "dur": 30 }), "4");
    check(video(of(0.2)), json!({ "dur": 30 }), "6");
}

#[test]
fn floors_by_duration() {
    let ranges = json!([
        { "mindur": 1, "maxdur": 15, "bidfloor": 5 },
        { "mindur": 16, "maxdur": 30, "bidfloor": 10 },
        { "mindur": 31, "bidfloor": 20 },
    ]);
    let of = |ranges: &Value| video(json!({ "durfloors": ranges }));
    for (dur, want) in [(1, "5"), (15, "5"), (16, "10"), (30, "10"), (31, "20"), (u32::MAX, "20")] {
        check(of(&ranges), json!({ "dur": dur }), want);
    }
    // Absent or zero: the highest.
    check(of(&ranges), json!({}), "20");
    check(of(&ranges), json!({ "dur": 0 }), "20");
    // Overlapping: the highest match. Outside all: the impression's.
    let open =
        json!([{ "maxdur": 20, "bidfloor": 7 }, { "mindur": 10, "maxdur": 20, "bidfloor": 9 }]);
    for (dur, want) in [(1, "7"), (9, "7"), (10, "9"), (20, "9"), (21, "2")] {
        check(of(&open), json!({ "dur": dur }), want);
    }
    check(of(&json!([{ "mindur": 1 }])), json!({ "dur": 5 }), "2");
    check(of(&json!([])), json!({ "dur": 5 }), "2");
}

#[test]
fn an_untold_duration_is_the_longest() {
    let of = |longest: Value| video(merged(&json!({ "mincpmpersec": 0.1 }), &longest));
    check(of(json!({ "maxduration": 60 })), json!({}), "6");
    check(of(json!({ "maxduration": 60 })), json!({ "dur": 0 }), "6");
    check(of(json!({ "maxduration": 60 })), json!({ "dur": 30 }), "3");
    check(of(json!({ "rqddurs": [15, 60, 30] })), json!({}), "6");
    check(of(json!({ "poddur": 90 })), json!({}), "9");
    check(of(json!({ "maxduration": 30, "poddur": 90 })), json!({}), "3");
    check(of(json!({ "maxduration": 30, "rqddurs": [15, 60] })), json!({}), "3");
    check(of(json!({ "maxduration": 30, "maxextended": 15 })), json!({}), "4.5");
    check(of(json!({ "maxduration": 30, "maxextended": 0 })), json!({}), "3");
    check(of(json!({ "maxduration": 30, "maxextended": 45, "poddur": 60 })), json!({}), "6");
    check(of(json!({ "maxduration": 30, "maxextended": -1, "poddur": 60 })), json!({}), "6");
    check(of(json!({ "maxduration": 30, "maxextended": 45, "rqddurs": [15, 60] })), json!({}), "6");
    // Unlimited: the longest named.
    check(of(json!({ "maxduration": 30, "maxextended": -1 })), json!({}), "3");
    check(of(json!({ "maxduration": 30, "maxextended": -1 })), json!({ "dur": 60 }), "6");
    let extended = json!({ "mincpmpersec": 0.1, "maxduration": 30, "maxextended": 15 });
    check(audio(extended), json!({}), "4.5");
    check(of(json!({})), json!({}), "2");
}

#[test]
fn a_deal_bid_meets_the_deals_floor_alone() {
    let of = |deal: Value, of_imp: Value| {
        let deal = merged(&json!({ "id": "d" }), &deal);
        merged(&json!({ "bidfloor": 2, "pmp": { "deals": [deal] } }), &of_imp)
    };
    let under = |of_bid: Value| merged(&json!({ "dealid": "d" }), &of_bid);
    let plain = || under(json!({}));
    check(of(json!({ "bidfloor": 1 }), json!({})), plain(), "1");
    check(of(json!({ "bidfloor": 3 }), json!({})), plain(), "3");
    // Explicit 0 is 0; an absent one is the impression's.
    check(of(json!({ "bidfloor": 0 }), json!({})), plain(), "0");
    check(of(json!({}), json!({})), plain(), "2");
    check(of(json!({}), json!({ "bidfloor": null })), plain(), "0");
    // An absent currency is USD, not the impression's; an inherited floor keeps its own.
    let euros = || json!({ "bidfloorcur": "EUR" });
    check(of(json!({ "bidfloor": 1 }), euros()), plain(), "1");
    check(of(json!({ "bidfloor": 1, "bidfloorcur": "EUR" }), json!({})), plain(), "1.08");
    check(of(json!({}), euros()), plain(), "2.16");
    check(of(euros(), json!({})), plain(), "2");
    // Inherits from video and audio, then the impression, even if lower.
    let timed = || video(json!({ "mincpmpersec": 0.05, "maxduration": 60 }));
    check(of(json!({}), timed()), under(json!({ "dur": 10 })), "0.5");
    check(of(json!({}), timed()), plain(), "3");
    check(of(json!({}), audio(json!({ "mincpmpersec": 0.5 }))), under(json!({ "dur": 10 })), "5");
    check(of(json!({}), video(json!({}))), under(json!({ "dur": 10 })), "2");
    check(of(json!({ "bidfloor": 0 }), timed()), under(json!({ "dur": 10 })), "0");
    // The deal's own floors by duration apply only to video and audio.
    let by_second = || json!({ "mincpmpersec": 0.2 });
    check(of(by_second(), timed()), under(json!({ "dur": 10 })), "2");
    check(of(by_second(), timed()), plain(), "12");
    check(of(by_second(), json!({})), under(json!({ "dur": 100 })), "2");
    let ranges = || json!({ "durfloors": [{ "maxdur": 15, "bidfloor": 5 }, { "mindur": 16, "maxdur": 30, "bidfloor": 8 }] });
    check(of(ranges(), timed()), under(json!({ "dur": 15 })), "5");
    check(of(ranges(), timed()), under(json!({ "dur": 16 })), "8");
    check(of(ranges(), timed()), plain(), "8");
    check(of(ranges(), timed()), under(json!({ "dur": 40 })), "2");
    check(of(ranges(), json!({})), plain(), "2");
    check(of(ranges(), json!({})), under(json!({ "dur": 15 })), "2");
    check(of(json!({ "at": 3, "bidfloor": 4 }), json!({})), plain(), "4");
}

fn rule(floor: &str) -> FloorRule {
    FloorRule { publisher: None, format: None, country: None, size: None, floor: price(floor) }
}

#[test]
fn rules_hold_for_open_bids_where_they_match() {
    let mut market = market();
    market.floors = vec![
        FloorRule { publisher: Some("p1".into()), ..rule("1 USD") },
        FloorRule { country: Some("DEU".into()), ..rule("2 EUR") },
        FloorRule { format: Some(MediaType::Video), ..rule("3 USD") },
        FloorRule { size: Some(AdSize::new(300, 250)), ..rule("4 USD") },
        FloorRule {
            publisher: Some("p2".into()),
            size: Some(AdSize::new(728, 90)),
            ..rule("9 USD")
        },
        FloorRule { publisher: Some("p3".into()), floor: price("5 ZZZ"), ..rule("1 USD") },
    ];
    let site = |id: &str| json!({ "site": { "publisher": { "id": id } } });
    let with =
        |of_imp: Value, of_request: Value| merged(&json!({ "imp": [imp(of_imp)] }), &of_request);
    let sizes = |sizes: &[(u32, u32)]| {
        let formats: Vec<Value> = sizes.iter().map(|(w, h)| json!({ "w": w, "h": h })).collect();
        json!({ "banner": { "format": formats } })
    };
    let large = || sizes(&[(728, 90)]);
    let germany = json!({ "device": { "geo": { "country": "deu" } } });
    let of_video = || json!({ "banner": null, "video": { "mimes": ["v"] } });
    let deal = json!({ "pmp": { "deals": [{ "id": "d" }] } });
    let two = || sizes(&[(300, 250), (728, 90)]);
    for (of_request, of_bid, want) in [
        (with(large(), json!({})), json!({}), "0"),
        (with(large(), site("p1")), json!({}), "1"),
        (with(large(), site("P1")), json!({}), "0"),
        (with(large(), germany), json!({}), "2.16"),
        (with(of_video(), json!({})), json!({}), "3"),
        (with(json!({}), json!({})), json!({}), "4"),
        (with(json!({ "bidfloor": 5 }), json!({})), json!({}), "5"),
        (with(json!({}), site("p1")), json!({}), "4"),
        (with(large(), site("p2")), json!({}), "9"),
        (with(two(), json!({})), json!({ "w": 728, "h": 90 }), "0"),
        (with(two(), json!({})), json!({ "w": 300, "h": 250 }), "4"),
        (with(two(), json!({})), json!({}), "4"),
        (with(two(), site("p2")), json!({}), "9"),
        (with(deal, json!({})), json!({ "dealid": "d" }), "0"),
    ] {
        check_in(&market, &of_request, &of_bid, want);
    }
    // Without a rate no bid satisfies the rule.
    let got = with_auction(&market, &request(with(large(), site("p3"))), |auction| {
        let body = [(0, response(&[bid(json!({ "price": 1_000_000_000 }))]))];
        judge(auction, &answers(auction, &body)).bids[0].entry
    });
    assert_eq!(got, Err(Fate::BelowFloor));
}

#[test]
fn floors_are_net_and_dsps_pay_gross() {
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(100_000), ..PublisherTerms::default() };
    market.floors = vec![FloorRule { country: Some("DEU".into()), ..rule("18 USD") }];
    market
        .deals
        .insert("own".into(), DealTerms { fee: Some(ppm(500_000)), ..DealTerms::default() });
    market.deals.insert("off".into(), DealTerms { discount: ppm(250_000), ..DealTerms::default() });
    let with = |of_imp: Value| json!({ "imp": [imp(of_imp)] });
    let deal = |deal: Value| with(json!({ "bidfloor": 2, "pmp": { "deals": [deal] } }));
    let under = |id: &str| json!({ "dealid": id });
    check_in(&market, &with(json!({ "bidfloor": 9 })), &json!({}), "10");
    check_in(&market, &with(json!({ "bidfloor": 1 })), &json!({}), "1.111112");
    let germany = merged(&with(json!({})), &json!({ "device": { "geo": { "country": "DEU" } } }));
    check_in(&market, &germany, &json!({}), "20");
    let timed = video(json!({ "mincpmpersec": 0.9 }));
    check_in(&market, &with(timed), &json!({ "dur": 10 }), "10");
    check_in(&market, &deal(json!({ "id": "d", "bidfloor": 9 })), &under("d"), "10");
    // The deal's own fee, also on an inherited floor.
    check_in(&market, &deal(json!({ "id": "own", "bidfloor": 9 })), &under("own"), "18");
    check_in(&market, &deal(json!({ "id": "own" })), &under("own"), "4");
    check_in(&market, &deal(json!({ "id": "own", "at": 3, "bidfloor": 9 })), &under("own"), "9");
}

#[test]
fn a_bid_of_just_the_agreed_price_reaches_it_in_any_currency() {
    let deal = json!({ "id": "d", "at": 3, "bidfloor": 1.23, "bidfloorcur": "USD" });
    let imp = imp(json!({ "pmp": { "deals": [deal] } }));
    let body = request(json!({ "cur": ["EUR"], "imp": [imp] }));
    let mut own: Value =
        serde_json::from_str(&response(&[bid(json!({ "price": 1.23, "dealid": "d" }))])).unwrap();
    own["cur"] = json!("USD");
    let answers = [(0, own.to_string())];
    with_auction(&market(), &body, |auction| {
        assert_eq!(auction.currency, Currency::parse("EUR").unwrap());
        let judgement = judge(auction, &self::answers(auction, &answers));
        let entry = judgement.bids[0].entry.unwrap();
        assert_eq!(judgement.entries[entry].price, cpm("1.138888"));
    });
}

#[test]
fn a_floor_beyond_any_price_sells_to_nobody() {
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(500_000), ..PublisherTerms::default() };
    let dearest = bid(json!({ "price": 1_000_000_000, "dur": 10 }));
    let deal = |deal: Value| json!({ "pmp": { "deals": [deal] } });
    let inexpressible = json!({ "id": "d", "bidfloor": 600_000_000 });
    let second = video(json!({ "mincpmpersec": 60_000_000 }));
    for (of_imp, dealid, adm, want) in [
        (second, Value::Null, "<VAST/>", Err(Fate::BelowFloor)),
        (deal(inexpressible), json!("d"), "<p>", Err(Fate::BelowDealFloor)),
        (json!({ "bidfloor": 499_999_999 }), Value::Null, "<p>", Ok(())),
    ] {
        let body = request(json!({ "imp": [imp(of_imp)] }));
        let answers =
            [(0, response(&[merged(&dearest, &json!({ "dealid": dealid, "adm": adm }))]))];
        let got = with_auction(&market, &body, |auction| {
            judge(auction, &self::answers(auction, &answers)).bids[0].entry.map(drop)
        });
        assert_eq!(got, want, "{body}");
    }
}
