//! The answer of one DSP to one bid request: the choices and the bytes. Pure: the same profile,
//! index and request id give the same answer. Knows no socket and no time.

use std::time::Duration;

use super::markup;
use super::notice_urls;
use super::notices;
use super::profile::DspProfile;
use crate::draws::Draws;
use crate::scan::{self, DealView, ImpView, MalformedRequest};
use crate::server::http::{BAD_REQUEST, NO_CONTENT, append, write_chunks, write_whole};

#[cfg(test)]
mod tests;

/// Content categories of creatives (Content Taxonomy 1.0). The last is one that publishers block.
const CATEGORIES: [&str; 8] =
    ["IAB2-3", "IAB3-1", "IAB7-1", "IAB9-30", "IAB13-7", "IAB17-44", "IAB19-6", "IAB25-3"];

/// Advertisers of one DSP: `advertiser-<n>.example`.
const ADVERTISERS: usize = 200;

/// Creatives of one advertiser.
const CREATIVES: usize = 8;

/// A DSP ready to answer: its profile, with the spreads as tables.
#[derive(Debug)]
pub(crate) struct SimulatedBidder {
    profile: DspProfile,
    seed: u64,
    prices: Vec<u64>,
    latencies: Vec<u64>,
    /// `http://<address>` or `https://<address>`, to which notices go.
    origin: String,
    /// The buffer for bodies, reused.
    body: Vec<u8>,
}

/// The choices made before anything is written.
#[derive(Clone, Debug)]
pub(super) struct AnswerChoice {
    pub(super) no_bid: bool,
    pub(super) late: bool,
    pub(super) delay: Duration,
    pub(super) chunked: bool,
    /// Draws the content of the bids.
    pub(super) draws: Draws,
}

/// False statements of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Misstatements<'a> {
    /// Put before the request's id.
    pub(super) id: &'a [u8],
    /// Put before each impression's id.
    pub(super) imp: &'a [u8],
    /// Replaces the profile's currency.
    pub(super) currency: Option<&'a [u8]>,
}

impl Misstatements<'_> {
    pub(super) const NONE: Self = Self { id: b"", imp: b"", currency: None };
}

/// The answer for the counters, and its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerSummary {
    pub(crate) outcome: BidOutcome,
    /// Zero for an immediate answer.
    pub(crate) delay: Duration,
    pub(crate) late: bool,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BidOutcome {
    NoBid,
    Bids(usize),
    Malformed,
    /// Nothing usable.
    Spoilt,
}

impl SimulatedBidder {
    /// The DSP at `index` of the fleet, reached at `origin` (`http://<address>`).
    pub(crate) fn new(mut profile: DspProfile, index: usize, origin: String) -> Self {
        if profile.seats.is_empty() {
            profile.seats.push(format!("seat-{index}"));
        }
        let seed = Draws::keyed(profile.seed, &index.to_le_bytes()).bits();
        let (prices, latencies) = (profile.price.table(), profile.latency.table());
        Self { profile, seed, prices, latencies, origin, body: Vec::new() }
    }

