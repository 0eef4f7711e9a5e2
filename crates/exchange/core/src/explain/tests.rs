//! A sentence for every reason and fate, limits, and numbers that agree with the auction's.

use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, parse_request};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::asking::sentence;
use super::auction::{TEXT_CHARS_MAX, list};
use super::*;
use crate::asking::eligibility::{BidderCall, eligible};
use crate::asking::guard::{CallRate, GuardLimits};
use crate::asking::not_asked::NotAsked as Reason;
use crate::fixtures::{AUCTION_ID, bid, imp, market, merged, ppm, request, response, with_auction};
use crate::market::Market;
use crate::market::lifetimes::Lifetimes;
use crate::market::size::AdSize;
use crate::market::targeting::{Region, UserIdNeed};
use crate::notices::conclude::BeaconBase;
use crate::record::{CallOutcome, RecordedCall};

fn call(ask: BidderCall, outcome: CallOutcome) -> RecordedCall {
    RecordedCall { ask, tmax_ms: 100, outcome, sent: None, latency: None }
}

/// Explains `request` with `bodies` as the answers of the DSPs asked.
fn explained(market: &Market, request: &str, bodies: &[(usize, String)]) -> Explanation {
    let request = parse_request(request).expect("the request is right");
    let auction = Auction::new(AUCTION_ID, &request, market).expect("there is an auction");
    let dsps: Vec<_> = (0..market.dsps.len())
        .map(|dsp| {
            let body = bodies.iter().find(|(of, _)| *of == dsp).map(|(_, body)| body.as_bytes());
            let came = match eligible(&auction, dsp) {
                Err(reason) => DspOutcome::NotAsked(reason),
                Ok(ask) => {
                    let answered = [CallOutcome::NoBid, CallOutcome::Answered];
                    let outcome = answered[usize::from(body.is_some())];
                    DspOutcome::Asked { call: call(ask, outcome), body }
                }
            };
            (dsp, came)
        })
        .collect();
    explain(&hearing(market, &request, &dsps)).expect("it can be explained")
}

fn hearing<'h>(
    market: &'h Market,
    request: &'h BidRequest<'h>,
    dsps: &'h [(usize, DspOutcome<'h>)],
) -> FinishedAuction<'h> {
    let no_bid = NoBidReason::Unknown;
    let (id, at_unix_ms) = (AUCTION_ID, 0);
    FinishedAuction {
        id,
        request,
        at_unix_ms,
        market,
        enrichments: &[],
        guards: &[],
        dsps,
        sealed: None,
        no_bid,
    }
}

#[track_caller]
fn check_not_asked(change: fn(&mut crate::market::Dsp), more: &Value, want: &str) {
    let mut market = market();
    change(&mut market.dsps[0]);
    let told = explained(&market, &request(more.clone()), &[]);
    let not_asked = told.dsps[0].not_asked.as_ref().expect("it is not asked");
    assert_eq!(format!("{}: {}", not_asked.reason, not_asked.why), want);
    assert!(told.dsps[0].asked.is_none() && told.dsps[1].asked.is_some());
}

#[test]
fn who_does_not_buy_there_is_told_why_with_the_values() {
    let somewhere = json!({ "device": { "geo": { "country": "USA", "region": "NV" } } });
    let site = json!({ "site": { "publisher": { "id": "p1" } } });
    check_not_asked(
        |dsp| dsp.publishers_allowed = vec!["p2".into(), "p3".into()],
        &site,
        "publisher: publisher p1 is not among [p2, p3]",
    );
    check_not_asked(
        |dsp| dsp.publishers_blocked = vec!["p1".into()],
        &site,
        "publisher: publisher p1 is among those that it blocks",
    );
    check_not_asked(
        |dsp| dsp.publishers_allowed = vec!["p2".into()],
        &json!({}),
        "publisher: the request names no publisher, and it buys from [p2] only",
    );
    check_not_asked(
        |dsp| dsp.countries = vec!["DEU".into()],
        &somewhere,
        "country: country USA is not among [DEU]",
    );
    check_not_asked(
        |dsp| dsp.countries = vec!["DEU".into()],
        &json!({}),
        "country: the request tells no country, and it buys in [DEU] only",
    );
    check_not_asked(
        |dsp| dsp.targeting.countries_blocked = vec!["USA".into()],
        &somewhere,
        "country: country USA is among those that it blocks",
    );
    check_not_asked(
        |dsp| dsp.targeting.regions = vec![Region { country: "USA".into(), region: "CA".into() }],
        &somewhere,
        "country: of USA it buys the regions [CA], and the request's is NV",
    );
    check_not_asked(
        |dsp| {
            dsp.targeting.regions_blocked =
                vec![Region { country: "USA".into(), region: "NV".into() }];
        },
        &somewhere,
        "country: region NV of USA is among those that it blocks",
    );
}

