//! The terms of a lot as JSON, as an operator writes them.

use live_core::lots::{
    EnglishTerms, IncrementBand, IncrementBands, LOT_BIDS_MAX, LotDeal, LotId, LotPayment,
    LotRules, LotTerms, SoftClose,
};
use live_core::protocol::{LiveError, LiveErrorCode};
use schemars::JsonSchema;
use serde::Deserialize;
use units::{Cpm, Currency, Rounding};

/// Longest id of a deal, in bytes.
const DEAL_BYTES_MAX: usize = 256;
/// Longest name of a bidder, an account or a publisher, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Highest priority of a deal.
const PRIORITY_MAX: u32 = 255;

/// What is sold, when, and by which rules. Prices are decimal texts, per 1000 impressions; times are
/// Unix milliseconds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LotTerms")]
pub(crate) struct TermsText {
    /// Its id: 1 to 64 letters, digits and `._-`.
    id: String,
    /// For people, at most 200 bytes.
    #[serde(default)]
    title: String,
    /// The currency of all prices: the accounts of all bidders must be in it.
    currency: String,
    /// Number of impressions.
    impressions: u64,
    /// How bids determine winner and price.
    #[serde(default)]
    rules: RulesText,
    /// The lowest price that is accepted.
    start_price: String,
    /// The lowest price at which the lot is sold: secret.
    reserve: Option<String>,
    /// By how much a bid must exceed the price, by bands of the price. Only of an English auction.
    #[serde(default)]
    increments: Vec<BandText>,
    /// How late bids postpone the end. Only of an English auction.
    soft_close: Option<SoftCloseText>,
    /// When it opens.
    opens_ms: u64,
    /// When it is scheduled to close.
    closes_ms: u64,
    /// When the winner pays.
    #[serde(default)]
    payment: PaymentText,
    /// Bidders (`dsp/seat`) who may bid. Without any, all may who have the right to.
    #[serde(default)]
    invited: Vec<String>,
    /// Maximum number of accepted bids.
    #[serde(default = "bids_max")]
    bids_max: u32,
    /// What the winner gets.
    deal: DealText,
}

const fn bids_max() -> u32 {
    LOT_BIDS_MAX
}

/// How bids determine winner and price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LotRules")]
enum RulesText {
    /// An open ascending auction with proxy bids.
    #[default]
    English,
    /// A sealed auction in which the winner pays the second highest bid.
    SealedSecondPrice,
}

/// When the winner pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LotPayment")]
enum PaymentText {
    /// Per impression, as the deal delivers.
    #[default]
    OnDelivery,
    /// The whole, when the lot closes. The exchange does not offer the deal.
    AtClose,
}

/// An increment, and the prices it is for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LotIncrementBand")]
struct BandText {
    /// The lowest price of the band; that of the first is 0.
    from: String,
    /// The increment.
    increment: String,
}

/// How late bids postpone the end.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LotSoftClose")]
struct SoftCloseText {
    /// How long before the end a bid starts to postpone it.
    window_ms: u64,
    /// How long the lot stays open after such a bid.
    extension_ms: u64,
    /// Maximum total of postponements.
    total_max_ms: u64,
}

/// What the winner gets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LotDeal")]
struct DealText {
    /// The deal's id in bid requests.
    id: String,
    /// The publisher that delivers it. Without one, any may.
    publisher: Option<String>,
    /// When delivery starts.
    starts_ms: u64,
    /// When delivery ends.
    ends_ms: u64,
    /// The deal's class among those of an impression, up to 255.
    #[serde(default = "priority")]
    priority: u32,
}

const fn priority() -> u32 {
    1
}

fn bad(field: &'static str, problem: impl AsRef<str>) -> LiveError {
    let message = format!("{field} {}", problem.as_ref());
    LiveError::field(LiveErrorCode::BadField, field, message)
}

/// Reads a price.
///
/// # Errors
/// It is no decimal number, has parts of a micro, or is too high.
pub(crate) fn price(field: &'static str, text: &str) -> Result<Cpm, LiveError> {
    let exact = Cpm::parse(text, Rounding::Down).ok();
    let exact = exact.filter(|price| Cpm::parse(text, Rounding::Up) == Ok(*price));
    let remedy = "is a decimal number with at most six places, such as \"2.50\"";
    exact.ok_or_else(|| bad(field, remedy))
}

