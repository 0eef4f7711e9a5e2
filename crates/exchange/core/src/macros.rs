//! Substitution macros in the winner's markup and notice URLs. Section 4.4.

use memchr::memmem;
use units::{Cpm, Currency, Multiplier, Ppm};

const OPEN: &str = "${AUCTION_";

/// The longest name that is looked for after [`OPEN`].
const NAME_BYTES_MAX: usize = 32;

/// The longest text that a macro is replaced by: a bidder chooses some of it, and how often it
/// stands in its markup.
const VALUE_BYTES_MAX: usize = 256;

/// What the macros stand for. Text is as it stands within a JSON string.
#[derive(Clone, Debug)]
pub struct MacroValues<'a> {
    /// `${AUCTION_ID}`: the id that the DSP was sent.
    pub auction_id: &'a str,
    /// `${AUCTION_BID_ID}`: `bidid` of the response.
    pub bid_id: &'a str,
    /// `${AUCTION_IMP_ID}`.
    pub imp_id: &'a str,
    /// `${AUCTION_SEAT_ID}`.
    pub seat_id: &'a str,
    /// `${AUCTION_AD_ID}`.
    pub ad_id: &'a str,
    /// `${AUCTION_PRICE}`: what the DSP pays, in the currency of its bid.
    pub price: Cpm,
    /// `${AUCTION_CURRENCY}`.
    pub currency: Currency,
    /// The price that was bid: with `price` it makes `${AUCTION_MBR}` and the discounts.
    pub bid: Cpm,
    /// `${AUCTION_MIN_TO_WIN}`, in the currency of the bid.
    pub min_to_win: Option<Cpm>,
    /// `${AUCTION_MULTIPLIER}`.
    pub multiplier: Multiplier,
    /// `${AUCTION_DISCOUNT_PCT}`, and times the bid `${AUCTION_DISCOUNT_CPM}`.
    pub discount: Ppm,
    /// `${AUCTION_LOSS}`.
    pub loss_code: u32,
}

impl MacroValues<'_> {
    /// `text` with every known macro replaced; one without a value, or with an id longer than any
    /// in use, is removed, and what is no macro of the standard stays.
    pub fn substitute(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 32);
        let mut rest = text;
        while let Some(start) = memmem::find(rest.as_bytes(), OPEN.as_bytes()) {
            out.push_str(&rest[..start]);
            let name = &rest[start + OPEN.len()..];
            let end = name.bytes().take(NAME_BYTES_MAX).position(|byte| byte == b'}');
            match end.and_then(|end| self.value(&name[..end]).map(|value| (end, value))) {
                Some((end, value)) => {
                    out.push_str(&value);
                    rest = &name[end + 1..];
                }
                None => {
                    out.push_str(OPEN);
                    rest = name;
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "ID" => bounded(self.auction_id),
            "BID_ID" => bounded(self.bid_id),
            "IMP_ID" => bounded(self.imp_id),
            "SEAT_ID" => bounded(self.seat_id),
            "AD_ID" => bounded(self.ad_id),
            "PRICE" => self.price.to_string(),
            "CURRENCY" => self.currency.to_string(),
            "MBR" => self.market_bid_ratio(),
            "LOSS" => self.loss_code.to_string(),
            "MIN_TO_WIN" => self.min_to_win.map(|price| price.to_string()).unwrap_or_default(),
            "MULTIPLIER" => self.multiplier.to_string(),
            // Not yet known when the answer is written.
            "IMP_TS" => String::new(),
            "DISCOUNT_PCT" => self.discount.to_string().trim_end_matches('%').to_owned(),
            "DISCOUNT_CPM" => {
                let left = self.discount.taken_from(self.bid);
                let off = Cpm::new(self.bid.micros() - left.micros());
                off.expect("a discount is at most the bid").to_string()
            }
            _ => return None,
        })
    }

    /// Clearing price over bid price, to six places.
    fn market_bid_ratio(&self) -> String {
        let millionths = u128::from(self.price.micros()) * 1_000_000;
        let ratio = millionths.checked_div(u128::from(self.bid.micros())).unwrap_or(0);
        let ratio = u64::try_from(ratio).ok().and_then(Cpm::new);
        // A ratio has the six decimal places of a price.
        ratio.map(|ratio| ratio.to_string()).unwrap_or_default()
    }
}

fn bounded(id: &str) -> String {
    if id.len() <= VALUE_BYTES_MAX { id.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests;