#[test]
fn who_does_not_buy_this_is_told_why_with_the_values() {
    check_not_asked(
        |dsp| dsp.targeting.device_types = 0b1_0100,
        &json!({ "device": { "devicetype": 3 } }),
        "device: device type 3 is not among [2, 4]",
    );
    check_not_asked(
        |dsp| dsp.targeting.device_types = 0b1_0000,
        &json!({}),
        "device: the request tells no device type, and it buys [4] only",
    );
    check_not_asked(
        |dsp| dsp.targeting.user_id = UserIdNeed::Required,
        &json!({}),
        "user_id: it wants to know the user, and the request has neither its own id of it nor \
         user.id, user.eids or device.ifa",
    );
    check_not_asked(
        |dsp| dsp.targeting.sample = ppm(0),
        &json!({}),
        "sampling: the request is not in its share of 0% of all",
    );
    check_not_asked(
        |_| (),
        &json!({ "bseat": ["a1", "a2"] }),
        "seats: wseat [] and bseat [a1, a2] leave none of its seats [a1, a2]",
    );
    check_not_asked(
        |dsp| (dsp.formats, dsp.sizes) = (0b11, vec![AdSize::new(1, 2)]),
        &json!({}),
        "impressions: no impression has a format and size that it buys: [banner, video] with \
         banners of [1x2]",
    );
}

