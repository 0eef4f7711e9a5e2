//! Exchange rates: exact, and only the configured ones.

use units::{Cpm, Currency, Ratio, Rounding};

/// The value of one unit of each currency, in a common currency.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    worth: Vec<(Currency, Ratio)>,
}

impl Rates {
    /// `worth` gives each currency's value in a common currency, whose own ratio is one. Later
    /// entries replace earlier ones of the same currency.
    pub fn new(worth: impl IntoIterator<Item = (Currency, Ratio)>) -> Self {
        let mut rates = Self::default();
        for (currency, ratio) in worth {
            rates.worth.retain(|(known, _)| *known != currency);
            rates.worth.push((currency, ratio));
        }
        rates
    }

    /// Currencies with a rate.
    pub fn currencies(&self) -> impl Iterator<Item = Currency> {
        self.worth.iter().map(|(currency, _)| *currency)
    }

    /// Whether `currency` has a rate.
    pub fn knows(&self, currency: Currency) -> bool {
        self.worth_of(currency).is_some()
    }

    /// The factor from `from` to `to`. None if either has no rate.
    pub fn ratio(&self, from: Currency, to: Currency) -> Option<Ratio> {
        if from == to {
            // Exact, even without a rate.
            return Some(Ratio::ONE);
        }
        self.worth_of(from)?.over(self.worth_of(to)?)
    }

    /// `amount` in another currency. None without a rate, or above [`Cpm::MAX`].
    pub fn convert(
        &self,
        amount: Cpm,
        from: Currency,
        to: Currency,
        round: Rounding,
    ) -> Option<Cpm> {
        self.ratio(from, to)?.convert(amount, round)
    }

    fn worth_of(&self, currency: Currency) -> Option<Ratio> {
        self.worth.iter().find(|(known, _)| *known == currency).map(|(_, ratio)| *ratio)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Currencies<'r> {
    pub(crate) rates: &'r Rates,
    pub(crate) auction: Currency,
    pub(crate) base: Currency,
}
