//! Who is offered a sold deal, what the request then says, and what a bid under it costs.

use openrtb::codes::MediaType;
use serde_json::{Value, json};

use super::*;
use crate::asking::eligibility::{BidderCall, eligible, eligible_direct};
use crate::asking::outbound::outbound;
use crate::auction::fate::Fate;
use crate::fixtures::{
    NOW_MS, answers, bid, cleared, cpm, currency, dsp, fates, imp, market, ppm, request, response,
    sold_deal, with_auction,
};
use crate::judging::judge::judge;
use crate::judging::win_cost::win_cost;
use crate::market::lifetimes::Lifetimes;
use crate::market::{DealTerms, Market};

fn market_of(sold: impl IntoIterator<Item = SoldDeal>) -> Market {
    Market { sold: sold.into_iter().collect(), ..market() }
}

/// A deal sold to `a2` of `alpha`.
fn sold() -> SoldDeal {
    sold_deal("sold", 0, "a2", "2.5 USD")
}

/// The ids of the deals that each DSP sees in its request, or an error if it is not asked.
fn shown(market: &Market, of_request: Value) -> Vec<Option<Vec<Value>>> {
    let body = request(of_request);
    with_auction(market, &body, |auction| {
        let outbound = outbound(auction, &body);
        let shown = |at: usize| {
            let BidderCall { imps, deals, .. } = eligible(auction, at).ok()?;
            let (tmax, cur, buyeruid, bidder) = ("80", "[]", None, None);
            let is_limited = false;
            let view =
                openrtb::OutboundView { imps, deals, tmax, cur, buyeruid, bidder, is_limited };
            let seen: Value = serde_json::from_str(&outbound.to_text(&view)).unwrap();
            let imps = seen["imp"].as_array().unwrap().iter();
            let deals = imps.flat_map(|imp| imp["pmp"]["deals"].as_array().into_iter().flatten());
            Some(deals.cloned().collect())
        };
        (0..market.dsps.len()).map(shown).collect()
    })
}

/// Which DSPs see a deal of this id, once for each impression; others see none.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn check(market: &Market, of_request: Value, want: [usize; 3]) {
    let shown = shown(market, of_request.clone());
    let count = |deals: &Option<Vec<Value>>| {
        deals.iter().flatten().filter(|deal| deal["id"] == "sold").count()
    };
    assert_eq!(shown.iter().map(count).collect::<Vec<_>>(), want, "{of_request}");
}

#[test]
fn the_buyer_alone_sees_the_deal_as_it_was_sold() {
    let odd = SoldDeal { id: "so\"ld\\".into(), seat: "a\"2".into(), ..sold() };
    let mut market = market_of([odd]);
    market.dsps[0] = dsp("alpha", &["a1", "a\"2"]);
    let deal = json!({
        "id": "so\"ld\\", "at": 3, "bidfloor": 2.5, "bidfloorcur": "USD", "wseat": ["a\"2"],
    });
    assert_eq!(shown(&market, json!({})), [Some(vec![deal]), Some(vec![]), Some(vec![])]);
}

/// Seats of two DSPs may have one name.
#[test]
fn only_the_buyers_dsp_has_the_seat() {
    let mut market = market_of([sold()]);
    market.dsps[1] = dsp("beta", &["a2"]);
    check(&market, json!({}), [1, 0, 0]);
}

#[test]
fn it_is_offered_on_every_impression_on_sale() {
    let two = |deals: Value| {
        let second = imp(json!({ "id": "2", "pmp": { "deals": deals } }));
        let unsold = imp(json!({ "id": "3", "bidfloor": 1, "bidfloorcur": "CHF" }));
        json!({ "imp": [imp(json!({})), second, unsold] })
    };
    check(&market_of([sold()]), two(json!([])), [2, 0, 0]);
    check(&market_of([sold()]), two(json!([{ "id": "own" }])), [2, 0, 0]);
    check(&market_of([]), two(json!([{ "id": "own" }])), [0, 0, 0]);
    // A private auction is open to the buyer.
    let private = json!({ "imp": [imp(json!({ "pmp": { "private_auction": 1 } }))] });
    check(&market_of([sold()]), private, [1, 0, 0]);
}

