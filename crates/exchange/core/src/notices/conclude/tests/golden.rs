//! Every macro × `adm`, `nurl`, `burl`, `lurl` × mode, as the caller and the DSPs see them.

use super::*;
use crate::creatives::macros::LateValues;

const NAMES: [&str; 14] = [
    "ID",
    "BID_ID",
    "IMP_ID",
    "SEAT_ID",
    "AD_ID",
    "PRICE",
    "CURRENCY",
    "MBR",
    "LOSS",
    "MIN_TO_WIN",
    "MULTIPLIER",
    "IMP_TS",
    "DISCOUNT_PCT",
    "DISCOUNT_CPM",
];

fn all() -> String {
    NAMES.map(|name| format!("${{AUCTION_{name}}}")).join("|")
}

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn with_all(dsp: &str, change: Value) -> Value {
    let place = |place: &str| format!("https://n.{dsp}.example/{place}?{}", all());
    let places = json!({
        "adm": format!("<p>{}</p>", all()),
        "nurl": place("win"), "burl": place("bill"), "lurl": place("loss"),
        "impid": "i<1>",
    });
    crate::fixtures::merged(&crate::fixtures::bid(places), &change)
}

/// Alpha wins at 10 USD before beta at 5 GBP, which are 6.35 USD; gamma has one bid below the floor
/// and one for an unknown impression. 30.3 impressions per display.
fn rehearsal(mode: NoticeMode, at: u32) -> SampleAuction {
    let alpha = with_all("alpha", json!({ "price": 10, "adid": "D&1" }));
    let beta = with_all("beta", json!({ "price": 5 }));
    let low = with_all("gamma", json!({ "price": 0.5 }));
    let lost = with_all("gamma", json!({ "id": "b2", "impid": "9", "price": 20 }));
    let bodies = [
        (0, response(&[alpha], json!({ "bidid": "r\"7" }))),
        (1, response(&[beta], json!({ "bidid": "${AUCTION_PRICE}\r\n", "cur": "GBP" }))),
        (2, response(&[low, lost], json!({}))),
    ];
    let imp = imp(json!({ "id": "i<1>", "bidfloor": 1, "qty": { "multiplier": 30.3 } }));
    SampleAuction::new(mode, &request(json!({ "at": at, "imp": [imp] })), &bodies)
}

fn values_after<'t>(text: &'t str, prefix: &str) -> &'t str {
    let (_, rest) = text.split_once(prefix).unwrap_or_else(|| panic!("{prefix} in {text}"));
    rest.split(['"', '<', ' ']).next().unwrap_or_default()
}

const WON: &str =
    "00112233445566778899aabbccddeeff|r%227|i%3C1%3E|a1|D%261|6.36|USD|0.636|0|6.35|30.3||0|0";
const BILLED: &str = "00112233445566778899aabbccddeeff|r%227|i%3C1%3E|a1|D%261|6.36|USD|0.636|0|6.35|30.3|1700000000123|0|0";
const LOST_ELSEWHERE: &str =
    "00112233445566778899aabbccddeeff|r%227|i%3C1%3E|a1|D%261||USD||42|6.35|||0|0";

/// The three losers, in the order of their bids; the winner's price is 6.36 USD, or 5.007874… GBP.
const LOST: [&str; 3] = [
    "https://n.beta.example/loss?00112233445566778899aabbccddeeff|%24%7BAUCTION_PRICE%7D%0D%0A|i%3C1%3E|b1|||GBP||102|5.007875|||0|0",
    "https://n.gamma.example/loss?00112233445566778899aabbccddeeff||i%3C1%3E|g1|||USD||100|6.36|||0|0",
    "https://n.gamma.example/loss?00112233445566778899aabbccddeeff|||g1|||USD||3||||0|0",
];

fn late(url: &str) -> String {
    LateValues { imp_ts_ms: Some(1_700_000_000_123), loss: Some(42) }.substitute(url)
}

