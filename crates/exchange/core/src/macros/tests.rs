//! Every macro, and what is none.

use super::*;
use crate::fixtures::{cpm, ppm};

fn values() -> MacroValues<'static> {
    MacroValues {
        auction_id: "A",
        bid_id: "B",
        imp_id: "I",
        seat_id: "S",
        ad_id: "D",
        price: cpm("8"),
        currency: Currency::USD,
        bid: cpm("10"),
        min_to_win: Some(cpm("7.5")),
        multiplier: Multiplier::parse("30.3").unwrap(),
        discount: ppm(200_000),
        loss_code: 102,
    }
}

#[track_caller]
fn check(values: &MacroValues<'_>, text: &str, want: &str) {
    assert_eq!(values.substitute(text), want, "{text}");
}

#[test]
fn every_macro_has_its_value() {
    for (name, want) in [
        ("ID", "A"),
        ("BID_ID", "B"),
        ("IMP_ID", "I"),
        ("SEAT_ID", "S"),
        ("AD_ID", "D"),
        ("PRICE", "8"),
        ("CURRENCY", "USD"),
        ("MBR", "0.8"),
        ("LOSS", "102"),
        ("MIN_TO_WIN", "7.5"),
        ("MULTIPLIER", "30.3"),
        ("IMP_TS", ""),
        ("DISCOUNT_PCT", "20"),
        ("DISCOUNT_CPM", "2"),
    ] {
        let text = format!("a=${{AUCTION_{name}}}&b=${{AUCTION_{name}}}");
        check(&values(), &text, &format!("a={want}&b={want}"));
    }
}

#[test]
fn a_macro_without_a_value_is_removed() {
    let values = MacroValues { min_to_win: None, ad_id: "", ..values() };
    check(&values, "<${AUCTION_MIN_TO_WIN}${AUCTION_AD_ID}>", "<>");
}

#[test]
fn what_is_no_macro_stays() {
    for text in [
        "",
        "plain",
        "${AUCTION_",
        "${AUCTION_PRICE",
        "${AUCTION_NEW}",
        "${AUCTION_PRICE:B64}",
        "${auction_price}",
        "$AUCTION_PRICE",
        "${AUCTION_é}",
        "${AUCTION_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaé}",
    ] {
        check(&values(), text, text);
    }
    check(&values(), "${AUCTION_X${AUCTION_PRICE}", "${AUCTION_X8");
    check(&values(), "é${AUCTION_PRICE}é}", "é8é}");
}

#[test]
fn ids_are_bounded() {
    let longest = "x".repeat(VALUE_BYTES_MAX);
    let longer = "x".repeat(VALUE_BYTES_MAX + 1);
    let with = |bid_id: &str| MacroValues { bid_id, ..values() }.substitute("${AUCTION_BID_ID}");
    assert_eq!(with(&longest), longest);
    assert_eq!(with(&longer), "");
}

#[test]
fn ratios_and_discounts_at_the_edges() {
    let of = |price, bid, discount| MacroValues { price, bid, discount, ..values() };
    let text = "${AUCTION_MBR} ${AUCTION_DISCOUNT_PCT} ${AUCTION_DISCOUNT_CPM}";
    check(&of(cpm("1"), cpm("3"), Ppm::ZERO), text, "0.333333 0 0");
    check(&of(Cpm::ZERO, Cpm::ZERO, Ppm::ZERO), text, "0 0 0");
    check(&of(Cpm::MAX, Cpm::MAX, Ppm::ONE), text, "1 100 1000000000");
    check(&of(cpm("1"), cpm("0.000001"), ppm(25_000)), text, "1000000 2.5 0.000001");
    check(&of(Cpm::MAX, cpm("0.000001"), ppm(1)), text, " 0.0001 0.000001");
}
