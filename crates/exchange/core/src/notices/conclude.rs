//! Concludes an auction: the response, notices sent at once, and tokens of later ones.

use std::borrow::Cow;
use std::fmt::Write as _;

use openrtb::codes::MediaType;
use openrtb::{NoticeKind, escaped, members, string};

use super::markup::add_beacon;
use super::reservation::Reservation;
use super::token::{Claims, KeyRing, auction_number};
use crate::answering::notice_url::{NotSent, NoticeTarget, checked_url};
use crate::answering::response::{bid_text, response, response_with};
use crate::answering::sale::{Sale, seat_name};
use crate::answering::values::{self, Occasion};
use crate::answering::win_markup::FetchedMarkup;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing;
use crate::creatives::macros::{LateValues, MacroValues};
use crate::creatives::win_notice::served_on_win;
use crate::judging::judge::{DspAnswer, Judgement};
use crate::market::NoticeMode;
use crate::market::lifetimes::Lifetimes;
use crate::notices::markup::no_beacon::NoBeacon;

/// Query of notices that the caller fires, for the record. Only a loss code reaches the DSP.
const UPSTREAM_QUERY: &str = "?p=${AUCTION_PRICE}&c=${AUCTION_CURRENCY}&l=${AUCTION_LOSS}\
                              &m=${AUCTION_MIN_TO_WIN}";

/// An auction that has cleared.
#[derive(Clone, Copy, Debug)]
pub struct ClearedAuction<'c, 'a> {
    /// The judged answers.
    pub answers: &'c [DspAnswer<'a>],
    /// Their judgement.
    pub judgement: &'c Judgement<'a>,
    /// The clearing of its entries.
    pub clearing: &'c Clearing,
    /// The sales of the clearing.
    pub sales: &'c [Sale],
}

/// The inputs for sealing notices that fire later.
#[derive(Clone, Copy, Debug)]
pub struct Sealing<'s> {
    /// Seals and opens tokens.
    pub keys: &'s KeyRing,
    /// The base URL of beacons.
    pub base: &'s BeaconBase,
    /// The node that seals.
    pub node: u32,
    /// Unix time in seconds.
    pub now_unix_s: u64,
    /// How long beacons are valid.
    pub lifetimes: &'s Lifetimes,
    /// Called win notices, with the ads they returned.
    pub fetched: &'s [FetchedMarkup],
    /// Reservations by the bid's position in the judgement, at most one each.
    pub reserved: &'s [(usize, Reservation)],
}

/// The URL to which tokens are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeaconBase(Box<str>);

impl BeaconBase {
    /// An `http` or `https` URL of at most 256 bytes that ends with a slash. Letters, digits and
    /// `-._~:/` only, so that HTML, XML and JSON need no escapes.
    pub fn parse(url: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte);
        let is_base = url.len() <= 256 && url.ends_with('/') && url.bytes().all(is_plain);
        let target = NoticeTarget::parse(url).filter(|_| is_base)?;
        target.path_and_query.starts_with('/').then(|| Self(url.into()))
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `https`, the only scheme that browsers load into a secure page.
    pub fn is_tls(&self) -> bool {
        NoticeTarget::parse(&self.0).is_some_and(|target| target.is_tls)
    }
}

/// The response and notices of an auction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conclusion {
    /// The bid response. None if nothing is sold.
    pub response: Option<String>,
    /// Notices to send after the response.
    pub immediate: Vec<PlannedNotice>,
    /// Notices that are not sent, each with the reason.
    pub unsent: Vec<UnsentNotice>,
    /// Returned ads without a beacon, by position of the DSP. Only those in `billed` are billed.
    pub without_beacon: Vec<(usize, NoBeacon)>,
    /// Bids, by position in the judgement, whose billing beacon settles their reservation. Settle
    /// or release all other reservations now.
    pub billable: Vec<usize>,
    /// Sales billed now, because their impressions require HTTPS beacons and ours is not HTTPS.
    pub billed: Vec<SaleBilledNow>,
}

/// A sale that is billed with the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleBilledNow {
    /// The bid, by position in the judgement.
    pub bid: usize,
    /// Its billing notice. None if it has none that may be called.
    pub notice: Option<PlannedNotice>,
}

/// A notice to a DSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNotice {
    /// Position of the DSP in the market.
    pub dsp: usize,
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The URL, macros replaced, on a host that the DSP has declared.
    pub url: String,
}

/// A notice that is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsentNotice {
    /// Position of the DSP in the market.
    pub dsp: usize,
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The reason.
    pub reason: NotSent,
}