#[test]
fn it_is_offered_within_its_time() {
    for (starts_ms, ends_ms, want) in
        [(NOW_MS, NOW_MS + 1, 1), (0, u64::MAX, 1), (NOW_MS + 1, NOW_MS + 2, 0), (0, NOW_MS, 0)]
    {
        let market = market_of([SoldDeal { starts_ms, ends_ms, ..sold() }]);
        check(&market, json!({}), [want, 0, 0]);
    }
}

#[test]
fn it_is_offered_by_its_publisher_to_welcome_seats_in_a_currency_with_a_rate() {
    let of = |id: &str| json!({ "site": { "publisher": { "id": id } } });
    let market = market_of([SoldDeal { publisher: Some("p1".into()), ..sold() }]);
    check(&market, of("p1"), [1, 0, 0]);
    check(&market, of("p2"), [0, 0, 0]);
    check(&market, json!({}), [0, 0, 0]);
    let market = market_of([sold()]);
    check(&market, of("p2"), [1, 0, 0]);
    check(&market, json!({ "wseat": ["a1", "a2"] }), [1, 0, 0]);
    check(&market, json!({ "wseat": ["a1"] }), [0, 0, 0]);
    check(&market, json!({ "bseat": ["a2"] }), [0, 0, 0]);
    let unknown = market_of([sold_deal("sold", 0, "a9", "1 USD")]);
    check(&unknown, json!({}), [0, 0, 0]);
    check(&market_of([sold_deal("sold", 0, "a2", "1 CHF")]), json!({}), [0, 0, 0]);
    check(&market_of([sold_deal("sold", 0, "a2", "1 EUR")]), json!({}), [1, 0, 0]);
}

#[test]
fn a_deal_of_the_request_with_its_id_is_withheld_from_all() {
    let deals = |publisher: &str| {
        json!({
            "site": { "publisher": { "id": publisher } },
            "imp": [imp(json!({ "pmp": { "deals": [{ "id": "sold", "bidfloor": 9 }] } }))],
        })
    };
    let own = |change: &dyn Fn(&mut SoldDeal)| {
        let mut sold = SoldDeal { publisher: Some("p".into()), ..sold() };
        change(&mut sold);
        market_of([sold])
    };
    let now = own(&|_| ());
    check(&now, deals("p"), [1, 0, 0]);
    assert_eq!(shown(&now, deals("p"))[0].as_ref().unwrap()[0]["bidfloor"], 2.5);
    check(&now, deals("other"), [1, 1, 1]);
    let later = own(&|sold| (sold.starts_ms, sold.ends_ms) = (NOW_MS + 1, NOW_MS + 2));
    check(&later, deals("p"), [0, 0, 0]);
    let ended = own(&|sold| sold.ends_ms = NOW_MS);
    check(&ended, deals("p"), [1, 1, 1]);
    // Direct campaigns are not the buyer.
    let body = request(deals("p"));
    let direct = with_auction(&now, &body, |auction| eligible_direct(auction, 2).unwrap());
    assert_eq!(direct.deals, 0);
}

