//! The notices of a DSP: reads and counts the calls of its bids' URLs, and answers them. Owns
//! OpenRTB's macros (2.6, 4.2.3 and 4.4) from the buyer's side; knows no socket, and not how the
//! exchange writes them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::counters::{NoticeCounters, NoticeCountersByKind};
use super::markup::{self, CreativeRef, MarkupSpec};
use super::notice_kind::{DspNotice, NoticeAnswer, NoticeOptions};
use super::notice_urls::QUERY;
use super::profile::DspProfile;
use crate::draws::Draws;
use crate::scan::{self, AdFormat};
use crate::server::Script;
use crate::server::http::head;
use crate::server::script::ScriptEnd;

#[cfg(test)]
mod tests;

/// Number of raw targets that are kept.
pub const RECENT_MAX: usize = 64;

/// Number of notices remembered to detect duplicates; the oldest are forgotten.
const REMEMBERED_MAX: usize = 256 * 1024;

/// Separates the draw of failing markup from all other draws.
const MARKUP: u64 = 0x4d41_524b;

/// Targets as received, newest last.
pub(super) type Recent = Arc<Mutex<VecDeque<String>>>;

/// The receiver of one DSP's notices.
#[derive(Debug)]
pub(super) struct NoticeReceiver {
    options: NoticeOptions,
    /// Calls since the options were set.
    calls: u64,
    seen: HashSet<u64>,
    /// Notices seen, oldest first.
    order: VecDeque<u64>,
    recent: Recent,
}

impl NoticeReceiver {
    pub(super) fn new(options: NoticeOptions, recent: Recent) -> Self {
        Self { options, calls: 0, seen: HashSet::new(), order: VecDeque::new(), recent }
    }

    /// Sets how notices are answered.
    pub(super) fn set(&mut self, options: NoticeOptions) {
        (self.options, self.calls) = (options, 0);
    }

    /// Handles one notice to `target`, a URL from the DSP's own bids. None for a bare 204.
    pub(super) fn receive(
        &mut self,
        notice: DspNotice,
        target: &str,
        seller: Seller<'_>,
        counters: &NoticeCountersByKind,
    ) -> Option<Script> {
        let counters = counters.of(notice);
        self.keep(target);
        self.calls += 1;
        let query = NoticeQuery::read(target);
        let reply = self.reply(notice, &query, seller);
        if reply.as_ref().is_some_and(|reply| !reply.is_accepted) {
            counters.failed.add(1);
        } else {
            self.tally(notice, &query, seller.profile, counters);
        }
        reply.map(|reply| reply.script)
    }

    fn keep(&self, target: &str) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(target.to_owned());
    }

    fn reply(
        &self,
        notice: DspNotice,
        query: &NoticeQuery<'_>,
        seller: Seller<'_>,
    ) -> Option<NoticeReply> {
        if self.calls <= u64::from(self.options.fail_first) {
            return Some(NoticeReply::status(500));
        }
        match &self.options.answer {
            NoticeAnswer::Status(code) if (200..300).contains(code) => {
                let markup = (notice == DspNotice::Win).then(|| query.order()).flatten();
                match markup {
                    Some((order, offer)) => Some(NoticeReply::markup(order, offer, query, seller)),
                    None => (*code != 204).then(|| NoticeReply::status(*code)),
                }
            }
            NoticeAnswer::Status(code) => Some(NoticeReply::status(*code)),
            NoticeAnswer::Hang => {
                let script =
                    Script { end: ScriptEnd::Hang, ..Script::whole(vec![], Duration::ZERO) };
                Some(NoticeReply { script, is_accepted: false })
            }
            NoticeAnswer::Redirect(to) => {
                let bytes = head(302, &[("location", to)], Some(0));
                let script = Script::whole(bytes, Duration::ZERO);
                Some(NoticeReply { script, is_accepted: false })
            }
        }
    }

    fn tally(
        &mut self,
        notice: DspNotice,
        query: &NoticeQuery<'_>,
        profile: &DspProfile,
        counters: &NoticeCounters,
    ) {
        let Some(facts) = query.facts(notice, &profile.currency) else {
            counters.malformed.add(1);
            return;
        };
        if !self.seen.insert(facts.key) {
            counters.duplicates.add(1);
            return;
        }
        self.order.push_back(facts.key);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        counters.price_micros.add(facts.price_micros);
        if facts.is_overpriced {
            counters.overpriced.add(1);
        }
        counters.counted.add(1);
    }
}

/// The DSP that receives the notices.
#[derive(Clone, Copy)]
pub(super) struct Seller<'a> {
    pub(super) profile: &'a DspProfile,
    pub(super) seed: u64,
    pub(super) origin: &'a str,
}

struct NoticeReply {
    script: Script,
    /// Whether the notice counts as delivered.
    is_accepted: bool,
}

impl NoticeReply {
    fn status(code: u16) -> Self {
        let script = Script::whole(head(code, &[], Some(0)), Duration::ZERO);
        Self { script, is_accepted: (200..300).contains(&code) }
    }

