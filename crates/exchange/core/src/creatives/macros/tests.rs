//! Every macro in every encoding, texts that are no macros, and hostile values.

use proptest::prelude::*;

use super::*;
use crate::fixtures::{cpm, ppm};

/// Ids that do harm if not encoded.
const HOSTILE: [&str; 8] = [
    r#"" onload="alert(1)"#,
    "'><script>alert(1)</script>",
    "]]></Impression><Impression>",
    "a&b=c?d#e",
    "x\r\nHost: evil\r\n\r\n",
    "${AUCTION_PRICE}",
    r"\u0022,\\",
    "é\u{0}😀%20+ ",
];

fn values() -> MacroValues<'static> {
    MacroValues {
        auction_id: "A",
        bid_id: "B",
        imp_id: "I",
        seat_id: "S",
        ad_id: "D",
        price: Some(cpm("8")),
        currency: Currency::USD,
        bid: Some(cpm("10")),
        min_to_win: Some(cpm("7.5")),
        multiplier: Some(Multiplier::parse("30.3").unwrap()),
        discount: ppm(200_000),
        loss: Some(102),
        left: &[],
    }
}

#[track_caller]
fn check(values: &MacroValues<'_>, text: &str, want: &str) {
    assert_eq!(values.substitute(text), want, "{text}");
}

#[test]
fn every_macro_has_its_value_plain_and_in_base64() {
    for (name, want, base64) in [
        ("ID", "A", "QQ%3D%3D"),
        ("BID_ID", "B", "Qg%3D%3D"),
        ("IMP_ID", "I", "SQ%3D%3D"),
        ("SEAT_ID", "S", "Uw%3D%3D"),
        ("AD_ID", "D", "RA%3D%3D"),
        ("PRICE", "8", "OA%3D%3D"),
        ("CURRENCY", "USD", "VVNE"),
        ("MBR", "0.8", "MC44"),
        ("LOSS", "102", "MTAy"),
        ("MIN_TO_WIN", "7.5", "Ny41"),
        ("MULTIPLIER", "30.3", "MzAuMw%3D%3D"),
        ("DISCOUNT_PCT", "20", "MjA%3D"),
        ("DISCOUNT_CPM", "2", "Mg%3D%3D"),
    ] {
        let text = format!("a=${{AUCTION_{name}}}&b=${{AUCTION_{name}:B64}}&c=${{AUCTION_{name}}}");
        check(&values(), &text, &format!("a={want}&b={base64}&c={want}"));
    }
}

#[test]
fn a_macro_without_a_value_is_removed() {
    let values = MacroValues {
        min_to_win: None,
        ad_id: "",
        price: None,
        multiplier: None,
        loss: None,
        ..values()
    };
    for name in ["MIN_TO_WIN", "AD_ID", "PRICE", "MBR", "MULTIPLIER", "LOSS", "IMP_TS"] {
        check(&values, &format!("<${{AUCTION_{name}}}${{AUCTION_{name}:B64}}>"), "<>");
    }
}

#[test]
fn escapes_of_signs_are_the_signs() {
    for text in [
        r"\u0024{AUCTION_PRICE}",
        r"$\u007bAUCTION_PRICE\u007d",
        r"\u0024\u007BAUCTION_PRICE\u007D",
        r"\\\u0024{AUCTION_PRICE}",
    ] {
        let before = text.len() - text.trim_start_matches(r"\\").len();
        check(&values(), text, &format!("{}8", &text[..before]));
    }
    check(&values(), r"\u0024{AUCTION_PRICE:B64\u007d}", "OA%3D%3D}");
    for text in [
        r"\\u0024{AUCTION_PRICE}",
        r"\u0025{AUCTION_PRICE}",
        r"\u0024AUCTION_PRICE}",
        r"${AUCTION_PRICE\u007c",
        r"${AUCTION_PRICE\u00",
        r"\u0024{AUCTION_NEW\u007d",
    ] {
        check(&values(), text, text);
    }
}

#[test]
fn what_is_no_macro_stays() {
    for text in [
        "",
        "plain",
        "${AUCTION_",
        "${AUCTION_PRICE",
        "${AUCTION_NEW}",
        "${AUCTION_NEW:B64}",
        "${AUCTION_PRICE:X}",
        "${AUCTION_PRICE:}",
        "${AUCTION_PRICE:b64}",
        "${AUCTION_PRICE:B64:B64}",
        "${auction_price}",
        "$AUCTION_PRICE",
        "AUCTION_PRICE}",
        "{AUCTION_PRICE}",
        "${AUCTION_é}",
        "${AUCTION_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaé}",
    ] {
        check(&values(), text, text);
        assert_eq!(LateValues::default().substitute(text), text);
    }
    check(&values(), "${AUCTION_X${AUCTION_PRICE}", "${AUCTION_X8");
    check(&values(), "é${AUCTION_PRICE}é}", "é8é}");
}

