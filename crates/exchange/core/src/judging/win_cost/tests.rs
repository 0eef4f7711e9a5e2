//! Costs of wins to accounts, by currency and format.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    answers, bid, cleared, currency, imp, market, merged, request, response, with_auction,
};
use crate::judging::judge::judge;

#[track_caller]
fn check((price, cur): (f64, &str), of_imp: Value, of: &str, want: Option<(u64, u32)>) {
    let request = request(json!({ "at": 1, "app": {}, "imp": [imp(of_imp)] }));
    let body = merged(
        &serde_json::from_str(&response(&[bid(json!({ "price": price }))])).unwrap(),
        &json!({ "cur": cur }),
    );
    let bodies = [(1, body.to_string())];
    with_auction(&market(), &request, |auction| {
        let answers = answers(auction, &bodies);
        let judgement = judge(auction, &answers);
        let clearing = cleared(auction, &judgement, |_| Ok(()));
        let win = clearing.wins[0].expect("one bid wins");
        let lifetimes = Lifetimes::default();
        let owed = win_cost(auction, &judgement, &win, currency(of), &lifetimes);
        let got = owed.map(|owed| (owed.amount.get(), owed.billable_s));
        assert_eq!(got, want, "{price} {cur} in {of}");
    });
}

#[test]
fn in_the_accounts_currency_and_never_less_than_is_paid() {
    check((2.0, "USD"), json!({}), "USD", Some((2_000_000, 300)));
    // The bid's own currency: exactly its price, without two conversions.
    check((1.0, "EUR"), json!({}), "EUR", Some((1_000_000, 300)));
    // 1.000001 USD is 0.92592685… EUR, and 156.25015625 JPY.
    check((1.000001, "USD"), json!({}), "EUR", Some((925_927, 300)));
    check((1.000001, "USD"), json!({}), "JPY", Some((156_250_157, 300)));
    check((1.0, "USD"), json!({}), "CHF", None);
}

#[test]
fn for_all_impressions_of_a_display_and_for_as_long_as_it_may_be_billed() {
    check((2.0, "USD"), json!({ "qty": { "multiplier": 2.5 } }), "USD", Some((5_000_000, 300)));
    check((2.0, "USD"), json!({ "exp": 7200 }), "USD", Some((2_000_000, 7200)));
}