/// Checks a name from outside.
///
/// # Errors
/// It is empty, too long, or has control characters.
pub(crate) fn name(field: &'static str, text: &str, bytes_max: usize) -> Result<(), LiveError> {
    let is_name = (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control);
    is_name
        .then_some(())
        .ok_or_else(|| bad(field, format!("has 1 to {bytes_max} bytes, and no control characters")))
}

/// Reads a currency code.
///
/// # Errors
/// It is none.
pub(crate) fn currency(field: &'static str, text: &str) -> Result<Currency, LiveError> {
    Currency::parse(text).ok_or_else(|| bad(field, "is a code of three capitals, such as \"USD\""))
}

impl TermsText {
    /// Reads terms from JSON.
    ///
    /// # Errors
    /// They are not the JSON of terms. Problems of their sense are left to the floor.
    pub fn parse(json: &str) -> Result<LotTerms, LiveError> {
        let text: Self = serde_json::from_str(json).map_err(|error| {
            let words = error.to_string();
            let words: String = words.chars().filter(|c| !c.is_control()).take(200).collect();
            bad("terms", format!("are wrong: {words}"))
        })?;
        text.read()
    }

    fn read(self) -> Result<LotTerms, LiveError> {
        let id = LotId::parse(&self.id)
            .ok_or_else(|| bad("id", "has 1 to 64 letters, digits and `._-`"))?;
        if self.title.chars().any(char::is_control) {
            return Err(bad("title", "has a control character: leave it out"));
        }
        for invited in &self.invited {
            name("invited", invited, NAME_BYTES_MAX)?;
        }
        let deal = &self.deal;
        name("deal.id", &deal.id, DEAL_BYTES_MAX)?;
        if let Some(publisher) = &deal.publisher {
            name("deal.publisher", publisher, NAME_BYTES_MAX)?;
        }
        if deal.priority > PRIORITY_MAX {
            return Err(bad("deal.priority", format!("is at most {PRIORITY_MAX}")));
        }
        Ok(LotTerms {
            id,
            currency: currency("currency", &self.currency)?,
            impressions: self.impressions,
            rules: self.rules()?,
            start_price: price("start_price", &self.start_price)?,
            reserve: self.reserve.map(|text| price("reserve", &text)).transpose()?,
            opens_ms: self.opens_ms,
            closes_ms: self.closes_ms,
            payment: match self.payment {
                PaymentText::OnDelivery => LotPayment::OnDelivery,
                PaymentText::AtClose => LotPayment::AtClose,
            },
            invited: self.invited,
            bids_max: self.bids_max,
            deal: LotDeal {
                id: self.deal.id,
                publisher: self.deal.publisher,
                starts_ms: self.deal.starts_ms,
                ends_ms: self.deal.ends_ms,
                priority: self.deal.priority,
            },
            title: self.title,
        })
    }

    fn rules(&self) -> Result<LotRules, LiveError> {
        if self.rules == RulesText::SealedSecondPrice {
            return match (&self.increments[..], self.soft_close) {
                ([], None) => Ok(LotRules::SealedSecondPrice),
                ([], Some(_)) => Err(bad("soft_close", "is of an English auction: leave it out")),
                _ => Err(bad("increments", "are of an English auction: leave them out")),
            };
        }
        let band = |band: &BandText| {
            Ok(IncrementBand {
                from: price("increments.from", &band.from)?,
                increment: price("increments.increment", &band.increment)?,
            })
        };
        let increments = self.increments.iter().map(band).collect::<Result<_, LiveError>>()?;
        let soft_close = self.soft_close.map(|soft| SoftClose {
            window_ms: soft.window_ms,
            extension_ms: soft.extension_ms,
            total_max_ms: soft.total_max_ms,
        });
        Ok(LotRules::English(EnglishTerms { increments: IncrementBands(increments), soft_close }))
    }
}

#[cfg(test)]
mod tests;