    pub(super) const fn profile(&self) -> &DspProfile {
        &self.profile
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The id of a request, as written.
    pub(super) fn id_of(request: &[u8]) -> Result<&[u8], MalformedRequest> {
        Ok(&request[scan::request_id(request)?])
    }

    /// Appends the whole HTTP answer to the bid request `request` to `out`.
    pub(crate) fn answer(&mut self, request: &[u8], out: &mut Vec<u8>) -> AnswerSummary {
        let length_before = out.len();
        self.try_answer(request, out).unwrap_or_else(|MalformedRequest| {
            out.truncate(length_before);
            out.extend_from_slice(BAD_REQUEST);
            AnswerSummary { outcome: BidOutcome::Malformed, delay: Duration::ZERO, late: false }
        })
    }

    fn try_answer(
        &mut self,
        request: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<AnswerSummary, MalformedRequest> {
        let id = Self::id_of(request)?;
        let AnswerChoice { no_bid, late, delay, chunked, mut draws } = self.choose(id);
        if no_bid {
            out.extend_from_slice(NO_CONTENT);
            return Ok(AnswerSummary { outcome: BidOutcome::NoBid, delay, late });
        }
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let written = self.write_response(request, &Misstatements::NONE, &mut draws, &mut body);
        match written {
            Ok(0) => out.extend_from_slice(NO_CONTENT),
            Ok(_) if chunked => write_chunked(&body, draws.below(body.len()), out),
            Ok(_) => write_whole(&body, out),
            Err(MalformedRequest) => (),
        }
        self.body = body;
        let outcome = match written? {
            0 => BidOutcome::NoBid,
            bids => BidOutcome::Bids(bids),
        };
        Ok(AnswerSummary { outcome, delay, late })
    }

    /// Chooses the answer to the request `id`, except for the bids.
    pub(super) fn choose(&self, id: &[u8]) -> AnswerChoice {
        let mut draws = Draws::keyed(self.seed, id);
        let no_bid = draws.happens(self.profile.no_bid_ppm);
        let late = draws.happens(self.profile.late_ppm);
        let delay = match late {
            true => self.profile.late_by,
            false if self.latencies.is_empty() => Duration::ZERO,
            false => Duration::from_micros(*draws.pick(&self.latencies)),
        };
        let chunked = draws.happens(self.profile.chunked_ppm);
        AnswerChoice { no_bid, late, delay, chunked, draws }
    }

    /// Appends the response body. Returns its number of bids.
    pub(super) fn write_response(
        &self,
        request: &[u8],
        lies: &Misstatements<'_>,
        draws: &mut Draws,
        body: &mut Vec<u8>,
    ) -> Result<usize, MalformedRequest> {
        let id = Self::id_of(request)?;
        let seat = draws.pick(&self.profile.seats);
        let mut number = itoa::Buffer::new();
        let currency = lies.currency.unwrap_or(self.profile.currency.as_bytes());
        append(body, &[b"{\"id\":\"", lies.id, id, b"\",\"bidid\":\""]);
        append(body, &[number.format(draws.bits()).as_bytes(), b"\",\"cur\":\""]);
        append(body, &[currency, b"\",\"seatbid\":[{\"seat\":\""]);
        append(body, &[seat.as_bytes(), b"\",\"bid\":["]);
        let mut bids = 0;
        for imp in scan::imps(request)?.take(self.profile.bids_max) {
            if bids > 0 {
                body.push(b',');
            }
            self.write_bid(&imp?, lies, draws, body);
            bids += 1;
        }
        body.extend_from_slice(b"]}]}");
        Ok(bids)
    }

    fn write_bid(
        &self,
        imp: &ImpView<'_>,
        lies: &Misstatements<'_>,
        draws: &mut Draws,
        body: &mut Vec<u8>,
    ) {
        let start = body.len();
        let deal = self.choose_deal(imp, draws);
        let price = self.choose_price(imp, deal, draws);
        let advertiser = draws.below(ADVERTISERS);
        let creative = advertiser * CREATIVES + draws.below(CREATIVES);
        let mut number = itoa::Buffer::new();

        append(body, &[b"{\"id\":\"", number.format(draws.bits()).as_bytes()]);
        append(body, &[b"\",\"impid\":\"", lies.imp, imp.id, b"\",\"price\":"]);
        write_micros(price, body);
        append(body, &[b",\"cid\":\"campaign-", number.format(advertiser).as_bytes()]);
        append(body, &[b"\",\"crid\":\"creative-", number.format(creative).as_bytes()]);
        append(body, &[b"\",\"adomain\":[\"advertiser-", number.format(advertiser).as_bytes()]);
        let category = CATEGORIES[advertiser % CATEGORIES.len()];
        append(body, &[b".example\"],\"cat\":[\"", category.as_bytes(), b"\"]"]);
        if let Some(deal) = deal {
            append(body, &[b",\"dealid\":\"", deal.id, b"\""]);
        }
        let creative = markup::CreativeRef { number: creative, advertiser };
        let ppm = self.profile.markup_on_win_ppm;
        if ppm > 0 && draws.happens(ppm) {
            let spec = markup::MarkupSpec::of(imp, creative);
            notices::write_markup_notice(&self.origin, price, spec, body);
            markup::write_type(imp, body);
            body.push(b'}');
            return;
        }
        let mut tracker = String::new();
        if self.profile.notices {
            notice_urls::write_notices(&self.origin, price, self.profile.loss_notices, body);
            tracker = markup::MarkupSpec::of(imp, creative).tracker(&self.origin, price);
        }
        markup::write(imp, creative, start + self.profile.bid_bytes, &tracker, body);
    }

    fn choose_deal<'a>(&self, imp: &ImpView<'a>, draws: &mut Draws) -> Option<DealView<'a>> {
        let offered = imp.deals().count();
        if offered == 0 || !draws.happens(self.profile.deal_ppm) {
            return None;
        }
        imp.deals().nth(draws.below(offered))
    }

    fn choose_price(
        &self,
        imp: &ImpView<'_>,
        deal: Option<DealView<'_>>,
        draws: &mut Draws,
    ) -> u64 {
        let price = *draws.pick(&self.prices);
        let floor = deal.and_then(|deal| deal.floor_micros).unwrap_or(imp.floor_micros);
        if price > floor || !draws.happens(self.profile.above_floor_ppm) {
            return price;
        }
        let quarter = usize::try_from(floor / 4).unwrap_or(usize::MAX - 1);
        floor.saturating_add(1 + draws.below(quarter + 1) as u64)
    }
}

/// Micros as decimal text with the shortest fraction: `1.25`, `3`.
fn write_micros(micros: u64, out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(number.format(micros / 1_000_000).as_bytes());
    if micros.is_multiple_of(1_000_000) {
        return;
    }
    // A leading one keeps the zeros in front of the fraction.
    let fraction = &number.format(1_000_000 + micros % 1_000_000)[1..];
    append(out, &[b".", fraction.trim_end_matches('0').as_bytes()]);
}

/// Two chunks, or one where `split` is 0.
fn write_chunked(body: &[u8], split: usize, out: &mut Vec<u8>) {
    let (first, second) = body.split_at(split);
    write_chunks([first, second].into_iter(), out);
}