    fn markup(order: MarkupSpec, offer: u64, query: &NoticeQuery<'_>, seller: Seller<'_>) -> Self {
        let profile = seller.profile;
        let key = [query.text("auction").as_bytes(), b"\0", query.text("imp").as_bytes()].concat();
        if Draws::keyed(seller.seed ^ MARKUP, &key).happens(profile.markup_failure_ppm) {
            let reply = Self::status(500);
            return Self {
                script: Script { delay: profile.markup_latency, ..reply.script },
                ..reply
            };
        }
        let (markup, media_type) = markup::served(order, &order.tracker(seller.origin, offer));
        let mut bytes = head(200, &[("content-type", media_type)], Some(markup.len()));
        bytes.extend_from_slice(&markup);
        Self { script: Script::whole(bytes, profile.markup_latency), is_accepted: true }
    }
}

/// The parameters of a notice, decoded.
struct NoticeQuery<'a>(HashMap<Cow<'a, str>, Cow<'a, str>>);

/// The content of a well-formed notice.
#[derive(Debug, PartialEq, Eq)]
struct NoticeContent {
    /// A hash of auction, impression and kind.
    key: u64,
    price_micros: u64,
    /// Whether it charges more than was offered.
    is_overpriced: bool,
}

impl<'a> NoticeQuery<'a> {
    /// A target that cannot be decoded has no parameters.
    fn read(target: &'a str) -> Self {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = HashMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) else {
                return Self(HashMap::new());
            };
            pairs.insert(key, value);
        }
        Self(pairs)
    }

    /// Empty if it is absent.
    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", Cow::as_ref)
    }

    fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        self.text(key).parse().ok()
    }

    /// None if the notice is malformed: a macro is left unreplaced, a required parameter is
    /// missing, or a value is no number, no base64 or in another currency than the bids.
    fn facts(&self, notice: DspNotice, currency: &str) -> Option<NoticeContent> {
        let (auction, imp, price) = (self.text("auction"), self.text("imp"), self.text("price"));
        let is_loss = notice == DspNotice::Loss;
        let left = self.0.values().any(|value| value.contains("${"));
        if left || auction.is_empty() || imp.is_empty() || self.text("cur") != currency {
            return None;
        }
        // A loss notice may omit the price; the others must have it.
        let price_micros = match price {
            "" if is_loss => 0,
            price => scan::micros_of(price.as_bytes())?,
        };
        if from_base64(self.text("price64"))? != price.as_bytes() {
            return None;
        }
        let optional_number =
            |text: &str| text.is_empty() || scan::micros_of(text.as_bytes()).is_some();
        if !optional_number(self.text("min")) || !optional_number(self.text("multiplier")) {
            return None;
        }
        if (is_loss || !self.text("loss").is_empty()) && self.number::<u16>("loss").is_none() {
            return None;
        }
        let key = [auction.as_bytes(), b"\0", imp.as_bytes()].concat();
        Some(NoticeContent {
            key: Draws::keyed(notice as u64, &key).bits(),
            price_micros,
            is_overpriced: !is_loss && price_micros > self.number("offer")?,
        })
    }

    /// The markup to answer with, and the offer. None if the notice asks for no markup.
    fn order(&self) -> Option<(MarkupSpec, u64)> {
        let format = match self.text("markup") {
            "banner" => AdFormat::Banner,
            "video" => AdFormat::Video,
            "audio" => AdFormat::Audio,
            "native" => AdFormat::Native,
            _ => return None,
        };
        let (width, height) = (self.number("w")?, self.number("h")?);
        let creative = CreativeRef {
            number: self.number("creative")?,
            advertiser: self.number("advertiser")?,
        };
        let is_secure = self.text("secure") == "1";
        Some((MarkupSpec { format, width, height, is_secure, creative }, self.number("offer")?))
    }
}

/// Percent-decodes (RFC 3986, 2.1). None if `text` is malformed or not UTF-8. A plus sign stays.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        bytes.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Accepts either alphabet, padded or not: OpenRTB leaves it open.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decoded = |alphabet| GeneralPurpose::new(alphabet, config).decode(text).ok();
    decoded(&alphabet::STANDARD).or_else(|| decoded(&alphabet::URL_SAFE))
}

/// Appends a `nurl` that returns the markup.
pub(super) fn write_markup_notice(origin: &str, offer: u64, order: MarkupSpec, body: &mut Vec<u8>) {
    let format = match order.format {
        AdFormat::Banner => "banner",
        AdFormat::Video => "video",
        AdFormat::Audio => "audio",
        AdFormat::Native => "native",
    };
    let MarkupSpec { width, height, creative: CreativeRef { number, advertiser }, .. } = order;
    let secure = u8::from(order.is_secure);
    let url = format!(
        ",\"nurl\":\"{origin}/win?markup={format}&w={width}&h={height}&creative={number}\
         &advertiser={advertiser}&secure={secure}&{QUERY}{offer}\""
    );
    body.extend_from_slice(url.as_bytes());
}
