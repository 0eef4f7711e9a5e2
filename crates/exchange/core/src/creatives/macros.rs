//! Substitution macros in markup and notice URLs (section 4.4).
//!
//! Values are percent-encoded once, except the unreserved characters of RFC 3986, so that no id can
//! break out of a URL, markup or JSON, or form another macro. Numbers need no encoding. The suffix
//! `:B64` stands for padded standard Base64 (RFC 4648, section 4), whose `+`, `/` and `=` are
//! percent-encoded too. A JSON string may escape the dollar sign and the braces as `\u0024`,
//! `\u007b` and `\u007d`. Knows no kinds of notices.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use units::{Cpm, Currency, Multiplier, Ppm};

const PREFIX: &str = "AUCTION_";

/// Finds [`PREFIX`]. To prepare such a search takes longer than most searches.
static PREFIX_FINDER: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(PREFIX));

const NAME_BYTES_MAX: usize = 32;

/// Longest value of a macro. [`crate::Market::bid_macros_max`] limits macros per bid.
pub const VALUE_BYTES_MAX: usize = 256;

/// An upper bound of the number of macros in `text`, known or not, escaped or not.
pub fn macros_len(text: &str) -> usize {
    PREFIX_FINDER.find_iter(text.as_bytes()).count()
}

/// Upper bound of macros in `json` after unescaping: all dollar signs, and escapes that may hide
/// one.
pub(crate) fn macros_bound(json: &str) -> usize {
    // An unescaped escape may be part of another, so any of them may hide a sign.
    let escaped = memmem::find_iter(json.as_bytes(), br"\u00").count();
    memchr::memchr_iter(b'$', json.as_bytes()).count() + escaped
}

/// Values of macros, not yet encoded.
#[derive(Clone, Debug)]
pub struct MacroValues<'a> {
    /// `${AUCTION_ID}`: the id sent to the DSP.
    pub auction_id: &'a str,
    /// `${AUCTION_BID_ID}`: `bidid` of the response.
    pub bid_id: &'a str,
    /// `${AUCTION_IMP_ID}`.
    pub imp_id: &'a str,
    /// `${AUCTION_SEAT_ID}`.
    pub seat_id: &'a str,
    /// `${AUCTION_AD_ID}`.
    pub ad_id: &'a str,
    /// `${AUCTION_PRICE}`: what the DSP pays, in the currency of its bid. None for losers.
    pub price: Option<Cpm>,
    /// `${AUCTION_CURRENCY}`.
    pub currency: Currency,
    /// The bid's price, for `${AUCTION_MBR}` and `${AUCTION_DISCOUNT_CPM}`.
    pub bid: Option<Cpm>,
    /// `${AUCTION_MIN_TO_WIN}`, in the currency of the bid.
    pub min_to_win: Option<Cpm>,
    /// `${AUCTION_MULTIPLIER}`.
    pub multiplier: Option<Multiplier>,
    /// `${AUCTION_DISCOUNT_PCT}`, and times the bid `${AUCTION_DISCOUNT_CPM}`.
    pub discount: Ppm,
    /// `${AUCTION_LOSS}`.
    pub loss: Option<u32>,
    /// Macros that stay: we ([`LateValues`]) or the caller learn their values later.
    pub left: &'static [&'static str],
}

impl MacroValues<'_> {
    /// `text` with known macros replaced. Removes those without a value or over the limit.
    pub fn substitute(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 64);
        self.substitute_into(text, &mut out);
        out
    }

    /// As [`MacroValues::substitute`], appended to `out`.
    pub fn substitute_into(&self, text: &str, out: &mut String) {
        replace_macros(text, out, |name, out| self.write(name, out));
    }

    /// Writes the value of the macro `name`. None if it is unknown or stays.
    fn write(&self, name: &str, out: &mut String) -> Option<()> {
        if self.left.contains(&name) {
            return None;
        }
        match name {
            "ID" => out.push_str(self.auction_id),
            "BID_ID" => out.push_str(self.bid_id),
            "IMP_ID" => out.push_str(self.imp_id),
            "SEAT_ID" => out.push_str(self.seat_id),
            "AD_ID" => out.push_str(self.ad_id),
            "PRICE" => write_some(out, self.price),
            "CURRENCY" => out.push_str(self.currency.code()),
            "MBR" => write_some(out, self.market_bid_ratio()),
            "LOSS" => write_some(out, self.loss),
            "MIN_TO_WIN" => write_some(out, self.min_to_win),
            "MULTIPLIER" => write_some(out, self.multiplier),
            "IMP_TS" => (), // Unknown before the ad is shown.
            "DISCOUNT_PCT" => {
                write_some(out, Some(self.discount));
                out.pop(); // The percent sign of a share.
            }
            "DISCOUNT_CPM" => write_some(out, self.bid.map(|bid| self.taken_off(bid))),
            _ => return None,
        }
        Some(())
    }

    fn taken_off(&self, bid: Cpm) -> Cpm {
        let left = self.discount.taken_from(bid);
        Cpm::new(bid.micros() - left.micros()).expect("a discount is at most the bid")
    }

    /// Clearing price over bid price, to six places.
    fn market_bid_ratio(&self) -> Option<Cpm> {
        let millionths = u128::from(self.price?.micros()) * 1_000_000;
        let ratio = millionths.checked_div(u128::from(self.bid?.micros())).unwrap_or(0);
        // A ratio has the six decimal places of a price.
        u64::try_from(ratio).ok().and_then(Cpm::new)
    }
}

