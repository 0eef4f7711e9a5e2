//! `[currency]`: the base currency and exchange rates.

use exchange_core::Rates;
use runtime::config::Section;
use units::{Currency, Price, Ratio};

pub(super) struct CurrencyConfig {
    pub(super) base: Currency,
    pub(super) rates: Rates,
    /// Rates as decimal text.
    pub(super) as_read: Vec<(Currency, Box<str>)>,
}

pub(super) fn read_currency(s: &mut Section<'_>) -> CurrencyConfig {
    let base = s.currency(
        "base",
        "USD",
        "Currency of exchange rates and revenue figures, and of auctions that name none.",
    );
    let parse = |code: &str, worth: &str| {
        let currency = Currency::parse(code)
            .ok_or_else(|| format!("`{code}` is not an ISO 4217 code such as `EUR`"))?;
        let ratio = Ratio::parse(worth).ok_or_else(|| {
            "must be a decimal number above zero, for example \"1.08\"".to_owned()
        })?;
        // Every pair must convert; eleven digits guarantee that.
        if worth.bytes().filter(u8::is_ascii_digit).count() > 11 {
            return Err("has more than 11 digits, round it".to_owned());
        }
        Ok((currency, ratio, Box::from(worth)))
    };
    let others = s.map(
        "rates",
        &[("EUR", "1.08"), ("GBP", "1.27")],
        parse,
        "Value of one unit of each other currency, in `base`.",
    );
    if others.iter().any(|(currency, ..)| *currency == base) {
        s.problem("rates", base, format!("must not name `base`, {base}, which is worth 1"));
    }
    let worth = others.iter().map(|(currency, ratio, _)| (*currency, *ratio));
    let rates = Rates::new(worth.chain([(base, Ratio::ONE)]));
    let as_read = others.into_iter().map(|(currency, _, text)| (currency, text)).collect();
    CurrencyConfig { base, rates, as_read }
}

pub(super) fn no_rate(currency: Currency) -> String {
    format!("has no exchange rate: add {currency} to `currency.rates`")
}

pub(super) fn check_rate(rates: &Rates, price: Price) -> Result<(), String> {
    if rates.knows(price.currency) { Ok(()) } else { Err(no_rate(price.currency)) }
}
