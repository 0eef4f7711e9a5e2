//! The terms of a lot: what is sold, when, and by which rules. They never change.
//!
//! Knows no bid.

mod check;

use units::{Cpm, Currency, Nanos};

use super::increments::IncrementBands;
pub use check::LotProblem;

/// Maximum bytes of a lot's id.
pub const LOT_ID_BYTES_MAX: usize = 64;
/// Maximum bytes of a title.
pub const LOT_TITLE_BYTES_MAX: usize = 200;
/// Maximum number of invited bidders.
pub const LOT_INVITED_MAX: usize = 1000;
/// Accepted bids per lot: the default, and the maximum.
pub const LOT_BIDS_MAX: u32 = 100_000;

/// A lot's id: 1 to 64 bytes of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LotId(Box<str>);

impl LotId {
    /// None if the text is not an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=LOT_ID_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(is_part)).then(|| Self(text.into()))
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is sold, when, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotTerms {
    /// Its id.
    pub id: LotId,
    /// For people, at most 200 bytes.
    pub title: String,
    /// The currency of all its prices.
    pub currency: Currency,
    /// Number of impressions, above 0.
    pub impressions: u64,
    /// How bids determine winner and price.
    pub rules: LotRules,
    /// The lowest price that is accepted, above 0.
    pub start_price: Cpm,
    /// The lowest price at which the lot is sold: secret, and at least the start price. None if
    /// every accepted bid can win.
    pub reserve: Option<Cpm>,
    /// When it opens, in Unix milliseconds.
    pub opens_ms: u64,
    /// When it is scheduled to close, in Unix milliseconds.
    pub closes_ms: u64,
    /// When the winner pays.
    pub payment: LotPayment,
    /// Who may bid. Empty if all may who have the right to.
    pub invited: Vec<String>,
    /// Maximum number of accepted bids: 1 to [`LOT_BIDS_MAX`].
    pub bids_max: u32,
    /// What the winner gets.
    pub deal: LotDeal,
}

/// How bids determine winner and price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotRules {
    /// An open ascending auction with proxy bids.
    English(EnglishTerms),
    /// A sealed auction in which the winner pays the second highest bid.
    SealedSecondPrice,
}

impl LotRules {
    /// Its name in the API.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::English(_) => "english",
            Self::SealedSecondPrice => "sealed_second_price",
        }
    }
}

/// The terms of an ascending auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnglishTerms {
    /// By how much a bid must exceed the price.
    pub increments: IncrementBands,
    /// How late bids postpone the end. None if they do not.
    pub soft_close: Option<SoftClose>,
}

/// How late bids postpone the end, so that others can answer them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftClose {
    /// How long before the end a bid starts to postpone it.
    pub window_ms: u64,
    /// How long the lot stays open after such a bid.
    pub extension_ms: u64,
    /// Maximum total of postponements, from the scheduled close or the operator's last extension.
    pub total_max_ms: u64,
}

/// When the winner pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LotPayment {
    /// The whole, when the lot closes.
    AtClose,
    /// Per impression, as the deal delivers.
    OnDelivery,
}

/// What the winner gets. Opaque to the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotDeal {
    /// The deal's id.
    pub id: String,
    /// The publisher that delivers it. None if any may.
    pub publisher: Option<String>,
    /// When delivery starts, in Unix milliseconds.
    pub starts_ms: u64,
    /// When delivery ends, in Unix milliseconds.
    pub ends_ms: u64,
    /// The deal's priority among those of an impression.
    pub priority: u32,
}

impl LotTerms {
    /// What all impressions cost at a price. Exact, because n micros per 1000 impressions are n
    /// nanos per impression. None if the cost does not fit.
    pub fn cost(&self, price: Cpm) -> Option<Nanos> {
        price.micros().checked_mul(self.impressions).map(Nanos::new)
    }

    /// The highest price whose cost fits.
    pub fn price_max(&self) -> Cpm {
        let micros = u64::MAX.checked_div(self.impressions).unwrap_or(u64::MAX);
        Cpm::new(micros).unwrap_or(Cpm::MAX)
    }
}

#[cfg(test)]
mod tests;
