//! The limit of macros in a bid, however escaped and wherever they are.

use openrtb::{members, string};
use proptest::prelude::*;

use super::*;
use crate::creatives::macros::MacroValues;

const MACROS_MAX: usize = 3;

fn verdict(text: &str) -> Result<(), Fate> {
    let body = format!(r#"{{"id":"{AUCTION_ID}","seatbid":[{{"bid":[{text}]}}]}}"#);
    let market = Market { bid_macros_max: MACROS_MAX, ..market() };
    with_auction(&market, &request(json!({})), |auction| {
        let bodies = [(0, body)];
        let judgement = judge(auction, &answers(auction, &bodies));
        judgement.bids[0].entry.map(|_| ())
    })
}

fn bid_text(adm: &str, nurl: &str, lurl: &str, iurl: &str) -> String {
    format!(
        r#"{{"id":"b","impid":"1","price":2,"crid":"c","adomain":["a.example"],"adm":{adm},"nurl":"{nurl}","lurl":"{lurl}","iurl":"{iurl}"}}"#
    )
}

fn replaced(text: &str) -> usize {
    const VALUE: &str = "zzz";
    let values = MacroValues {
        auction_id: VALUE,
        bid_id: "",
        imp_id: "",
        seat_id: "",
        ad_id: "",
        price: None,
        currency: Currency::USD,
        bid: None,
        min_to_win: None,
        multiplier: None,
        discount: Ppm::ZERO,
        loss: None,
        left: &[],
    };
    values.substitute(text).matches(VALUE).count()
}

/// Most macros of a bid that can be replaced: in its text as is, or in its unescaped markup and
/// URLs.
fn most_replaced(text: &str) -> usize {
    let of_member = |(key, raw): (Text<'_>, &str)| match &*key {
        "adm" | "nurl" | "lurl" => {
            replaced(raw).max(string(raw).map_or(0, |resolved| replaced(&resolved)))
        }
        _ => replaced(raw),
    };
    let apart = members(text).expect("it is JSON").into_iter().map(of_member).sum();
    replaced(text).max(apart)
}

#[test]
fn macros_of_all_members_count_together() {
    let (plain, hidden) = ("${AUCTION_ID}", r"${\u0041UCTION_ID}");
    for (adm, nurl, want) in [
        (plain.repeat(3), String::new(), Ok(())),
        (plain.repeat(2), plain.to_owned(), Ok(())),
        (hidden.repeat(2), plain.to_owned(), Ok(())),
        (plain.repeat(2), hidden.to_owned(), Ok(())),
        (hidden.repeat(3), plain.to_owned(), Err(Fate::Malformed)),
        (plain.to_owned(), hidden.repeat(3), Err(Fate::Malformed)),
        (String::new(), hidden.repeat(4), Err(Fate::Malformed)),
        (hidden.repeat(2), hidden.repeat(2), Err(Fate::Malformed)),
    ] {
        let text = bid_text(&format!("\"<p>{adm}\""), &format!("https://a/{nurl}"), "", "");
        assert_eq!(verdict(&text), want, "{text}");
    }
}

fn some_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "${AUCTION_ID}",
        r"\u0024{AUCTION_ID}",
        r"$\u007bAUCTION_ID\u007d",
        r"${\u0041UCTION_ID}",
        r"\u0024\u007b\u0041UCTION\u005fID\u007d",
        r"\u005cu0024{AUCTION_ID}",
        r"\\u0024{AUCTION_ID}",
        r"\u000AUCTION_ID}",
        "${AUCTION_NONE}",
        "AUCTION_",
        "$",
        "p",
    ]);
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bid_that_passes_has_more_macros_replaced(
        adm in some_text(), nurl in some_text(), lurl in some_text(), iurl in some_text(),
        is_object in any::<bool>(),
    ) {
        let adm = if is_object { format!(r#"{{"a":"{adm}"}}"#) } else { format!(r#""<p>{adm}""#) };
        let text = bid_text(&adm, &nurl, &lurl, &iurl);
        if verdict(&text) != Err(Fate::Malformed) {
            prop_assert!(most_replaced(&text) <= MACROS_MAX, "{} in {text}", most_replaced(&text));
        }
    }
}