/// Values known only when a notice fires, for a URL whose other macros have been replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateValues {
    /// `${AUCTION_IMP_TS}`: when the ad was shown, in Unix time in milliseconds.
    pub imp_ts_ms: Option<u64>,
    /// `${AUCTION_LOSS}`: the code given by the caller, if any.
    pub loss: Option<u32>,
}

impl LateValues {
    /// `url` with its remaining macros replaced or removed. Earlier values cannot look like macros.
    pub fn substitute(&self, url: &str) -> String {
        let mut out = String::with_capacity(url.len());
        replace_macros(url, &mut out, |name, out| {
            match name {
                "IMP_TS" => write_some(out, self.imp_ts_ms),
                "LOSS" => write_some(out, self.loss),
                _ => return None,
            }
            Some(())
        });
        out
    }
}

fn write_some(out: &mut String, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        let _ = write!(out, "{value}");
    }
}

/// Appends `text` to `out` and replaces each macro once by what `write` appends for its name. If
/// that returns None, or the encoding is unknown, the macro stays.
fn replace_macros(
    text: &str,
    out: &mut String,
    mut write: impl FnMut(&str, &mut String) -> Option<()>,
) {
    let mut rest = text;
    while let Some(prefix) = PREFIX_FINDER.find(rest.as_bytes()) {
        let (before, name) = (&rest[..prefix], &rest[prefix + PREFIX.len()..]);
        let start = opener(before);
        out.push_str(&before[..start.unwrap_or(prefix)]);
        let value_start = out.len();
        let replaced = start.and(closer(name)).and_then(|(end, next)| {
            let (name, is_base64) = match name[..end].split_once(':') {
                None => (&name[..end], false),
                Some((name, "B64")) => (name, true),
                Some(_) => return None,
            };
            write(name, out)?;
            encode(out, value_start, is_base64);
            Some(next)
        });
        if replaced.is_none() {
            out.push_str(&rest[start.unwrap_or(prefix)..prefix + PREFIX.len()]);
        }
        rest = &name[replaced.unwrap_or(0)..];
    }
    out.push_str(rest);
}

fn opener(text: &str) -> Option<usize> {
    let text = without_suffix(text, "{", "\\u007b")?;
    without_suffix(text, "$", "\\u0024").map(str::len)
}

fn without_suffix<'t>(text: &'t str, sign: &str, escape: &str) -> Option<&'t str> {
    text.strip_suffix(sign).or_else(|| {
        let (before, end) = text.split_at_checked(text.len().checked_sub(escape.len())?)?;
        // A backslash that is itself escaped begins no escape.
        let backslashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
        (end.eq_ignore_ascii_case(escape) && backslashes.is_multiple_of(2)).then_some(before)
    })
}

fn closer(text: &str) -> Option<(usize, usize)> {
    let is_end = |byte: u8| byte == b'}' || byte == b'\\';
    let end = text.bytes().take(NAME_BYTES_MAX).position(is_end)?;
    let escape = text.get(end..end + "\\u007d".len());
    match text.as_bytes()[end] {
        b'}' => Some((end, end + 1)),
        _ if escape?.eq_ignore_ascii_case("\\u007d") => Some((end, end + "\\u007d".len())),
        _ => None,
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Encodes `out` from `start`, and removes it if the result exceeds the limit.
fn encode(out: &mut String, start: usize, is_base64: bool) {
    if out.len() - start > VALUE_BYTES_MAX {
        out.truncate(start);
        return;
    }
    if !is_base64 && out.as_bytes()[start..].iter().copied().all(is_unreserved) {
        return; // Every number, and nearly every id.
    }
    let mut value = out.split_off(start);
    if is_base64 {
        value = STANDARD.encode(value);
    }
    for byte in value.bytes() {
        if is_unreserved(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    if out.len() - start > VALUE_BYTES_MAX {
        out.truncate(start);
    }
}

#[cfg(test)]
mod tests;
