//! Amounts, holdbacks and gains as text, with the remedy for each mistake.

use super::*;

const EUR: Currency = Currency::parse("EUR").expect("a code");

#[test]
fn amounts() {
    let check = |text: &str, want: Result<u64, &str>| {
        let found = money(text, EUR).map(|money| money.amount.get());
        assert_eq!(found, want.map_err(str::to_owned), "{text}");
    };
    let form = "needs an amount, for example \"1000.00\"";
    let large = "is more than 18446744073.709551615 EUR, the largest amount";
    check("1000.00", Ok(1_000_000_000_000));
    check("0", Ok(0));
    check("0.000000001", Ok(1));
    check("18446744073.709551615", Ok(u64::MAX));
    check("1 EUR", Ok(1_000_000_000));
    check("0.0000000001", Err("is finer than a thousand-millionth of the currency"));
    check("18446744073.709551616", Err(large));
    check("99999999999999999999999999999999", Err(large));
    check("-1", Err("is negative: give 0 or more"));
    check("", Err(form));
    check("a lot", Err(form));
    check("1,000", Err(form));
    check("1 USD", Err("is in USD, but the account is in EUR: give it in EUR"));
    check("1 eur", Err("unknown currency `eur`, leave it out or write EUR"));
}

#[test]
fn holdbacks() {
    let remedy = "needs a share from 0% to 100%, no finer than 0.0001%, or an amount";
    let check = |text: &str, want: Result<Holdback, &str>| {
        assert_eq!(holdback(text, EUR), want.map_err(str::to_owned), "{text}");
    };
    check("1%", Ok(Holdback::Share(Ppm::new(10_000).unwrap())));
    check("100%", Ok(Holdback::Share(Ppm::ONE)));
    check("0.0001%", Ok(Holdback::Share(Ppm::new(1).unwrap())));
    check("2.50", Ok(Holdback::Amount(Money { amount: Nanos::new(2_500_000_000), currency: EUR })));
    for text in ["101%", "-1%", "0.00001%", "%", "a%"] {
        check(text, Err(remedy));
    }
    check("-2", Err("is negative: give 0 or more"));
}

#[test]
fn gains() {
    assert_eq!(gain("0.3"), Ok(0.3));
    for text in ["", "-1", "NaN", "inf", "a", "1e999"] {
        assert!(gain(text).is_err(), "{text}");
    }
}