#[test]
fn two_buyers_of_one_id_see_one_deal_each() {
    let market = market_of([sold(), sold_deal("sold", 1, "b1", "3 USD")]);
    check(&market, json!({}), [1, 1, 0]);
    let bids = |price: f64| response(&[bid(json!({ "price": price, "dealid": "sold" }))]);
    let seated = |price| bids(price).replace(r#"{"bid""#, r#"{"seat":"a2","bid""#);
    let bodies = [(0, seated(2.5)), (1, bids(3.0)), (2, bids(9.0))];
    let got = fates(&market, &request(json!({})), &bodies);
    assert_eq!(got, [Fate::LostToDeal, Fate::Won, Fate::DealNotOffered]);
}

#[test]
fn deals_beyond_the_limit_are_left_out_the_lowest_class_first() {
    let many = (0..200).map(|at| SoldDeal {
        name: at.to_string().into(),
        id: at.to_string().into(),
        priority: if at == 199 { 2 } else { 1 },
        ..sold()
    });
    let market = market_of(many);
    let own: Vec<_> = (0..28).map(|at| json!({ "id": format!("own-{at}") })).collect();
    let imps = [imp(json!({ "pmp": { "deals": own } })), imp(json!({ "id": "2" }))];
    let shown = shown(&market, json!({ "imp": imps }));
    let ids: Vec<_> =
        shown[0].as_ref().unwrap().iter().map(|deal| deal["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 28 + 50 + 50);
    assert_eq!((ids[28], ids[29], ids[77], ids[78]), ("199", "0", "48", "199"));
    assert_eq!(shown[1].as_ref().unwrap().len(), 28);
}

#[test]
fn a_bid_under_it_clears_at_the_sold_price() {
    let mut market = market_of([sold()]);
    market.publishers.others.fee = ppm(100_000);
    // Terms of other deals of that id do not apply to it.
    let terms = DealTerms { dsps: vec![1], discount: ppm(500_000), ..DealTerms::default() };
    market.deals.insert("sold".into(), terms);
    let of = |price: f64, seat: &str| {
        let bid = bid(json!({ "price": price, "dealid": "sold" }));
        response(&[bid]).replace(r#"{"bid""#, &format!(r#"{{"seat":"{seat}","bid""#))
    };
    let open = (2, response(&[bid(json!({ "price": 50 }))]));
    let bodies = |body| [(0, body), open.clone()];
    let body = request(json!({}));
    let check = |body_of_alpha, want: [Fate; 2]| {
        assert_eq!(fates(&market, &body, &bodies(body_of_alpha)), want);
    };
    check(of(2.5, "a2"), [Fate::Won, Fate::LostToDeal]);
    check(of(2.499999, "a2"), [Fate::BelowDealFloor, Fate::Won]);
    check(of(40.0, "a1"), [Fate::DealSeat, Fate::Won]);
    let bodies = bodies(of(40.0, "a2"));
    with_auction(&market, &body, |auction| {
        let judgement = judge(auction, &answers(auction, &bodies));
        let clearing = cleared(auction, &judgement, |_| Ok(()));
        let win = clearing.wins[0].unwrap();
        assert_eq!((win.price, judgement.bids[0].sold_deal(auction)), (cpm("2.5"), Some(0)));
        assert_eq!(judgement.bids[0].formats, MediaType::Banner.bit());
    });
}

/// One nano more or less would buy another number of impressions.
#[test]
fn an_impression_costs_exactly_the_sold_price() {
    let check = |agreed: &str, multiplier: f64, want: u64| {
        let market = market_of([sold_deal("sold", 1, "b1", agreed)]);
        let body = request(json!({ "imp": [imp(json!({ "qty": { "multiplier": multiplier } }))] }));
        let bodies = [(1, response(&[bid(json!({ "price": 90, "dealid": "sold" }))]))];
        with_auction(&market, &body, |auction| {
            let judgement = judge(auction, &answers(auction, &bodies));
            let clearing = cleared(auction, &judgement, |_| Ok(()));
            let of = currency(agreed.split(' ').nth(1).unwrap());
            let win = clearing.wins[0].unwrap();
            let cost = win_cost(auction, &judgement, &win, of, &Lifetimes::default());
            assert_eq!(cost.unwrap().amount.get(), want, "{agreed}");
        });
    };
    check("2.5 USD", 1.0, 2_500_000);
    check("2.000001 EUR", 1.0, 2_000_001);
    check("1.123457 GBP", 1.0, 1_123_457);
    check("1.000003 GBP", 2.0, 2_000_006);
    // Worth 0.032000032 USD, which is 5 JPY again once rounded.
    check("5.000005 JPY", 1.0, 5_000_005);
}