#[test]
fn what_is_known_later_stays_until_then() {
    let values = MacroValues { left: &["LOSS", "IMP_TS"], ..values() };
    let text = "${AUCTION_IMP_TS}|${AUCTION_LOSS:B64}|${AUCTION_PRICE}|${AUCTION_NEW}";
    let url = values.substitute(text);
    assert_eq!(url, "${AUCTION_IMP_TS}|${AUCTION_LOSS:B64}|8|${AUCTION_NEW}");
    let late = LateValues { imp_ts_ms: Some(12), loss: Some(102) };
    assert_eq!(late.substitute(&url), "12|MTAy|8|${AUCTION_NEW}");
    assert_eq!(LateValues::default().substitute(&url), "||8|${AUCTION_NEW}");
}

#[test]
fn macros_are_counted_and_no_escape_hides_one() {
    let check = |json: &str, want: (usize, usize)| {
        assert_eq!((macros_len(json), macros_bound(json)), want, "{json}");
    };
    check("", (0, 0));
    check("${AUCTION_PRICE}${AUCTION_X}${AUCTION_", (3, 3));
    check("$ ${OTHER} $$", (0, 4));
    check(r"\u0024{AUCTION_PRICE} $\u007bAUCTION_ID}", (2, 3));
    check(r"\u005cu0024{AUCTION_PRICE} \\\u00750024{AUCTION_ID}", (2, 2));
}

#[test]
fn ids_inject_nothing() {
    for id in HOSTILE {
        let values = MacroValues { bid_id: id, ..values() };
        let url = values.substitute("https://x?b=${AUCTION_BID_ID}&c=${AUCTION_BID_ID:B64}");
        let (first, second) = url.strip_prefix("https://x?b=").unwrap().split_once("&c=").unwrap();
        for part in [first, second] {
            assert!(part.bytes().all(|byte| is_unreserved(byte) || byte == b'%'), "{url}");
        }
        assert_eq!(decoded(first), id.as_bytes());
        assert_eq!(STANDARD.decode(decoded(second)).unwrap(), id.as_bytes());
        // Neither a second pass nor late values find another macro.
        assert_eq!(values.substitute(&url), url);
        assert_eq!(LateValues { imp_ts_ms: Some(1), loss: Some(2) }.substitute(&url), url);
    }
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
        let hex = std::str::from_utf8(&hex).unwrap();
        assert_eq!(hex, hex.to_uppercase());
        out.push(u8::from_str_radix(hex, 16).unwrap());
    }
    out
}

#[test]
fn ids_are_bounded() {
    let with = |bid_id: &str, name: &str| {
        MacroValues { bid_id, ..values() }.substitute(&format!("${{AUCTION_{name}}}"))
    };
    let longest = "x".repeat(VALUE_BYTES_MAX);
    assert_eq!(with(&longest, "BID_ID"), longest);
    assert_eq!(with(&"x".repeat(VALUE_BYTES_MAX + 1), "BID_ID"), "");
    // The encoded length counts.
    assert_eq!(with(&" ".repeat(VALUE_BYTES_MAX / 3), "BID_ID").len(), VALUE_BYTES_MAX / 3 * 3);
    assert_eq!(with(&" ".repeat(VALUE_BYTES_MAX / 3 + 1), "BID_ID"), "");
    assert_eq!(with(&"x".repeat(192), "BID_ID:B64").len(), 256);
    assert_eq!(with(&"x".repeat(195), "BID_ID:B64"), "");
}

#[test]
fn ratios_and_discounts_at_the_edges() {
    let of = |price, bid, discount| MacroValues {
        price: Some(price),
        bid: Some(bid),
        discount,
        ..values()
    };
    let text = "${AUCTION_MBR} ${AUCTION_DISCOUNT_PCT} ${AUCTION_DISCOUNT_CPM}";
    check(&of(cpm("1"), cpm("3"), Ppm::ZERO), text, "0.333333 0 0");
    check(&of(Cpm::ZERO, Cpm::ZERO, Ppm::ZERO), text, "0 0 0");
    check(&of(Cpm::MAX, Cpm::MAX, Ppm::ONE), text, "1 100 1000000000");
    check(&of(cpm("1"), cpm("0.000001"), ppm(25_000)), text, "1000000 2.5 0.000001");
    check(&of(Cpm::MAX, cpm("0.000001"), ppm(1)), text, " 0.0001 0.000001");
    check(&MacroValues { bid: None, ..values() }, text, " 20 ");
}

proptest! {
    #[test]
    fn any_id_in_any_string(id in "\\PC{0,40}|[\\x00-\\x7f]{0,40}", name in "(BID_ID|AD_ID|IMP_ID|SEAT_ID)(:B64)?") {
        let values = MacroValues { bid_id: &id, ad_id: &id, imp_id: &id, seat_id: &id, ..values() };
        let text = format!(r#"{{"adm":"<a href=\"${{AUCTION_{name}}}\">"}}"#);
        let out = values.substitute(&text);
        prop_assert!(openrtb::is_json(&out));
        prop_assert_eq!(values.substitute(&out), out.clone());
        prop_assert!(out.len() <= text.len() + VALUE_BYTES_MAX);
    }
}
