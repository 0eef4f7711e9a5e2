//! Amounts of money, shares and gains as definitions write them: decimal text, parsed exactly.
//!
//! Each parser returns a value, or a remedy as a lower-case fragment.

use units::{Currency, Decimal, DecimalError, Nanos, Ppm};

use crate::ledger::{Holdback, LimitSpan, Money};

/// The keys of limits. The API may override them in a file's definition.
pub const LIMIT_KEYS: [(&str, LimitSpan); 3] = [
    ("budget", LimitSpan::Life),
    ("daily_budget", LimitSpan::Day),
    ("hourly_budget", LimitSpan::Hour),
];

/// Parses `"1000.00"` in the account's currency; `"1000.00 USD"` repeats the currency.
pub fn money(text: &str, currency: Currency) -> Result<Money, String> {
    let (number, code) = text.split_once(' ').unwrap_or((text, ""));
    let decimal = Decimal::parse(number).map_err(|error| match error {
        DecimalError::Negative => "is negative: give 0 or more".to_owned(),
        DecimalError::Malformed => "needs an amount, for example \"1000.00\"".to_owned(),
        DecimalError::TooLarge => too_large(currency),
    })?;
    match Currency::parse(code) {
        None if code.is_empty() => (),
        None => return Err(format!("unknown currency `{code}`, leave it out or write {currency}")),
        Some(given) if given != currency => {
            return Err(format!(
                "is in {given}, but the account is in {currency}: give it in {currency}"
            ));
        }
        Some(_) => (),
    }
    match decimal.scaled(9) {
        None => Err(too_large(currency)),
        Some((_, true)) => Err("is finer than a thousand-millionth of the currency".to_owned()),
        Some((nanos, false)) => Ok(Money { amount: Nanos::new(nanos), currency }),
    }
}

fn too_large(currency: Currency) -> String {
    format!("is more than {} {currency}, the largest amount", Nanos::new(u64::MAX))
}

/// Parses `"1%"`, or an amount.
pub fn holdback(text: &str, currency: Currency) -> Result<Holdback, String> {
    let Some(number) = text.strip_suffix('%') else {
        return money(text, currency).map(Holdback::Amount);
    };
    let parts = Decimal::parse(number).ok().and_then(|share| share.scaled(4));
    let share = parts
        .filter(|(_, dropped)| !dropped)
        .and_then(|(parts, _)| u32::try_from(parts).ok().and_then(Ppm::new));
    let remedy = "needs a share from 0% to 100%, no finer than 0.0001%, or an amount";
    share.map(Holdback::Share).ok_or_else(|| remedy.to_owned())
}

/// Parses a gain such as `"0.3"`, never negative.
pub fn gain(text: &str) -> Result<f64, String> {
    let remedy = || "needs a decimal number as text, for example \"0.3\"".to_owned();
    Decimal::parse(text).map_err(|_| remedy())?;
    text.parse::<f64>().ok().filter(|gain| gain.is_finite()).ok_or_else(remedy)
}

#[cfg(test)]
mod tests;
