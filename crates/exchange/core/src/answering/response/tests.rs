//! The response; conversions and fees that favour neither side.

mod conversion;

use serde_json::{Value, json};
use units::Nanos;

use super::*;
use crate::answering::sale::sales;
use crate::auction::fate::Fate;
use crate::fixtures::{
    answers, bid, cleared, cpm, fates, imp, market, merged, ppm, request, response as dsp_response,
    with_auction,
};
use crate::judging::judge::judge;
use crate::market::{DealTerms, Market, PublisherTerms};

fn sell(market: &Market, request: &str, bodies: &[(usize, String)]) -> (Vec<Sale>, String) {
    with_auction(market, request, |auction| {
        let answers = answers(auction, bodies);
        let judgement = judge(auction, &answers);
        let clearing = cleared(auction, &judgement, |_| Ok(()));
        let sales = sales(auction, &judgement, &clearing);
        let text = response(auction, &answers, &judgement, &sales);
        assert!(openrtb::is_json(&text), "{text}");
        (sales, text)
    })
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_answer_byte_for_byte() {
    let body = r#"{ "id" : "c\u0041\"" ,"at":1,"imp":[{"id":"1","banner":{}}]}"#;
    let own = concat!(
        r#"{"id":"auction-1","bidid":"r\"7","seatbid":[{"bid":[{"id":"b1" , "price" : 2.50,"impid":"1","#,
        r#""crid":"c","adm":"<img src=\"https://x?p=${AUCTION_PRICE}&b=${AUCTION_BID_ID}\">","#,
        r#""nurl":"https:\/\/n?i=${AUCTION_ID}&c=${AUCTION_CURRENCY}&l=${AUCTION_LOSS}","#,
        r#""lurl": "https://l?i=${AUCTION_ID}&p=${AUCTION_PRICE}&l=${AUCTION_LOSS}&m=${AUCTION_MIN_TO_WIN:B64}","#,
        r#""burl":"https://b?p=${AUCTION_PRICE}&t=${AUCTION_IMP_TS}&l=${AUCTION_LOSS}","#,
        r#""unknown":[1,{"a":null}],"ext":{"x":1.0}}]}]}"#
    );
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(100_000), ..PublisherTerms::default() };
    let (_, text) = sell(&market, body, &[(0, own.to_owned())]);
    let want = concat!(
        r#"{"id":"c\u0041\"","bidid":"auction-1","cur":"USD","seatbid":[{"seat":"a1","bid":[{"id":"b1" , "price" : 2.25,"impid":"1","#,
        r#""crid":"c","adm":"<img src=\"https://x?p=2.5&b=r%227\">","#,
        r#""nurl":"https:\/\/n?i=auction-1&c=USD&l=0","#,
        r#""lurl": "https://l?i=auction-1&p=${AUCTION_PRICE}&l=${AUCTION_LOSS}&m=${AUCTION_MIN_TO_WIN:B64}","#,
        r#""burl":"https://b?p=2.5&t=${AUCTION_IMP_TS}&l=0","#,
        r#""unknown":[1,{"a":null}],"ext":{"x":1.0}}]}]}"#
    );
    assert_eq!(text, want);
}

#[test]
fn a_deals_own_fee_is_taken_instead_of_the_publishers() {
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(100_000), ..PublisherTerms::default() };
    let of = |fee| DealTerms { fee, ..DealTerms::default() };
    market.deals.insert("own".into(), of(Some(ppm(200_000))));
    market.deals.insert("none".into(), of(None));
    let deals = json!({ "deals": [{ "id": "own" }, { "id": "none" }] });
    let request = request(json!({ "at": 1, "imp": [imp(json!({ "pmp": deals }))] }));
    for (deal, net) in [(json!("own"), "1.6"), (json!("none"), "1.8"), (json!(null), "1.8")] {
        let body = dsp_response(&[bid(json!({ "dealid": deal }))]);
        let (sales, _) = sell(&market, &request, &[(0, body)]);
        assert_eq!((sales[0].net, sales[0].paid), (cpm(net), cpm("2")), "{deal}");
    }
}

#[test]
fn winners_stand_under_their_seats() {
    let three =
        json!({ "imp": [imp(json!({})), imp(json!({ "id": "2" })), imp(json!({ "id": "3" }))] });
    let seatbid = |seat: &str, bids: &[(&str, &str, f64)]| {
        let bids: Vec<Value> = bids
            .iter()
            .map(|(id, imp, price)| bid(json!({ "id": id, "impid": imp, "price": price })))
            .collect();
        json!({ "seat": seat, "bid": bids })
    };
    let alpha = [
        seatbid("a2", &[("x1", "1", 5.0), ("x2", "2", 1.0)]),
        seatbid("a1", &[("x3", "3", 1.0)]),
        seatbid("a2", &[("x4", "3", 4.0)]),
    ];
    let alpha = json!({ "id": "auction-1", "seatbid": alpha }).to_string();
    let beta = json!({ "id": "auction-1", "seatbid": [seatbid("b1", &[("y1", "1", 3.0), ("y2", "2", 2.0)])] });
    let (sales, text) = sell(&market(), &request(three), &[(0, alpha), (1, beta.to_string())]);
    assert_eq!(sales.iter().map(|sale| sale.imp).collect::<Vec<_>>(), [0, 1, 2]);
    let answer = json_of(&text);
    let seats: Vec<(&str, Vec<(&str, f64)>)> = answer["seatbid"]
        .as_array()
        .unwrap()
        .iter()
        .map(|seatbid| {
            let bids = seatbid["bid"].as_array().unwrap().iter();
            let named =
                bids.map(|bid| (bid["id"].as_str().unwrap(), bid["price"].as_f64().unwrap()));
            (seatbid["seat"].as_str().unwrap(), named.collect())
        })
        .collect();
    let want = [("a2", vec![("x1", 3.01), ("x4", 1.01)]), ("b1", vec![("y2", 1.01)])];
    assert_eq!(seats, want);
    assert_eq!((&answer["id"], &answer["cur"]), (&json!("caller-1"), &json!("USD")));
}