#[test]
fn what_guards_refuse_is_told_with_their_limits() {
    let (market, text) = (market(), request(json!({})));
    let request = parse_request(&text).expect("the request is right");
    let rate = CallRate::per_second(std::num::NonZeroU32::new(7).expect("7 is not 0"));
    let limited = GuardLimits {
        rate: Some(rate),
        in_flight_max: std::num::NonZeroU32::new(3),
        ..GuardLimits::default()
    };
    for (reason, guards, want) in [
        (Reason::Paused, vec![], "the operator has paused it"),
        (Reason::Breaker, vec![], "its answers fail, and it is throttled to probes"),
        (
            Reason::Breaker,
            vec![limited],
            "over 15% of its answers failed, and it is throttled to probes",
        ),
        (Reason::Qps, vec![], "it is asked as often per second as may be"),
        (Reason::Qps, vec![limited], "it is asked 7 times per second already"),
        (Reason::InFlight, vec![], "as many calls to it are under way as may be"),
        (Reason::InFlight, vec![limited], "3 calls to it are under way already"),
    ] {
        let dsps = [(0, DspOutcome::NotAsked(reason))];
        let hearing = FinishedAuction { guards: &guards, ..hearing(&market, &request, &dsps) };
        let told = explain(&hearing).expect("it can be explained");
        let not_asked = told.dsps[0].not_asked.as_ref().expect("it is not asked");
        assert_eq!((&*not_asked.reason, &*not_asked.why), (reason.label(), want));
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn check_fate(more: Value, body: &str, want: &str) {
    let mut market = market();
    market.dsps[0].currencies.truncate(1);
    let change = merged(&json!({ "imp": [imp(json!({ "bidfloor": 1 }))] }), &more);
    let bodies = [(0, body.to_owned()), (1, response(&[bid(json!({ "price": 5 }))]))];
    let told = explained(&market, &request(change), &bodies);
    let last = told.bids.iter().rfind(|bid| bid.dsp == "alpha").expect("there is a bid");
    assert_eq!(format!("{} {}: {}", last.fate, last.code, last.why), want);
}

fn none() -> Value {
    json!({})
}

fn one(change: Value) -> String {
    response(&[bid(change)])
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn whole(change: Value) -> String {
    let body: Value = serde_json::from_str(&one(none())).expect("JSON");
    merged(&body, &change).to_string()
}

#[test]
fn every_fate_of_form_has_its_sentence() {
    check_fate(
        none(),
        &whole(json!({ "id": "x" })),
        "wrong_auction 5: the response's id is x, not the auction's",
    );
    check_fate(
        none(),
        &whole(json!({ "cur": "EUR" })),
        "currency_not_accepted 1002: the response's cur is not among [USD], or has no rate",
    );
    check_fate(
        none(),
        &one(json!({ "price": [], "w": "x" })),
        "malformed 3: the bid is not JSON of the right types",
    );
    check_fate(
        none(),
        &one(json!({ "adm": "${AUCTION_ID}".repeat(1001) })),
        "malformed 3: it has 1001 macros, more than bid_macros_max = 1000",
    );
    check_fate(none(), &one(json!({ "id": null })), "malformed 3: it lacks its id or its impid");
    check_fate(
        none(),
        &one(json!({ "cat": vec!["IAB1"; 33] })),
        "malformed 3: it lists more than 32 domains, categories, attributes or API frameworks",
    );
    check_fate(none(), &one(json!({ "price": null })), "no_price 9: it has no price");
    check_fate(
        none(),
        &one(json!({ "price": -1 })),
        "bad_price 3: its price is no number above zero, or beyond any price once converted",
    );
    check_fate(
        none(),
        &one(json!({ "adm": null })),
        "no_markup 7: it has neither adm nor a nurl that may be called, nor adid",
    );
    check_fate(
        none(),
        &one(json!({ "crid": null })),
        "no_creative_id 8: it has no crid, which creative_id_required asks for",
    );
    check_fate(
        none(),
        &one(json!({ "impid": "2" })),
        "unknown_imp 3: the request has no impression of this id",
    );
    check_fate(
        none(),
        &response(&[bid(none()), bid(none())]),
        "duplicate_bid 3: its id stands earlier in the same response",
    );
}

#[test]
fn every_fate_of_seats_has_its_sentence() {
    check_fate(
        none(),
        &whole(json!({ "seatbid": [{ "seat": "z", "bid": [bid(none())] }] })),
        "seat_undeclared 104: seat z is not among those that the DSP has declared, [a1, a2]",
    );
    check_fate(
        json!({ "wseat": ["a2", "b1"] }),
        &one(none()),
        "seat_not_allowed 104: seat a1 is not in wseat [a2, b1]",
    );
    check_fate(
        json!({ "bseat": ["a1"] }),
        &one(none()),
        "seat_blocked 104: seat a1 is in bseat [a1]",
    );
}

#[test]
fn every_fate_of_creatives_has_its_sentence() {
    check_fate(none(), &one(json!({ "w": 1, "h": 2 })), "size 203: 1x2 is not on offer");
    check_fate(
        none(),
        &one(json!({ "mtype": 2 })),
        "format 204: mtype 2 is not on offer, or its markup is of another format",
    );
    check_fate(
        none(),
        &one(json!({ "adm": "<VAST/>" })),
        "format 204: it has no mtype, and neither its markup nor protocol and dur tell which of \
         the formats on offer it is",
    );
    let video = json!({ "mimes": ["v"], "protocols": [2], "api": [7], "maxduration": 30 });
    let video = || json!({ "imp": [{ "id": "1", "bidfloor": 1, "video": video.clone() }] });
    let vast = |change: Value| one(merged(&json!({ "adm": "<VAST/>" }), &change));
    check_fate(
        video(),
        &vast(json!({ "protocol": 3 })),
        "protocol 204: protocol 3 is not among the impression's protocols",
    );
    check_fate(
        video(),
        &vast(json!({ "apis": [1, 2] })),
        "api 200: none of its API frameworks [1, 2] is among the impression's api",
    );
    check_fate(
        video(),
        &vast(json!({ "dur": 60 })),
        "duration 200: its 60 seconds are shorter or longer than the impression takes",
    );
    check_fate(
        json!({ "badv": ["x.example"] }),
        &one(json!({ "adomain": ["x.example"] })),
        "advertiser 205: adomain [x.example] is in badv [x.example]",
    );
    check_fate(
        json!({ "bapp": ["app"] }),
        &one(json!({ "bundle": "app" })),
        "app_bundle 206: bundle app is in bapp",
    );
    check_fate(
        json!({ "imp": [imp(json!({ "secure": 1 }))] }),
        &one(json!({ "adm": "<img src=\"http://x/\">" })),
        "insecure 207: secure is 1, and its markup loads something over http:",
    );
    check_fate(
        json!({ "wlang": ["en"] }),
        &one(json!({ "language": "fr" })),
        "language 208: language fr is not welcome",
    );
    check_fate(
        json!({ "bcat": ["IAB1"] }),
        &one(json!({ "cat": ["IAB1"] })),
        "category 209: cat [IAB1] is in bcat [IAB1], or not in acat []",
    );
    check_fate(
        json!({ "imp": [imp(json!({ "banner": { "battr": [1] } }))] }),
        &one(json!({ "attr": [1] })),
        "attribute 210: one of its attributes [1] is in battr",
    );
    check_fate(
        json!({ "imp": [imp(json!({ "banner": { "btype": [4] } }))] }),
        &one(json!({ "adm": "<iframe>" })),
        "ad_type 211: its markup is of a type in btype",
    );
}

#[test]
fn every_fate_of_prices_has_its_sentence() {
    check_fate(
        none(),
        &one(json!({ "price": 0.99 })),
        "below_floor 100: it is worth 0.99 USD, and the floor is 1 USD",
    );
    check_fate(
        none(),
        &one(json!({ "price": 4.99 })),
        "lost_to_higher_bid 102: bid 2 (beta's seat b1) is at 5 USD, above its 4.99",
    );
    check_fate(
        none(),
        &whole(json!({ "seatbid": [{ "group": 1, "bid": [bid(none())] }] })),
        "group_incomplete 1001: seatbid.group is 1, and it did not win all of its impressions [1]",
    );
    check_fate(none(), &one(json!({ "price": 6 })), "won 0: it ranks before the other bid");
}

#[test]
fn every_fate_of_a_deal_has_its_sentence() {
    let deals = |private: u8, deal: Value| {
        let deal = merged(&json!({ "id": "d", "bidfloor": 2 }), &deal);
        json!({ "imp": [imp(json!({ "pmp": { "private_auction": private, "deals": [deal] } }))] })
    };
    let under = |id: &str, change: Value| {
        response(&[bid(merged(&json!({ "dealid": id, "price": 3 }), &change))])
    };
    check_fate(
        deals(0, json!({})),
        &under("x", json!({})),
        "deal_unknown 4: the impression has no deal x",
    );
    check_fate(
        deals(0, json!({ "wseat": ["b1"] })),
        &under("d", json!({})),
        "deal_not_offered 4: deal d is not for this DSP",
    );
    check_fate(
        deals(0, json!({ "wseat": ["a2"] })),
        &under("d", json!({})),
        "deal_seat 4: seat a1 is not in the deal's wseat [a2]",
    );
    check_fate(
        deals(0, json!({ "wadomain": ["good.example"] })),
        &under("d", json!({ "adomain": ["bad.example"] })),
        "deal_advertiser 6: adomain [bad.example] is not all in the deal's wadomain [good.example]",
    );
    check_fate(
        deals(1, json!({})),
        &response(&[bid(json!({}))]),
        "private_auction 4: it is under no deal, and only bids under deals are welcome",
    );
    check_fate(
        deals(0, json!({})),
        &under("d", json!({ "price": 1.5 })),
        "below_deal_floor 101: it is worth 1.5 USD, and its deal's floor is 2 USD",
    );
}

/// The first line of arithmetic of a second price under one of alpha's deals.
#[track_caller]
fn check_price(next: &str, want: &str) {
    let deal = json!({ "id": "d", "bidfloor": 2, "at": 2 });
    let text = request(json!({ "imp": [imp(json!({ "pmp": { "deals": [deal] } }))] }));
    let next: Value = serde_json::from_str(next).expect("a number");
    let own = bid(json!({ "dealid": "d", "price": 5 }));
    let bodies = [
        (0, response(&[own, bid(json!({ "id": "b2", "price": 4 }))])),
        (1, response(&[bid(json!({ "price": next }))])),
    ];
    let told = explained(&market(), &text, &bodies);
    let won = told.clearing[0].won.as_ref().expect("it is won");
    assert_eq!((won.steps[0].as_str(), won.next), (want, Some(3)), "no bid of its own seat");
}

#[test]
fn the_parts_of_a_price_are_told() {
    check_price(
        "1",
        "second price: max(floor 2, next 1 + increment 0.01) = 2, at most the bid 5 → 2 USD gross",
    );
    check_price(
        "3",
        "second price: max(floor 2, next 3 + increment 0.01) = 3.01, at most the bid 5 → 3.01 USD \
         gross",
    );
    check_price(
        "4.999",
        "second price: max(floor 2, next 4.999 + increment 0.01) = 5.009, at most the bid 5 → 5 \
         USD gross",
    );
}

#[test]
fn what_strangers_choose_is_shortened_and_counted() {
    let long = "x".repeat(10_000);
    let bids = |dsp: u32| {
        let one = |n: u32| bid(json!({ "id": format!("{long}{n}"), "price": 1000 * dsp + n + 1 }));
        response(&(0..256).map(one).collect::<Vec<_>>())
    };
    let bodies: Vec<_> = (0..3).zip([0, 1, 2].map(bids)).collect();
    let told = explained(&market(), &request(json!({ "at": 1 })), &bodies);
    assert_eq!((told.bids.len(), told.omitted.bids), (513, 768 - 513), "the winner among them");
    assert!(told.bids.iter().any(|bid| bid.fate == "won"));
    assert_eq!((told.clearing[0].ranking.len(), told.omitted.ranked), (64, 768 - 64));
    let longest = told.bids.iter().filter_map(|bid| bid.id.as_ref()).map(|id| id.chars().count());
    assert_eq!(longest.max(), Some(TEXT_CHARS_MAX + 1));
    assert_eq!(list(vec!["a"; 11]), "[a, a, a, a, a, a, a, a, … and 3 more]");
}

#[test]
fn unreadable_answers_are_malformed() {
    let told = explained(&market(), &request(json!({})), &[(0, r#"{"id":7}"#.to_owned())]);
    let answer = told.dsps[0].answer.as_ref().expect("it was asked");
    let why = "the bid response cannot be read: id: `7` is a number, expected a string";
    assert_eq!((answer.outcome.as_str(), answer.why.as_str()), ("malformed", why));
}

/// It is called before the response, and not afterwards.
#[test]
fn a_notice_that_is_called_for_its_ad_is_told_once() {
    use crate::fixtures::rehearsal::{BASE, ID, noticed, response};
    let mut market = market();
    market.publishers.others.notices = crate::market::NoticeMode::Final;
    let text = request(json!({}));
    let request = parse_request(&text).expect("the request is right");
    let auction = Auction::new(ID, &request, &market).expect("there is an auction");
    let ask = eligible(&auction, 0).expect("it is asked");
    let body = response(&[noticed("alpha", json!({ "adm": null, "adid": "7" }))], json!({}));
    let body = Some(body.as_bytes());
    let call = call(ask, CallOutcome::Answered);
    let (base, lifetimes) =
        (BeaconBase::parse(BASE).expect("the base is right"), Lifetimes::default());
    let dsps = [(0, DspOutcome::Asked { call, body })];
    let sealed = Some((&base, &lifetimes));
    let told = explain(&FinishedAuction { id: ID, sealed, ..hearing(&market, &request, &dsps) })
        .expect("it can");
    let called: Vec<_> = told.notices.for_markup.iter().map(|call| call.url.as_deref()).collect();
    assert_eq!(called, [Some("https://n.alpha.example/win")]);
    assert!(told.notices.now.is_empty(), "{:?}", told.notices.now);
}

#[test]
fn tokens_are_named_and_open_nothing() {
    use crate::fixtures::rehearsal::{BASE, ID, keys, noticed, response};
    let mut market = market();
    market.publishers.others.notices = crate::market::NoticeMode::Upstream;
    let text = request(json!({ "test": 1 }));
    let request = parse_request(&text).expect("the request is right");
    let auction = Auction::new(ID, &request, &market).expect("there is an auction");
    let ask = eligible(&auction, 0).expect("it is asked");
    let body = response(&[noticed("alpha", json!({}))], json!({}));
    let body = Some(body.as_bytes());
    let call = call(ask, CallOutcome::Answered);
    let (base, lifetimes) =
        (BeaconBase::parse(BASE).expect("the base is right"), Lifetimes::default());
    let dsps = [(0, DspOutcome::Asked { call, body })];
    let sealed = Some((&base, &lifetimes));
    let told = explain(&FinishedAuction { id: ID, sealed, ..hearing(&market, &request, &dsps) })
        .expect("it can");
    let kinds: Vec<_> = told.notices.later.iter().map(|later| &*later.kind).collect();
    assert_eq!(kinds, ["win", "billing", "loss"], "as if it were no test");
    assert_eq!(told.notices.later[1].url.as_deref(), Some("https://n.alpha.example/bill"));
    let response = told.response.expect("it is sold");
    assert!(response.contains("https://x.example/n/TOKEN-2?p="), "{response}");
    let after = response.split(BASE).skip(1);
    assert!(after.into_iter().all(|rest| keys().open(&rest[..7], 0).is_err()));
}

#[test]
fn what_has_no_rate_is_told() {
    let deals = json!([{ "id": "d" }, { "id": "e", "at": 3, "bidfloor": 1, "bidfloorcur": "ZZZ" }]);
    let foreign = imp(json!({ "id": "2", "bidfloor": 1, "bidfloorcur": "XXX" }));
    let sold = imp(json!({ "pmp": { "deals": deals } }));
    let told = explained(&market(), &request(json!({ "imp": [sold, foreign] })), &[]);
    let why = |code: &str| {
        Some(format!("no exchange rate is configured for {code}, the currency of its floor"))
    };
    let not_sold: Vec<_> = told.imps.iter().map(|imp| imp.not_sold.clone()).collect();
    assert_eq!(not_sold, [None, why("XXX")]);
    let deals: Vec<_> = told.imps[0].deals.iter().map(|deal| deal.not_sold.clone()).collect();
    assert_eq!(deals, [None, why("ZZZ")]);
    assert_eq!((&told.imps[1].floor, &told.imps[0].deals[1].agreed), (&None, &None));
    let asked = told.dsps[0].asked.as_ref().expect("it is asked for the other");
    assert_eq!((&asked.imps[..], &asked.deals[..]), (&["1".to_owned()][..], &["d".to_owned()][..]));
}

#[test]
fn dropped_fields_and_limited_users_are_told() {
    let of_type = json!({ "allimps": "x", "device": { "lmt": 1, "ifa": "i", "hwv": 5 } });
    let told = explained(&market(), &request(of_type.clone()), &[]);
    assert_eq!(told.request.dropped, ["allimps", "device.hwv"]);
    check_not_asked(
        |dsp| dsp.targeting.user_id = UserIdNeed::Required,
        &of_type,
        "user_id: it wants to know the user, and privacy (COPPA, lmt or dnt) leaves it no id",
    );
}

proptest! {
    #[test]
    fn numbers_are_those_of_the_auction(
        prices in prop::collection::vec((0_usize..3, 1_u32..400), 1..12),
        floor in 0_u32..300,
        at in 1_u32..3,
        fee in 0_u32..900_000,
        currency in prop::sample::select(vec!["USD", "EUR", "JPY"]),
    ) {
        let mut market = market();
        market.publishers.others.fee = ppm(fee);
        let cents = |price: u32| format!("{}.{:02}", price / 100, price % 100);
        let bodies: Vec<_> = (0..3).map(|dsp| {
            let own = prices.iter().enumerate().filter(|(_, (of, _))| *of == dsp);
            let bids: Vec<_> = own.map(|(n, (_, price))| {
                let price: Value = serde_json::from_str(&cents(*price)).expect("a number");
                bid(json!({ "id": n.to_string(), "price": price }))
            }).collect();
            (dsp, response(&bids))
        }).collect();
        let floor: Value = serde_json::from_str(&cents(floor)).expect("a number");
        let text = request(json!({
            "at": at, "cur": [currency], "imp": [imp(json!({ "bidfloor": floor }))],
        }));
        let told = explained(&market, &text, &bodies);
        with_auction(&market, &text, |auction| {
            let answers = crate::fixtures::answers(auction, &bodies);
            let judgement = judge(auction, &answers);
            let clearing = cleared(auction, &judgement);
            let sales = sales(auction, &judgement, &clearing);
            prop_assert_eq!(told.bids.len(), judgement.bids.len());
            prop_assert_eq!(told.no_bid.is_some(), sales.is_empty());
            let won = told.clearing[0].won.as_ref();
            prop_assert_eq!(won.is_some(), !sales.is_empty());
            if let (Some(won), Some(sale)) = (won, sales.first()) {
                let price = clearing.wins[0].expect("it is won").price;
                let want = [price.to_string(), sale.net.to_string(), sale.paid.to_string()];
                prop_assert_eq!([&won.price, &won.net, &won.paid], [&want[0], &want[1], &want[2]]);
                prop_assert_eq!(won.bid, sale.bid + 1);
                let sold = crate::answering::response::response(auction, &answers, &judgement, &sales);
                prop_assert_eq!(told.response.as_deref(), Some(sold.as_str()));
            }
            for (told, judged) in told.bids.iter().zip(&judgement.bids) {
                let fate = clearing.fate(judged.entry);
                prop_assert_eq!(&told.fate, fate.label());
                prop_assert_eq!(&told.floor, &judged.floor.map(|floor| floor.to_string()));
            }
            Ok(())
        })?;
    }
}

#[test]
fn every_outcome_has_a_sentence_of_its_own() {
    for outcome in CallOutcome::ALL {
        let has_it = |other: &CallOutcome| sentence(*other) == sentence(outcome);
        assert_eq!(CallOutcome::ALL.into_iter().filter(has_it).count(), 1, "{outcome:?}");
    }
}