/// Concludes an auction. Call it once per auction: auction, bid and kind identify a token.
///
/// Without `sealing`, all publishers' notices are passed through. A test has no other notices.
pub fn conclude(
    auction: &Auction<'_>,
    cleared: &ClearedAuction<'_, '_>,
    sealing: Option<&Sealing<'_>>,
) -> Conclusion {
    let mode = auction.publisher_terms().notices;
    let Some(sealing) = sealing.filter(|_| mode != NoticeMode::PassThrough) else {
        let ClearedAuction { answers, judgement, sales, .. } = *cleared;
        let text = || response(auction, answers, judgement, sales);
        return Conclusion { response: (!sales.is_empty()).then(text), ..Conclusion::default() };
    };
    let mut planner =
        NoticePlanner { auction, cleared, sealing, mode, conclusion: Conclusion::default() };
    if !cleared.sales.is_empty() {
        let text = response_with(auction, cleared.judgement, cleared.sales, |out, sale| {
            planner.write_bid(out, sale);
        });
        planner.conclusion.response = Some(text);
    }
    if !auction.request.is_test() {
        planner.plan_loss_notices();
    }
    planner.conclusion
}

struct NoticePlanner<'p, 'a> {
    auction: &'p Auction<'p>,
    cleared: &'p ClearedAuction<'p, 'a>,
    sealing: &'p Sealing<'p>,
    mode: NoticeMode,
    conclusion: Conclusion,
}

