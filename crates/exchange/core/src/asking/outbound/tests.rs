//! The request that DSPs get, byte for byte.

use openrtb::OutboundView;
use openrtb::codes::MediaType;

use crate::fixtures::{market, ppm, price, with_auction};
use crate::market::size::AdSize;
use crate::market::{DealTerms, FloorRule, Market, PublisherTerms, SupplyChainNode};

const VIEW: OutboundView<'_> = OutboundView {
    imps: !0,
    deals: !0,
    tmax: "80",
    cur: r#"["USD"]"#,
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

/// `tail` follows members that change equally for every DSP.
#[track_caller]
fn check(market: &Market, tail: &str, want: &str) {
    let body = format!(r#"{{"id":"caller-1","tmax":100,"cur":["USD"],{tail}}}"#);
    let text =
        with_auction(market, &body, |auction| super::outbound(auction, &body).to_text(&VIEW));
    assert_eq!(text, format!(r#"{{"id":"auction-1","tmax":80,"cur":["USD"],{want}}}"#));
    assert!(openrtb::is_json(&text));
}

#[track_caller]
fn check_imp(market: &Market, imp: &str, want: &str) {
    let around = |imp: &str| format!(r#""imp":[{{{imp},"id":"1"}}]"#);
    check(market, &around(imp), &around(want));
}

fn with_fee(parts: u32) -> Market {
    let mut market = market();
    market.publishers.others = PublisherTerms { fee: ppm(parts), ..PublisherTerms::default() };
    market
}

#[test]
fn an_empty_currency_of_a_deal_is_replaced() {
    let deal = |currency: &str| {
        format!(
            r#""banner":{{}},"bidfloor":1,"bidfloorcur":"EUR","pmp":{{"deals":[{{"id":"d"{currency}}}]}}"#
        )
    };
    let mut market = with_fee(100_000);
    let free = DealTerms { fee: Some(ppm(0)), ..DealTerms::default() };
    market.deals.insert("d".into(), free);
    let body = format!(r#"{{"id":"r","imp":[{{{},"id":"1"}}]}}"#, deal(r#","bidfloorcur":"""#));
    let text =
        with_auction(&market, &body, |auction| super::outbound(auction, &body).to_text(&VIEW));
    assert_eq!(text.matches(r#""bidfloorcur":"EUR""#).count(), 2, "{text}");
    assert!(!text.contains(r#""bidfloorcur":"""#), "{text}");
}

#[test]
fn without_fee_and_rules_only_the_id_changes() {
    for same in [
        r#""banner":{}"#,
        r#""banner":{},"bidfloor":1.50,"bidfloorcur":"USD""#,
        r#""banner":{},"pmp":{"deals":[{"id":"d"},{"id":"e","bidfloor":0},{"id":"f","at":3,"bidfloor":2e0}]}"#,
        r#""video":{"mimes":["v"],"mincpmpersec":0.10,"durfloors":[{"mindur":1,"bidfloor":5.0}]}"#,
    ] {
        check_imp(&market(), same, same);
    }
    let body = r#"{ "id" : "a\"b" ,"imp":[{"id":"1","banner":{}}]}"#;
    let text =
        with_auction(&market(), body, |auction| super::outbound(auction, body).to_text(&VIEW));
    assert_eq!(
        text,
        r#"{"tmax":80,"cur":["USD"], "id" : "auction-1" ,"imp":[{"id":"1","banner":{}}]}"#
    );
}

#[test]
fn a_fee_is_added_to_floors() {
    for (imp, want) in [
        (r#""banner":{}"#, r#""banner":{}"#),
        (r#""banner":{},"bidfloor":0"#, r#""banner":{},"bidfloor":0"#),
        (r#""banner":{},"bidfloor":9"#, r#""banner":{},"bidfloor":10"#),
        (r#""banner":{},"bidfloor":1"#, r#""banner":{},"bidfloor":1.111112"#),
        (
            r#""bidfloor":9,"bidfloorcur":"EUR","banner":{}"#,
            r#""bidfloor":10,"bidfloorcur":"EUR","banner":{}"#,
        ),
        (
            r#""video":{"mimes":["v"],"mincpmpersec":0.9,"durfloors":[{"bidfloor":18,"mindur":1},{"maxdur":1}]}"#,
            r#""video":{"mimes":["v"],"mincpmpersec":1,"durfloors":[{"bidfloor":20,"mindur":1},{"maxdur":1}]}"#,
        ),
        (
            r#""audio":{"mimes":["a"],"durfloors":[{"bidfloor":18}]}"#,
            r#""audio":{"mimes":["a"],"durfloors":[{"bidfloor":20}]}"#,
        ),
    ] {
        check_imp(&with_fee(100_000), imp, want);
    }
}

#[test]
fn rules_raise_the_floor_to_what_any_bid_must_reach() {
    let rule = |format, size, floor: &str| FloorRule {
        publisher: None,
        format,
        country: None,
        size,
        floor: price(floor),
    };
    let mut market = market();
    market.floors = vec![
        rule(Some(MediaType::Banner), None, "2 USD"),
        rule(None, Some(AdSize::new(300, 250)), "3 USD"),
    ];
    for (imp, want) in [
        (r#""banner":{}"#, r#""bidfloor":2,"banner":{}"#),
        (r#""banner":{"w":300,"h":250}"#, r#""bidfloor":3,"banner":{"w":300,"h":250}"#),
        (
            r#""banner":{"format":[{"w":300,"h":250},{"w":1,"h":1}]},"bidfloor":1"#,
            r#""banner":{"format":[{"w":300,"h":250},{"w":1,"h":1}]},"bidfloor":2"#,
        ),
        (r#""banner":{},"bidfloor":5"#, r#""banner":{},"bidfloor":5"#),
        (
            r#""bidfloorcur":"EUR","banner":{}"#,
            r#""bidfloor":1.851852,"bidfloorcur":"EUR","banner":{}"#,
        ),
        (
            r#""banner":{},"video":{"mimes":["v"]},"bidfloor":1"#,
            r#""banner":{},"video":{"mimes":["v"]},"bidfloor":1"#,
        ),
        (
            r#""banner":{},"bidfloor":1,"pmp":{"deals":[{"id":"d"}]}"#,
            r#""banner":{},"bidfloor":2,"pmp":{"deals":[{"bidfloor":1,"bidfloorcur":"USD","id":"d"}]}"#,
        ),
        (
            r#""banner":{},"pmp":{"deals":[{"id":"d"}]}"#,
            r#""bidfloor":2,"banner":{},"pmp":{"deals":[{"bidfloor":0,"bidfloorcur":"USD","id":"d"}]}"#,
        ),
    ] {
        check_imp(&market, imp, want);
    }
    market.publishers.others.fee = ppm(500_000);
    check_imp(&market, r#""banner":{}"#, r#""bidfloor":4,"banner":{}"#);
}

#[test]
fn a_deal_shows_its_own_floor() {
    let mut market = with_fee(100_000);
    market
        .deals
        .insert("half".into(), DealTerms { fee: Some(ppm(500_000)), ..DealTerms::default() });
    market.deals.insert("off".into(), DealTerms { discount: ppm(200_000), ..DealTerms::default() });
    let check = |imp: &str, deal: &str, want_imp: &str, want: &str| {
        let around = |imp: &str, deal: &str| format!(r#"{imp},"pmp":{{"deals":[{deal}]}}"#);
        check_imp(&market, &around(imp, deal), &around(want_imp, want));
    };
    let (nine, ten) = (r#""banner":{},"bidfloor":9"#, r#""banner":{},"bidfloor":10"#);
    check(nine, r#"{"id":"d","bidfloor":18}"#, ten, r#"{"id":"d","bidfloor":20}"#);
    check(nine, r#"{"id":"d","bidfloor":0}"#, ten, r#"{"id":"d","bidfloor":0}"#);
    check(nine, r#"{"id":"half","bidfloor":18}"#, ten, r#"{"id":"half","bidfloor":36}"#);
    // 18 net is 20 gross, after a discount of a fifth.
    check(nine, r#"{"id":"off","bidfloor":18}"#, ten, r#"{"id":"off","bidfloor":25}"#);
    check(
        nine,
        r#"{"id":"d","mincpmpersec":0.9,"durfloors":[{"bidfloor":9},{"mindur":1}]}"#,
        ten,
        r#"{"id":"d","mincpmpersec":1,"durfloors":[{"bidfloor":10},{"mindur":1}]}"#,
    );
    check(
        nine,
        r#"{"id":"half","at":3,"bidfloor":18}"#,
        ten,
        r#"{"id":"half","at":3,"bidfloor":18}"#,
    );
    check(nine, r#"{"id":"d"}"#, ten, r#"{"id":"d"}"#);
    check(nine, r#"{"id":"half"}"#, ten, r#"{"bidfloor":18,"bidfloorcur":"USD","id":"half"}"#);
    check(
        r#""banner":{},"bidfloor":9,"bidfloorcur":"EUR""#,
        r#"{"id":"off"}"#,
        r#""banner":{},"bidfloor":10,"bidfloorcur":"EUR""#,
        r#"{"bidfloor":12.5,"bidfloorcur":"EUR","id":"off"}"#,
    );
    check(
        nine,
        r#"{"id":"half","bidfloorcur":"EUR"}"#,
        ten,
        r#"{"bidfloor":16.666667,"id":"half","bidfloorcur":"EUR"}"#,
    );
    check(
        r#""video":{"mimes":["v"],"mincpmpersec":0.9}"#,
        r#"{"id":"half"}"#,
        r#""video":{"mimes":["v"],"mincpmpersec":1}"#,
        r#"{"id":"half"}"#,
    );
}

#[test]
fn our_node_ends_the_supply_chain() {
    let imp = r#""imp":[{"id":"1","banner":{}}]"#;
    let site = r#""site":{"publisher":{"id":"p\"1"}}"#;
    let mut market = market();
    let check_with = |market: &Market, source: &str, want: &str| {
        check(market, &format!("{source}{imp},{site}"), &format!("{want}{imp},{site}"));
    };
    let sent = r#""source":{"schain":{"ver":"1.0","complete":1,"nodes":[{"asi":"a"}]}},"#;
    check_with(&market, sent, sent);
    check_with(&market, "", "");
    market.supply_chain =
        Some(SupplyChainNode { asi: "us.example".into(), name: Some("U\"s".into()), domain: None });
    let node = r#"{"asi":"us.example","sid":"p\"1","rid":"auction-1","hp":1,"name":"U\"s"}"#;
    let chain = format!(r#""schain":{{"ver":"1.0","complete":1,"nodes":[{node}]}}"#);
    check_with(
        &market,
        sent,
        &format!(
            r#""source":{{"schain":{{"ver":"1.0","complete":1,"nodes":[{{"asi":"a"}},{node}]}}}},"#
        ),
    );
    check_with(
        &market,
        r#""source":{"schain":{"nodes":[ ]}},"#,
        &format!(r#""source":{{"schain":{{"nodes":[ {node}]}}}},"#),
    );
    check_with(
        &market,
        r#""source":{"schain":{"ver":"1.0"}},"#,
        r#""source":{"schain":{"ver":"1.0"}},"#,
    );
    // Its place in OpenRTB 2.5.
    check_with(
        &market,
        r#""source":{"ext":{"schain":{"nodes":[{}]}}},"#,
        &format!(r#""source":{{"ext":{{"schain":{{"nodes":[{{}},{node}]}}}}}},"#),
    );
    check_with(&market, r#""source":{"tid":"t"},"#, &format!(r#""source":{{{chain},"tid":"t"}},"#));
    check_with(&market, r#""source":{},"#, &format!(r#""source":{{{chain}}},"#));
    check_with(&market, r#""source":null,"#, &format!(r#""source":{{{chain}}},"#));
    check(&market, imp, imp);
    let body = format!(r#"{{"id":"c","tmax":1,"cur":[],{imp},{site}}}"#);
    let text =
        with_auction(&market, &body, |auction| super::outbound(auction, &body).to_text(&VIEW));
    let want = format!(
        r#"{{"source":{{{chain}}},"id":"auction-1","tmax":80,"cur":["USD"],{imp},{site}}}"#
    );
    assert_eq!(text, want);
}