#[test]
fn passed_through() {
    let (bids, conclusion) = rehearsal(NoticeMode::PassThrough, 2).bids();
    assert_eq!(bids[0]["adm"], format!("<p>{WON}</p>"));
    // Macros that only the caller can replace stay.
    let billed = BILLED.replace("1700000000123", "${AUCTION_IMP_TS}");
    let lost = "00112233445566778899aabbccddeeff|r%227|i%3C1%3E|a1|D%261|${AUCTION_PRICE}|\
                ${AUCTION_CURRENCY}|${AUCTION_MBR}|${AUCTION_LOSS}|${AUCTION_MIN_TO_WIN}|||0|0";
    for (key, place, values) in
        [("nurl", "win", WON), ("burl", "bill", &billed), ("lurl", "loss", lost)]
    {
        assert_eq!(bids[0][key], format!("https://n.alpha.example/{place}?{values}"));
    }
    assert!(conclusion.immediate.is_empty());
}

#[test]
fn final_auction() {
    let (bids, conclusion) = rehearsal(NoticeMode::Final, 2).bids();
    let adm = bids[0]["adm"].as_str().unwrap();
    assert_eq!(values_after(adm, "<p>"), WON);
    let want = [format!("https://n.alpha.example/win?{WON}")];
    let want: Vec<&str> = want.iter().map(String::as_str).chain(LOST).collect();
    assert_eq!(urls(&conclusion), want);
    let sealed = &tokens(adm)[0].url;
    assert_eq!(sealed.matches("${").count(), 1);
    assert_eq!(late(sealed), format!("https://n.alpha.example/bill?{BILLED}"));
}

#[test]
fn upstream_auction() {
    let (bids, conclusion) = rehearsal(NoticeMode::Upstream, 2).bids();
    assert_eq!(bids[0]["adm"], format!("<p>{WON}</p>"));
    assert_eq!(urls(&conclusion), LOST);
    for (key, want) in [
        ("nurl", format!("https://n.alpha.example/win?{WON}")),
        ("burl", format!("https://n.alpha.example/bill?{BILLED}")),
        ("lurl", format!("https://n.alpha.example/loss?{LOST_ELSEWHERE}")),
    ] {
        assert_eq!(late(&tokens(bids[0][key].as_str().unwrap())[0].url), want, "{key}");
    }
}

/// Each at its own price. The minimum to win is the winner's price; for the winner, the next bid's.
#[test]
fn all_bids_upstream() {
    let (bids, conclusion) = rehearsal(NoticeMode::Upstream, 1).returning_all().bids();
    assert_eq!(bids.len(), 2);
    assert_eq!(urls(&conclusion)[..1], [LOST[1].replace("|6.36|", "|10|")]);
    let prices: Vec<_> = bids.iter().map(|bid| bid["price"].as_f64().unwrap()).collect();
    assert_eq!(prices, [10.0, 6.35]);
    let id = "00112233445566778899aabbccddeeff";
    // 10 USD are 7.874015… GBP.
    let beta = format!("{id}|%24%7BAUCTION_PRICE%7D%0D%0A|i%3C1%3E|b1|");
    for (bid, dsp, won, lost) in [
        (
            &bids[0],
            "alpha",
            format!("{id}|r%227|i%3C1%3E|a1|D%261|10|USD|1|0|6.35|30.3||0|0"),
            format!("{id}|r%227|i%3C1%3E|a1|D%261||USD||42|6.35|||0|0"),
        ),
        (
            &bids[1],
            "beta",
            format!("{beta}|5|GBP|1|0|7.874016|30.3||0|0"),
            format!("{beta}||GBP||42|7.874016|||0|0"),
        ),
    ] {
        assert_eq!(bid["adm"], format!("<p>{won}</p>"));
        let sealed = |key: &str| late(&tokens(bid[key].as_str().unwrap())[0].url);
        assert_eq!(sealed("nurl"), format!("https://n.{dsp}.example/win?{won}"));
        let billed = won.replace("|30.3||", "|30.3|1700000000123|");
        assert_eq!(sealed("burl"), format!("https://n.{dsp}.example/bill?{billed}"));
        assert_eq!(sealed("lurl"), format!("https://n.{dsp}.example/loss?{lost}"));
    }
}

