//! The resolved terms of an auction, and its refusals.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{currency, imp, market, ppm, price, request, with_auction};
use crate::market::rates::Rates;

const VIEW: openrtb::OutboundView<'_> = openrtb::OutboundView {
    imps: !0,
    deals: !0,
    tmax: "80",
    cur: "[]",
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

#[track_caller]
fn check(market: &Market, of_request: Value, want: Result<(&str, AuctionType, u64), &str>) {
    let body = request(of_request);
    let request = openrtb::parse_request(&body).unwrap();
    let got = Auction::new("auction-1", &request, market);
    let got = got.map(|auction| {
        (auction.currency.to_string(), auction.auction_type, auction.increment.micros())
    });
    let got = got.map_err(|refusal| match refusal {
        AuctionRefusal::Invalid(invalid) => invalid.to_string(),
        AuctionRefusal::NoBid(reason) => reason.label().to_owned(),
    });
    let want =
        want.map(|(code, auction_type, increment)| (code.to_owned(), auction_type, increment));
    assert_eq!(got, want.map_err(str::to_owned), "{body}");
}

const USD: Result<(&str, AuctionType, u64), &str> = Ok(("USD", AuctionType::SecondPrice, 10_000));

#[test]
fn currency_type_and_increment() {
    let market = market();
    check(&market, json!({}), USD);
    check(&market, json!({ "cur": [] }), USD);
    check(&market, json!({ "at": 1 }), Ok(("USD", AuctionType::FirstPrice, 10_000)));
    check(&market, json!({ "at": 2 }), USD);
    // The first with a rate; the increment is converted and rounded up.
    check(&market, json!({ "cur": ["ZZZ", "USD", "EUR"] }), USD);
    let euros = Ok(("EUR", AuctionType::SecondPrice, 9_260));
    check(&market, json!({ "cur": ["EUR", "USD"] }), euros);
    check(&market, json!({ "cur": ["ZZZ"] }), Err("no_currency"));
    let alone = Market { rates: Rates::default(), ..market.clone() };
    check(&alone, json!({}), USD);
    check(&alone, json!({ "cur": ["EUR", "USD"] }), USD);
    check(&alone, json!({ "cur": ["EUR"] }), Err("no_currency"));
    let foreign = Market { increment: price("1 EUR"), ..alone };
    check(&foreign, json!({}), Err("no_currency"));
    let own = Market { currency: currency("GBP"), increment: price("1 GBP"), ..market };
    check(&own, json!({}), Ok(("GBP", AuctionType::SecondPrice, 1_000_000)));
}

#[test]
fn publishers() {
    let mut market = market();
    let blocked = PublisherTerms { blocked: true, ..PublisherTerms::default() };
    market.publishers.named.insert("bad".into(), blocked);
    let from = |id: &str| json!({ "app": { "publisher": { "id": id } } });
    check(&market, from("bad"), Err("blocked_publisher"));
    check(&market, from("good"), USD);
    market.publishers.others = blocked;
    check(&market, from("good"), Err("blocked_publisher"));
    check(&market, json!({}), Err("blocked_publisher"));
}

#[test]
fn floors_without_a_rate_are_held_against_their_impression_alone() {
    let market = market();
    let foreign = || imp(json!({ "id": "f", "bidfloor": 1, "bidfloorcur": "ZZZ" }));
    check(&market, json!({ "imp": [foreign()] }), Err("no_currency"));
    check(&market, json!({ "imp": [foreign(), imp(json!({}))] }), USD);
    let deals = json!([{ "id": "d" }, { "id": "e", "bidfloorcur": "ZZZ", "bidfloor": 1 }]);
    let some = imp(json!({ "id": "2", "pmp": { "deals": deals } }));
    let dear = imp(json!({ "id": "3", "bidfloorcur": "ZZZ", "bidfloor": 1_000_000_000 }));
    let body = request(json!({ "imp": [foreign(), some, dear, imp(json!({}))] }));
    with_auction(&market, &body, |auction| {
        assert_eq!((auction.imps_len(), auction.imps_on_sale()), (4, 2));
        let ask =
            crate::asking::eligibility::eligible(auction, 0).expect("two impressions are on sale");
        assert_eq!((ask.imps, ask.deals), (0b1010, 0b01));
        let direct = crate::asking::eligibility::eligible_direct(auction, 0)
            .expect("for our own campaigns too");
        assert_eq!((direct.imps, direct.deals), (0b1010, 0b01));
        // The request sent lacks them, and has the original floors.
        let sent = crate::asking::outbound::outbound(auction, &body);
        let view = openrtb::OutboundView { imps: ask.imps, deals: ask.deals, ..VIEW };
        let sent: Value = serde_json::from_str(&sent.to_text(&view)).unwrap();
        let ids = |of: &Value| -> Vec<String> {
            of.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().into()).collect()
        };
        assert_eq!(ids(&sent["imp"]), ["2", "1"]);
        assert_eq!(ids(&sent["imp"][0]["pmp"]["deals"]), ["d"]);
    });
    let deals = json!([{ "id": "e", "bidfloorcur": "ZZZ" }]);
    let private = imp(json!({ "pmp": { "private_auction": 1, "deals": deals } }));
    with_auction(&market, &request(json!({ "imp": [private] })), |auction| {
        assert_eq!(
            crate::asking::eligibility::eligible(auction, 0),
            Err(crate::asking::not_asked::NotAsked::Impressions)
        );
    });
}

#[test]
fn floors_above_any_price_are_refused() {
    let mut market = market();
    let with = |of_imp: Value| json!({ "imp": [imp(of_imp)] });
    let too_high = "imp[0].bidfloor: above any price once converted and our fee added";
    let dearest = || with(json!({ "bidfloor": 1_000_000_000 }));
    check(&market, dearest(), USD);
    check(&market, with(json!({ "bidfloor": 950_000_000, "bidfloorcur": "EUR" })), Err(too_high));
    market.publishers.others.fee = ppm(1);
    check(&market, dearest(), Err(too_high));
}