impl<'p> NoticePlanner<'p, '_> {
    fn plan_loss_notices(&mut self) {
        let ClearedAuction { judgement, clearing, .. } = *self.cleared;
        for (index, judged) in judgement.bids.iter().enumerate() {
            let fate = clearing.fate(judged.entry);
            let raw = judged.bid.as_ref().and_then(|bid| bid.notice_url(NoticeKind::Loss));
            let Some(raw) = raw.filter(|_| !matches!(fate, Fate::Won | Fate::Offered)) else {
                continue;
            };
            let values = values::of_loser(self.auction, judgement, index, fate, clearing);
            self.plan_notice(index, NoticeKind::Loss, raw, &values);
        }
    }

    fn plan_notice(&mut self, bid: usize, kind: NoticeKind, raw: &str, values: &MacroValues<'_>) {
        let dsp = self.dsp(bid);
        match checked_url(&self.auction.market.dsps[dsp], raw, values) {
            Ok(url) => self.conclusion.immediate.push(PlannedNotice { dsp, kind, url }),
            Err(why) => self.conclusion.unsent.push(UnsentNotice { dsp, kind, reason: why }),
        }
    }

    fn dsp(&self, bid: usize) -> usize {
        self.cleared.answers[self.cleared.judgement.bids[bid].answer].ask.dsp
    }

    fn write_bid(&mut self, out: &mut String, sale: &Sale) {
        let ClearedAuction { answers, judgement, .. } = *self.cleared;
        let text = bid_text(answers, &judgement.bids[sale.bid]);
        let members = members(text).expect("a winner has been parsed");
        let values = values::of_returned(self.auction, judgement, sale, Occasion::Win);
        let mut inline = None;
        out.push('{');
        for (key, raw) in &members {
            match &**key {
                "nurl" | "burl" | "lurl" => continue,
                "adm" => {
                    inline = Some(*raw);
                    continue;
                }
                "price" => drop(write!(out, "\"price\":{}", sale.net)),
                key => {
                    out.extend(["\"", &escaped(key), "\":"]);
                    values.substitute_into(raw, out);
                }
            }
            out.push(',');
        }
        out.pop(); // A comma: a bid has a price.
        match self.mode {
            _ if self.auction.request.is_test() => write_markup(out, inline, &values),
            NoticeMode::Final => self.write_final(out, sale, inline, &values),
            NoticeMode::Upstream | NoticeMode::PassThrough => {
                write_markup(out, inline, &values);
                self.write_upstream(out, sale);
            }
        }
        out.push('}');
    }

    fn fetched(&self, sale: &Sale) -> Option<&'p str> {
        let ClearedAuction { judgement, clearing, .. } = *self.cleared;
        let win = clearing.wins[sale.imp].filter(|_| sale.fate == Fate::Won)?;
        assert!(judgement.bids[sale.bid].entry == Ok(win.entry), "the sale is of this clearing");
        let is_it = |ad: &&FetchedMarkup| (ad.entry, ad.price) == (win.entry, win.price);
        self.sealing.fetched.iter().find(is_it).map(|ad| &*ad.markup)
    }

    /// Writes markup with our beacon. The win notice fires now, unless it fetched the markup.
    fn write_final(
        &mut self,
        out: &mut String,
        sale: &Sale,
        inline: Option<&str>,
        values: &MacroValues<'_>,
    ) {
        let fetched = self.fetched(sale);
        let judged = &self.cleared.judgement.bids[sale.bid];
        let bid = judged.bid.as_ref().expect("a winner has been parsed");
        // Like the judge, treat `null`, an empty text and an empty object as no markup.
        let inline = inline.filter(|_| bid.markup().is_some());
        let win_notice = bid.notice_url(NoticeKind::Win).filter(|_| fetched.is_none());
        if let Some(raw) = win_notice {
            self.plan_notice(sale.bid, NoticeKind::Win, raw, values);
        }
        let dsp = self.dsp(sale.bid);
        let markup = match (fetched.filter(|markup| !markup.is_empty()), inline) {
            (Some(markup), _) => RawMarkup::Fetched(markup),
            (None, Some(raw)) => RawMarkup::Inline(raw),
            (None, None) => {
                self.conclusion.without_beacon.push((dsp, NoBeacon::Absent));
                return;
            }
        };
        let format = judged.format(fetched).ok_or(NoBeacon::Unreadable);
        if self.auction.imps[sale.imp].imp.secure == Some(1) && !self.sealing.base.is_tls() {
            // An ad that cannot carry even an HTTPS beacon is not billed.
            let base = self.sealing.base.as_str();
            let why = match format.and_then(|format| markup.with_beacon(format, base, values)) {
                Ok(_) => NoBeacon::Insecure,
                Err(why) => why,
            };
            self.conclusion.without_beacon.push((dsp, why));
            if why == NoBeacon::Insecure {
                self.plan_billing(sale);
            }
            out.push_str(",\"adm\":");
            return markup.write_without_beacon(out, values);
        }
        let with_beacon = format.and_then(|format| {
            let beacon = self.sealed(sale, NoticeKind::Billing).ok_or(NoBeacon::Unsealed)?;
            markup.with_beacon(format, &beacon, values)
        });
        out.push_str(",\"adm\":");
        match with_beacon {
            Ok(with_beacon) => {
                out.push_str(&with_beacon);
                self.mark_billable(sale);
            }
            Err(why) => {
                self.conclusion.without_beacon.push((dsp, why));
                markup.write_without_beacon(out, values);
            }
        }
    }

    /// Bills the sale with the response, because no beacon will report the impression.
    fn plan_billing(&mut self, sale: &Sale) {
        let (dsp, kind) = (self.dsp(sale.bid), NoticeKind::Billing);
        let bid = self.cleared.judgement.bids[sale.bid].bid.as_ref();
        let raw = bid.and_then(|bid| bid.notice_url(kind));
        let judgement = self.cleared.judgement;
        let values = values::of_returned(self.auction, judgement, sale, Occasion::Billing);
        let imp_ts_ms = Some(self.sealing.now_unix_s.saturating_mul(1000));
        let late = LateValues { imp_ts_ms, loss: None };
        let url = raw.map(|raw| {
            checked_url(&self.auction.market.dsps[dsp], raw, &values)
                .map(|url| late.substitute(&url))
        });
        let notice = match url {
            Some(Ok(url)) => Some(PlannedNotice { dsp, kind, url }),
            Some(Err(why)) => {
                self.conclusion.unsent.push(UnsentNotice { dsp, kind, reason: why });
                None
            }
            None => None,
        };
        self.conclusion.billed.push(SaleBilledNow { bid: sale.bid, notice });
    }

    fn write_upstream(&mut self, out: &mut String, sale: &Sale) {
        for (key, kind) in
            [("nurl", NoticeKind::Win), ("burl", NoticeKind::Billing), ("lurl", NoticeKind::Loss)]
        {
            if let Some(url) = self.sealed(sale, kind) {
                out.extend([",\"", key, "\":\"", &url, UPSTREAM_QUERY, "\""]);
                if kind == NoticeKind::Billing {
                    self.mark_billable(sale);
                }
            }
        }
    }

    fn mark_billable(&mut self, sale: &Sale) {
        if self.reserved(sale).is_some() {
            self.conclusion.billable.push(sale.bid);
        }
    }

    fn reserved(&self, sale: &Sale) -> Option<Reservation> {
        let mut reserved = self.sealing.reserved.iter();
        reserved.find(|(bid, _)| *bid == sale.bid).map(|(_, reservation)| *reservation)
    }

    /// Our URL for a notice of `kind`, even if the DSP has none or it must not be called.
    fn sealed(&mut self, sale: &Sale, kind: NoticeKind) -> Option<String> {
        let judgement = self.cleared.judgement;
        let bid = judgement.bids[sale.bid].bid.as_ref().expect("a winner has been parsed");
        let dsp = self.dsp(sale.bid);
        let occasion = match kind {
            NoticeKind::Win => Occasion::Win,
            NoticeKind::Billing => Occasion::Billing,
            NoticeKind::Loss => Occasion::LossElsewhere,
        };
        let mut url = String::new();
        if let Some(raw) = bid.notice_url(kind) {
            let values = values::of_returned(self.auction, judgement, sale, occasion);
            match checked_url(&self.auction.market.dsps[dsp], raw, &values) {
                Ok(checked) => url = checked,
                Err(why) => self.conclusion.unsent.push(UnsentNotice { dsp, kind, reason: why }),
            }
        }
        let relays_markup = kind == NoticeKind::Win && served_on_win(bid).is_some();
        let claims = self.claims(sale, kind, url);
        let token = claims
            .map(|claims| Claims { relays_markup, ..claims })
            .and_then(|claims| self.sealing.keys.seal(&claims));
        let Some(token) = token else {
            self.conclusion.unsent.push(UnsentNotice { dsp, kind, reason: NotSent::Unsealed });
            return None;
        };
        Some([self.sealing.base.as_str(), &token].concat())
    }

    /// None unless the auction's id has 32 lower-case hexadecimal digits.
    fn claims(&self, sale: &Sale, kind: NoticeKind, url: String) -> Option<Claims<'_>> {
        let auction = self.auction;
        let judged = &self.cleared.judgement.bids[sale.bid];
        let seat = judged.seat.expect("a winner has a seat");
        let imp = &auction.imps[sale.imp];
        let lifetime = self.sealing.lifetimes.seconds(auction.request, imp.imp, judged.formats);
        let reservation = match kind {
            NoticeKind::Win => None, // It moves no money.
            NoticeKind::Billing | NoticeKind::Loss => self.reserved(sale),
        };
        Some(Claims {
            kind,
            auction_id: auction_number(auction.id)?,
            imp: u8::try_from(sale.imp).expect("impressions have a bit each"),
            bid: u32::try_from(sale.bid).ok()?,
            dsp: Cow::Borrowed(&*auction.market.dsps[seat.dsp].id),
            seat: Cow::Borrowed(seat_name(auction, seat)),
            imp_id: Cow::Borrowed(imp.id),
            publisher: Cow::Borrowed(auction.request.publisher_id().unwrap_or_default()),
            paid: sale.paid,
            paid_currency: judged.currency,
            net: sale.net,
            net_currency: auction.currency,
            revenue: sale.revenue,
            expires_unix_s: self.sealing.now_unix_s.saturating_add(lifetime.into()),
            is_test: false,
            relays_markup: false,
            url: Cow::Owned(url),
            reservation,
            node: Some(self.sealing.node),
        })
    }
}