/// Section 7.16: a bid of $10 under a deal at 20 % off; section 7.9.4: 30.3 impressions at $2.50.
#[test]
fn worked_numbers_of_the_specification() {
    let mut market = market();
    market.deals.insert("d".into(), DealTerms { discount: ppm(200_000), ..DealTerms::default() });
    let all =
        "${AUCTION_PRICE} ${AUCTION_DISCOUNT_PCT} ${AUCTION_DISCOUNT_CPM} ${AUCTION_MULTIPLIER}";
    let deal = json!({ "pmp": { "deals": [{ "id": "d" }] } });
    let discounted = json!({ "price": 10, "dealid": "d", "adm": all });
    let many = json!({ "qty": { "multiplier": 30.3 } });
    let plain = json!({ "price": 2.50, "adm": all });
    for (of_imp, of_bid, adm, net, revenue) in [
        (deal, discounted, "8 20 2 1", "8", 8_000_000),
        (many, plain, "2.5 0 0 30.3", "2.5", 75_750_000),
    ] {
        let body = request(json!({ "at": 1, "imp": [imp(of_imp)] }));
        let (sales, text) = sell(&market, &body, &[(0, dsp_response(&[bid(of_bid)]))]);
        assert_eq!((sales[0].net, sales[0].paid), (cpm(net), cpm(net)));
        assert_eq!(sales[0].revenue, Nanos::new(revenue));
        assert_eq!(json_of(&text)["seatbid"][0]["bid"][0]["adm"], adm);
    }
}

/// Section 4.4.1: bids of $1.00, $0.90, $0.80 and an invalid one at a floor of $0.85, from request
/// to macros.
#[test]
fn a_winner_is_told_the_least_that_would_have_won() {
    let adm = "${AUCTION_PRICE} ${AUCTION_MIN_TO_WIN}";
    for (at, want) in [(1, "1 0.9"), (2, "0.91 0.9")] {
        let body = request(json!({ "at": at, "imp": [imp(json!({ "bidfloor": 0.85 }))] }));
        let of = |price: f64| dsp_response(&[bid(json!({ "price": price, "adm": adm }))]);
        let both = dsp_response(&[
            bid(json!({ "price": 0.80 })),
            bid(json!({ "id": "b2", "price": 5, "impid": "9" })),
        ]);
        let bodies = [(1, of(0.90)), (0, of(1.00)), (2, both)];
        let (_, text) = sell(&market(), &body, &bodies);
        assert_eq!(json_of(&text)["seatbid"][0]["bid"][0]["adm"], want);
        // Losers learn it only if price decided.
        let fates = fates(&market(), &body, &bodies);
        let want = [Fate::LostToHigherBid, Fate::Won, Fate::BelowFloor, Fate::UnknownImp];
        assert_eq!(fates, want);
        let by_price: Vec<bool> = fates.into_iter().map(Fate::by_price).collect();
        assert_eq!(by_price, [true, true, true, false]);
    }
}

#[test]
fn prices_in_three_currencies() {
    // Bid in GBP, compared and answered in EUR, booked in USD; 10 % fee; first price.
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(100_000), ..PublisherTerms::default() };
    let body = request(json!({ "at": 1, "cur": ["EUR"] }));
    let own = dsp_response(&[bid(json!({ "adm": "${AUCTION_PRICE} ${AUCTION_CURRENCY}" }))]);
    let own = merged(&json_of(&own), &json!({ "cur": "GBP" })).to_string();
    let (sales, text) = sell(&market, &body, &[(0, own)]);
    // 2 GBP are 2.351851(85) EUR, net 2.116665(9); they cost 2.539999 USD.
    assert_eq!((sales[0].net, sales[0].paid), (cpm("2.116665"), cpm("2")));
    assert_eq!(sales[0].revenue, Nanos::new(2_539_999));
    let answer = json_of(&text);
    assert_eq!(answer["cur"], "EUR");
    assert_eq!(answer["seatbid"][0]["bid"][0]["adm"], "2 GBP");
}

#[test]
fn ids_of_bidders_cannot_swell_the_answer() {
    let long = "x".repeat(10_000);
    let adm = "${AUCTION_BID_ID}${AUCTION_AD_ID}|".repeat(100);
    let own = dsp_response(&[bid(json!({ "adm": adm, "adid": long }))]);
    let own = merged(&json_of(&own), &json!({ "bidid": long })).to_string();
    let (_, text) = sell(&market(), &request(json!({})), &[(0, own)]);
    assert_eq!(json_of(&text)["seatbid"][0]["bid"][0]["adm"], "|".repeat(100));
}

#[test]
fn no_bid_tells_why() {
    for (reason, want) in [
        (NoBidReason::Unknown, r#"{"id":"a\"b","seatbid":[],"nbr":0}"#),
        (NoBidReason::InsufficientAuctionTime, r#"{"id":"a\"b","seatbid":[],"nbr":14}"#),
        (NoBidReason::NoEligibleDsp, r#"{"id":"a\"b","seatbid":[],"nbr":500}"#),
    ] {
        assert_eq!(no_bid(r#""a\"b""#, reason), want);
    }
}
