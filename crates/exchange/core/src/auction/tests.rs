//! What an auction resolves to, and why there may be none.

use serde_json::{Value, json};

use super::*;
use crate::Rates;
use crate::fixtures::{currency, imp, market, ppm, price, request};

/// The auction's currency, type and increment, or the refusal as text.
#[track_caller]
fn check(market: &Market, of_request: Value, want: Result<(&str, AuctionType, u64), &str>) {
    let body = request(of_request);
    let request = openrtb::parse_request(&body).unwrap();
    let got = Auction::new("auction-1", &request, market);
    let got = got.map(|auction| {
        (auction.currency.to_string(), auction.auction_type, auction.increment.micros())
    });
    let got = got.map_err(|refusal| match refusal {
        Refusal::Invalid(invalid) => invalid.to_string(),
        Refusal::NoBid(reason) => reason.label().to_owned(),
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
    // The first that has a rate; the increment is rounded up into it.
    check(&market, json!({ "cur": ["ZZZ", "USD", "EUR"] }), USD);
    let euros = Ok(("EUR", AuctionType::SecondPrice, 9_260));
    check(&market, json!({ "cur": ["EUR", "USD"] }), euros);
    check(&market, json!({ "cur": ["ZZZ"] }), Err("no_currency"));
    // Without any rate there is our own currency.
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
fn floors_that_cannot_be_compared_are_refused() {
    let mut market = market();
    let with = |of_imp: Value| json!({ "imp": [imp(of_imp)] });
    let deal = |deal: Value| with(json!({ "pmp": { "deals": [{ "id": "d" }, deal] } }));
    check(
        &market,
        with(json!({ "bidfloorcur": "ZZZ" })),
        Err("imp[0].bidfloorcur: no exchange rate is configured for ZZZ"),
    );
    check(
        &market,
        deal(json!({ "id": "e", "bidfloorcur": "ZZZ" })),
        Err("imp[0].pmp.deals[1].bidfloorcur: no exchange rate is configured for ZZZ"),
    );
    let too_high = "imp[0].bidfloor: above any price once converted and our fee added";
    let dearest = || with(json!({ "bidfloor": 1_000_000_000 }));
    check(&market, dearest(), USD);
    check(&market, with(json!({ "bidfloor": 950_000_000, "bidfloorcur": "EUR" })), Err(too_high));
    market.publishers.others.fee = ppm(1);
    check(&market, dearest(), Err(too_high));
}