/// Section 4.4.1's tables, for losers: bids of 1.00, 0.90, 0.80 and an invalid one, a floor of
/// $0.85.
#[test]
fn losers_of_the_specification_learn_what_they_may() {
    for (at, least) in [(1, "1"), (2, "0.91")] {
        let lurl = |dsp: &str| {
            format!("https://n.{dsp}.example/?${{AUCTION_PRICE}}|${{AUCTION_MIN_TO_WIN}}")
        };
        let of = |dsp: &str, price: f64| noticed(dsp, json!({ "price": price, "lurl": lurl(dsp) }));
        let invalid =
            crate::fixtures::merged(&of("gamma", 5.0), &json!({ "id": "x", "impid": "9" }));
        let bodies = [
            (0, response(&[of("alpha", 1.0)], json!({}))),
            (1, response(&[of("beta", 0.9)], json!({}))),
            (2, response(&[of("gamma", 0.8), invalid], json!({}))),
        ];
        let body = request(json!({ "at": at, "imp": [imp(json!({ "bidfloor": 0.85 }))] }));
        let (_, conclusion) = SampleAuction::new(NoticeMode::Upstream, &body, &bodies).bids();
        let want = [
            format!("https://n.beta.example/?|{least}"),
            format!("https://n.gamma.example/?|{least}"),
            "https://n.gamma.example/?|".to_owned(),
        ];
        assert_eq!(urls(&conclusion), want);
    }
}

/// A deal's discount is added; if no price would have won, none is given.
#[test]
fn the_least_to_win_is_told_where_price_decided() {
    let lurl = "https://n.beta.example/?${AUCTION_LOSS}|${AUCTION_MIN_TO_WIN}|${AUCTION_DISCOUNT_PCT}|${AUCTION_DISCOUNT_CPM}";
    let check = |deal: Value, terms: crate::market::DealTerms, of_alpha: Value, want: &str| {
        let imp = imp(json!({ "pmp": { "deals": [deal] } }));
        let body = request(json!({ "at": 1, "imp": [imp] }));
        let alpha = crate::fixtures::merged(&json!({ "price": 4 }), &of_alpha);
        let beta = json!({ "price": 4, "dealid": "d", "lurl": lurl });
        let bodies = [
            (0, response(&[noticed("alpha", alpha)], json!({}))),
            (1, response(&[noticed("beta", beta)], json!({}))),
        ];
        let mut rehearsal = SampleAuction::new(NoticeMode::Final, &body, &bodies);
        rehearsal.market.deals.insert("d".into(), terms);
        let (_, conclusion) = rehearsal.bids();
        assert_eq!(conclusion.immediate[1].url, format!("https://n.beta.example/?{want}"));
    };
    let plain = crate::market::DealTerms::default;
    let discount = || crate::market::DealTerms { discount: ppm(200_000), ..plain() };
    let alone = json!({ "price": 5 });
    check(json!({ "id": "d" }), discount(), json!({}), "102|5|20|0.8");
    check(json!({ "id": "d" }), plain(), alone.clone(), "102|5|0|0");
    // An agreed price cannot be raised.
    check(json!({ "id": "d", "at": 3, "bidfloor": 2 }), plain(), alone.clone(), "102||0|0");
    // Below its own floor: above the winner's price, or below it in a higher class.
    check(json!({ "id": "d", "bidfloor": 6 }), plain(), alone.clone(), "101|6|0|0");
    let first = crate::market::DealTerms { priority: Some(1), ..plain() };
    check(json!({ "id": "d", "bidfloor": 4.5 }), first.clone(), alone, "101|4.5|0|0");
    // Nothing helps a bid of a lower class.
    let deals = json!([{ "id": "d" }, { "id": "e" }]);
    let body = request(json!({ "at": 1, "imp": [imp(json!({ "pmp": { "deals": deals } }))] }));
    let of = |dsp: &str, deal: &str, price: u32| {
        let change = json!({ "price": price, "dealid": deal, "lurl": lurl.replace("beta", dsp) });
        response(&[noticed(dsp, change)], json!({}))
    };
    let bodies = [(0, of("alpha", "d", 1)), (1, of("beta", "e", 9))];
    let mut rehearsal = SampleAuction::new(NoticeMode::Final, &body, &bodies);
    rehearsal.market.deals.insert("d".into(), first);
    let (_, conclusion) = rehearsal.bids();
    assert_eq!(conclusion.immediate[1].url, "https://n.beta.example/?103||0|0");
}