#[derive(Clone, Copy)]
enum RawMarkup<'m> {
    Inline(&'m str),
    Fetched(&'m str),
}

impl RawMarkup<'_> {
    fn with_beacon(
        self,
        format: MediaType,
        beacon: &str,
        values: &MacroValues<'_>,
    ) -> Result<String, NoBeacon> {
        let text = match self {
            // Native markup is a JSON object, not a string.
            Self::Inline(raw) if raw.starts_with('{') && format == MediaType::Native => {
                return add_beacon(format, &values.substitute(raw), beacon);
            }
            Self::Inline(raw) => string(raw).ok_or(NoBeacon::Unreadable)?,
            Self::Fetched(text) => Cow::Borrowed(text),
        };
        let with_beacon = add_beacon(format, &values.substitute(&text), beacon)?;
        Ok(["\"", &escaped(&with_beacon), "\""].concat())
    }

    fn write_without_beacon(self, out: &mut String, values: &MacroValues<'_>) {
        match self {
            Self::Inline(raw) => values.substitute_into(raw, out),
            Self::Fetched(text) => {
                out.extend(["\"", &escaped(&values.substitute(text)), "\""]);
            }
        }
    }
}

fn write_markup(out: &mut String, inline: Option<&str>, values: &MacroValues<'_>) {
    if let Some(raw) = inline {
        out.push_str(",\"adm\":");
        values.substitute_into(raw, out);
    }
}

#[cfg(test)]
mod tests;
