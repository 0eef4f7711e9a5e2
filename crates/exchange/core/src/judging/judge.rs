//! From answers to clearing entries: checks each bid alone, in the order of [`Fate`].

use openrtb::codes::MediaType;
use openrtb::{
    Bid, BidError, BidResponse, NoticeKind, SeatBid, Text, bid_texts, parse_bid, parse_response,
    string,
};
use strum::{FromRepr, IntoStaticStr, VariantArray};
use units::{Cpm, Currency, Ppm, Rounding};

use crate::asking::eligibility::{BidderCall, check_seat};
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::auction::floors::BidShape;
use crate::auction::steps::STEPS_MAX;
use crate::auction::terms::{AuctionDeal, AuctionType, ImpTerms, reaches};
use crate::clearing::clear::{BidGroup, ClearingEntry, Seat};
use crate::clearing::pricing::BidTerms;
use crate::creatives::format::formats_of_markup;
use crate::creatives::macros::{macros_bound, macros_len};
use crate::creatives::rules::{CreativeRules, banner_size};
use crate::creatives::win_notice::fetches_markup;
use crate::market::tie::BidIds;

/// Limit of judged bids per response; later ones are ignored and counted. A limit of bytes is not
/// enough: a bid takes far more memory than its shortest text, `{}`, and is compared with all
/// earlier ones.
pub const BIDS_MAX: usize = 256;

/// Bytes of an answer parsed in the time of one step.
const PARSED_BYTES: usize = 6;

/// Bytes of a faulty answer parsed again in the time of one step.
const REREAD_BYTES: usize = 2;

/// The body of a DSP's 200 answer that came in time.
#[derive(Clone, Copy, Debug)]
pub struct DspAnswer<'a> {
    /// The call it answers.
    pub ask: BidderCall,
    /// Untrusted bytes, expected to be JSON.
    pub body: &'a [u8],
}

/// The fate of an answer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum ResponseFate {
    /// Not JSON, or not of the right types.
    Malformed = 1,
    /// More than [`BIDS_MAX`] bids: only the first are judged.
    TooManyBids = 2,
    /// No bids.
    NoBid = 3,
    /// Bids. Each has its own fate, which may be a fault of the whole response.
    Bids = 4,
}

units::labelled!(ResponseFate);

/// A bid and the result of its checks.
#[derive(Clone, Debug)]
pub struct JudgedBid<'a> {
    /// The answer, by position.
    pub answer: usize,
    /// Positions of its `seatbid` and of the bid in it.
    pub place: (usize, usize),
    /// The impression, by position. None if it was not offered.
    pub imp: Option<usize>,
    /// The seat. None if the DSP has not declared it.
    pub seat: Option<Seat>,
    /// The bid. None if it could not be read.
    pub bid: Option<Bid<'a>>,
    /// The currency of the response.
    pub currency: Currency,
    /// The price after the deal's discount, in `currency`.
    pub discounted_price: Cpm,
    /// The deal, by position among the auction's.
    pub deal: Option<usize>,
    /// The possible formats, as a set of [`MediaType::bit`]. Empty until checked. Several only if
    /// the markup is fetched before the response is written.
    pub formats: u8,
    /// Its floor, in the auction's currency. None if an earlier check failed.
    pub floor: Option<Cpm>,
    /// Its entry, or why it has none.
    pub entry: Result<usize, Fate>,
}

impl JudgedBid<'_> {
    /// Its format. None if only markup shows it, and `fetched` is missing or shows none.
    pub(crate) fn format(&self, fetched: Option<&str>) -> Option<MediaType> {
        let formats =
            fetched.map_or(self.formats, |markup| formats_of_markup(self.formats, markup));
        MediaType::only(formats)
    }

    /// The sold deal that it is under, by position among the market's. None if it is under none.
    pub fn sold_deal(&self, auction: &Auction<'_>) -> Option<usize> {
        auction.deals[self.deal?].sold
    }

    pub(crate) fn terms(&self, auction: &Auction<'_>) -> Option<BidTerms> {
        let imp = &auction.imps[self.imp?];
        let deal = self.deal.map(|deal| &auction.deals[deal]);
        Some(BidTerms {
            currency: self.currency,
            discounted_price: self.discounted_price,
            floor: self.floor,
            fee: deal.map_or(imp.fee, |deal| deal.fee),
            discount: deal.map_or(Ppm::ZERO, AuctionDeal::discount),
            class: deal.map_or(0, |deal| deal.class),
            is_agreed: deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed),
            multiplier: imp.multiplier,
        })
    }
}

/// All judged answers.
#[derive(Clone, Debug, Default)]
pub struct Judgement<'a> {
    /// Fates, by answer.
    pub responses: Vec<ResponseFate>,
    /// `bidid`, by answer.
    pub bidids: Vec<Option<Text<'a>>>,
    /// All bids of all answers.
    pub bids: Vec<JudgedBid<'a>>,
    /// Bids that take part in clearing.
    pub entries: Vec<ClearingEntry>,
    /// Groups among the entries.
    pub groups: Vec<BidGroup>,
    /// Answers with more than [`BIDS_MAX`] bids, by position, with the number of ignored bids.
    pub surplus: Vec<(usize, usize)>,
}

impl Judgement<'_> {
    /// Removes the bid of `entry` with that fate, before the auction clears (again).
    pub fn bar(&mut self, entry: usize, fate: Fate) {
        self.entries[entry].barred = Some(fate);
    }

    /// The bid of `entry`, by position.
    pub fn bid_of(&self, entry: usize) -> usize {
        let bid = self.bids.iter().position(|bid| bid.entry == Ok(entry));
        bid.expect("every entry is a bid's")
    }
}

/// Judges all answers of one auction.
pub fn judge<'a>(auction: &Auction<'_>, answers: &[DspAnswer<'a>]) -> Judgement<'a> {
    let mut judging = Judge::new(auction, answers);
    while judging.proceed() {}
    judging.finish()
}

/// Judges the answers of one auction in slices of a few milliseconds, between which the shard
/// serves other auctions.
#[derive(Debug)]
pub struct Judge<'j, 'm, 'a> {
    auction: &'j Auction<'m>,
    answers: &'j [DspAnswer<'a>],
    judgement: Judgement<'a>,
}

impl<'j, 'm, 'a> Judge<'j, 'm, 'a> {
    /// A judge that has judged nothing yet: see [`Self::proceed`].
    pub fn new(auction: &'j Auction<'m>, answers: &'j [DspAnswer<'a>]) -> Self {
        let judgement = Judgement {
            responses: Vec::with_capacity(answers.len()),
            bidids: Vec::with_capacity(answers.len()),
            bids: Vec::with_capacity(answers.len()),
            entries: Vec::with_capacity(answers.len()),
            groups: Vec::new(),
            surplus: Vec::new(),
        };
        Self { auction, answers, judgement }
    }

    /// Sorts one long list or judges one answer at a time, until [`STEPS_MAX`] steps are used.
    /// Returns whether any is left.
    pub fn proceed(&mut self) -> bool {
        let until = self.auction.steps() + STEPS_MAX;
        while let Some(answer) = self.answers.get(self.judgement.responses.len()) {
            if until <= self.auction.steps() {
                return true;
            }
            if self.auction.sort_next_list() {
                continue;
            }
            let index = self.judgement.responses.len();
            self.judgement.bidids.push(None);
            let fate = judge_answer(self.auction, index, answer, &mut self.judgement);
            self.judgement.responses.push(fate);
        }
        false
    }

    /// The judgement, after the last answer.
    pub fn finish(self) -> Judgement<'a> {
        assert_eq!(self.judgement.responses.len(), self.answers.len(), "every answer is judged");
        self.judgement
    }
}

fn judge_answer<'a>(
    auction: &Auction<'_>,
    index: usize,
    answer: &DspAnswer<'a>,
    judgement: &mut Judgement<'a>,
) -> ResponseFate {
    auction.lists.steps.add(answer.body.len() / PARSED_BYTES);
    let Ok(body) = std::str::from_utf8(answer.body) else { return ResponseFate::Malformed };
    let Some(read) = read_response(auction, body) else {
        return ResponseFate::Malformed;
    };
    if bids_len(&read.response) == 0 {
        return ResponseFate::NoBid;
    }
    let surplus = read.surplus;
    AnsweringDsp { auction, answer: index, ask: answer.ask, judgement }.judge(read);
    if surplus == 0 {
        return ResponseFate::Bids;
    }
    judgement.surplus.push((index, surplus));
    ResponseFate::TooManyBids
}

/// Parses a sound response at once and others bid by bid, so that a bad bid does not spoil the
/// rest. None if the frame around the bids cannot be parsed.
fn read_response<'a>(auction: &Auction<'_>, body: &'a str) -> Option<ReadResponse<'a>> {
    let macros_max = auction.market.bid_macros_max;
    // Every bid opens a brace: few braces bound the memory for all bids.
    let few = memchr::memchr_iter(b'{', body.as_bytes()).nth(4 * BIDS_MAX).is_none();
    let few = few && macros_bound(body) <= macros_max;
    let whole = few.then(|| parse_response(body).ok()).flatten();
    Some(match whole {
        Some(response) => keep_bids(response, Ok),
        None => {
            auction.lists.steps.add(body.len() / REREAD_BYTES);
            let texts = bid_texts(body).ok()?;
            keep_bids(texts, |text| {
                let bid = parse_bid(text.get()).map_err(|_| Fate::Malformed)?;
                let is_bounded = bid_macros_len(text.get(), &bid) <= macros_max;
                is_bounded.then_some(bid).ok_or(Fate::Malformed)
            })
        }
    })
}

/// Number of macros in `bid`'s markup and notice URLs, even if escaped. `text` is its JSON text.
pub(crate) fn bid_macros_len(text: &str, bid: &Bid<'_>) -> usize {
    let urls = [NoticeKind::Win, NoticeKind::Billing, NoticeKind::Loss]
        .into_iter()
        .filter_map(|kind| bid.notice_url(kind))
        .map(|raw| (raw, string(raw)));
    let resolved = urls.chain(bid.markup().map(|raw| (raw, bid.markup_text())));
    let hidden = resolved.map(|(raw, resolved)| {
        let resolved = resolved.map_or(0, |resolved| macros_len(&resolved));
        resolved.saturating_sub(macros_len(raw))
    });
    macros_len(text) + hidden.sum::<usize>()
}

fn bids_len<B>(response: &BidResponse<'_, B>) -> usize {
    response.seatbid.iter().flatten().map(|seatbid| seatbid.bid.len()).sum()
}

struct ReadResponse<'a> {
    response: BidResponse<'a, Result<Bid<'a>, Fate>>,
    /// Number of bids beyond [`BIDS_MAX`].
    surplus: usize,
    /// The `seatbid` of which only the first bids are kept, by position.
    split_seatbid: Option<usize>,
}

fn keep_bids<'a, B>(
    response: BidResponse<'a, B>,
    read: impl Fn(B) -> Result<Bid<'a>, Fate>,
) -> ReadResponse<'a> {
    let (mut room, mut surplus, mut split_seatbid) = (BIDS_MAX, 0, None);
    let convert = |(index, seatbid): (usize, SeatBid<'a, B>)| {
        let kept = room.min(seatbid.bid.len());
        if kept < seatbid.bid.len() {
            surplus += seatbid.bid.len() - kept;
            split_seatbid = split_seatbid.or((kept > 0).then_some(index));
        }
        room -= kept;
        let bid = seatbid.bid.into_iter().take(kept).map(&read).collect();
        SeatBid { bid, seat: seatbid.seat, group: seatbid.group }
    };
    let seatbid =
        response.seatbid.map(|seatbids| seatbids.into_iter().enumerate().map(convert).collect());
    let response = BidResponse {
        id: response.id,
        seatbid,
        bidid: response.bidid,
        cur: response.cur,
        nbr: response.nbr,
    };
    ReadResponse { response, surplus, split_seatbid }
}

struct AnsweringDsp<'j, 'a, 'm> {
    auction: &'j Auction<'m>,
    answer: usize,
    ask: BidderCall,
    judgement: &'j mut Judgement<'a>,
}

impl<'a> AnsweringDsp<'_, 'a, '_> {
    fn judge(&mut self, read: ReadResponse<'a>) {
        let ReadResponse { response, split_seatbid, .. } = read;
        let (currency, common) = self.check_response(&response);
        self.judgement.bidids[self.answer] = response.bidid;
        let first = self.judgement.bids.len();
        for (seatbid_index, seatbid) in response.seatbid.into_iter().flatten().enumerate() {
            let seat = self.seat(seatbid.seat.as_deref());
            let first_of_seat = self.judgement.bids.len();
            for (bid_index, bid) in seatbid.bid.into_iter().enumerate() {
                let mut judged = JudgedBid {
                    answer: self.answer,
                    place: (seatbid_index, bid_index),
                    imp: None,
                    seat: seat.ok(),
                    bid: None,
                    currency,
                    discounted_price: Cpm::ZERO,
                    deal: None,
                    formats: 0,
                    floor: None,
                    entry: Err(Fate::Malformed),
                };
                let entry = match (common, bid) {
                    (Ok(()), bid) => {
                        bid.and_then(|bid| self.check_bid(&mut judged, bid, first, seat))
                    }
                    (Err(fate), bid) => {
                        // Needed for its loss notice.
                        judged.bid = bid.ok();
                        Err(fate)
                    }
                };
                judged.entry = entry.map(|entry| {
                    self.judgement.entries.push(entry);
                    self.judgement.entries.len() - 1
                });
                self.judgement.bids.push(judged);
            }
            if seatbid.group == Some(1) {
                self.group(first_of_seat, split_seatbid != Some(seatbid_index));
            }
        }
    }

    fn check_response<B>(&self, response: &BidResponse<'a, B>) -> (Currency, Result<(), Fate>) {
        let currency = match &response.cur {
            None => Some(Currency::USD),
            Some(code) => Currency::parse(code),
        };
        let accepted = currency.filter(|currency| {
            self.auction.market.dsps[self.ask.dsp].currencies.contains(currency)
                && self.auction.market.rates.ratio(*currency, self.auction.currency).is_some()
        });
        let common = if response.id.as_deref() != Some(self.auction.id) {
            Err(Fate::WrongAuction)
        } else if accepted.is_none() {
            Err(Fate::CurrencyNotAccepted)
        } else {
            Ok(())
        };
        (currency.unwrap_or(Currency::USD), common)
    }

    fn seat(&self, named: Option<&str>) -> Result<Seat, Fate> {
        let seats = &self.auction.market.dsps[self.ask.dsp].seats;
        let position = match named {
            None => Some(0),
            Some(name) => seats.position(name),
        };
        let seat = position.ok_or(Fate::SeatUndeclared)?;
        Ok(Seat { dsp: self.ask.dsp, seat })
    }

    /// The bid's entry for clearing, or the fate of the first check that it fails. Notes in `judged`
    /// what is known by then. `first` is the position of the response's first bid, for duplicates.
    fn check_bid(
        &self,
        judged: &mut JudgedBid<'a>,
        bid: Bid<'a>,
        first: usize,
        seat: Result<Seat, Fate>,
    ) -> Result<ClearingEntry, Fate> {
        let bid = &*judged.bid.insert(bid);
        let price = self.check_form(bid, judged.currency)?;
        let imp_index = self.imp(bid).ok_or(Fate::UnknownImp)?;
        judged.imp = Some(imp_index);
        let steps = &self.auction.lists.steps;
        let earlier = &self.judgement.bids[first..];
        steps.add(1 + earlier.len() / 4);
        let same_id =
            |other: &JudgedBid<'_>| other.bid.as_ref().is_some_and(|other| other.id == bid.id);
        if earlier.iter().any(same_id) {
            return Err(Fate::DuplicateBid);
        }
        let seat = seat?;
        let seat_id = &self.auction.market.dsps[seat.dsp].seats[seat.seat];
        check_seat(self.auction, seat_id)?;
        let imp = &self.auction.imps[imp_index];
        let deal = self.deal(imp, bid, seat_id)?;
        judged.deal = deal;
        let deal = deal.map(|deal| &self.auction.deals[deal]);
        let is_fetched = fetches_markup(self.auction, bid);
        let (request, lists) = (self.auction.request, &self.auction.lists);
        let rules = CreativeRules { request, lists, imp: imp.imp };
        let formats = rules.check(bid, is_fetched)?;
        judged.formats = formats;
        judged.discounted_price = deal.map_or(price, |deal| deal.discount().taken_from(price));
        let value = self
            .in_auction_currency(judged.discounted_price, judged.currency)
            .ok_or(Fate::BelowDealFloor)?;
        // The format is not known yet: use the highest floor.
        let floors =
            MediaType::members(formats).map(|format| floor_of(imp, deal, &shape(imp, bid, format)));
        let floor = floors.max().expect("a bid that passed is of a format");
        judged.floor = Some(floor);
        let price = checked_price(deal, floor, value)?;
        let ids = BidIds {
            dsp: &self.auction.market.dsps[seat.dsp].id,
            seat: seat_id.as_ref(),
            bid: bid.id.as_deref().unwrap_or_default(),
        };
        Ok(ClearingEntry {
            imp: imp_index,
            seat,
            class: deal.map_or(0, |deal| deal.class),
            auction_type: deal.map_or(self.auction.auction_type, |deal| deal.auction_type),
            price,
            floor,
            tie: self.auction.market.tie_key.rank(self.auction.id, imp.id, ids),
            group: None,
            is_deal: deal.is_some(),
            barred: None,
        })
    }

    fn check_form(&self, bid: &Bid<'_>, currency: Currency) -> Result<Cpm, Fate> {
        let present = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
        let has_ids = present(bid.id.as_deref()) && present(bid.impid.as_deref());
        if !has_ids || bid.lists_too_much() {
            return Err(Fate::Malformed);
        }
        let price = bid.price().map_err(|error| match error {
            BidError::NoPrice => Fate::NoPrice,
            BidError::BadPrice => Fate::BadPrice,
        })?;
        if self.in_auction_currency(price, currency).is_none() {
            return Err(Fate::BadPrice);
        }
        if !bid.has_markup() {
            return Err(Fate::NoMarkup);
        }
        if self.auction.market.creative_id_required && !present(bid.crid.as_deref()) {
            return Err(Fate::NoCreativeId);
        }
        Ok(price)
    }

    fn imp(&self, bid: &Bid<'_>) -> Option<usize> {
        let id = bid.impid.as_deref()?;
        let index = self.auction.imps.iter().position(|imp| *imp.id == *id)?;
        self.auction.lists.steps.add(index / 4);
        (self.ask.imps >> index & 1 == 1).then_some(index)
    }

    fn deal(&self, imp: &ImpTerms<'_>, bid: &Bid<'_>, seat: &str) -> Result<Option<usize>, Fate> {
        let Some(id) = bid.dealid.as_deref() else {
            return if imp.imp.is_private() { Err(Fate::PrivateAuction) } else { Ok(None) };
        };
        let mut named =
            imp.deals().filter(|index| *self.auction.deals[*index].id == *id).peekable();
        named.peek().ok_or(Fate::DealUnknown)?;
        // A sold deal may have the id of others, which this DSP is not offered.
        let is_offered = |index: &usize| self.ask.deals >> index & 1 == 1;
        let index = named.find(is_offered).ok_or(Fate::DealNotOffered)?;
        let (deal, steps) = (&self.auction.deals[index], &self.auction.lists.steps);
        steps.add((imp.imp.deals().len() + imp.sold.len()) / 4);
        if !deal.admits_seat(seat, steps) {
            return Err(Fate::DealSeat);
        }
        if !deal.admits_domains(bid.adomain.as_deref().unwrap_or_default(), steps) {
            return Err(Fate::DealAdvertiser);
        }
        Ok(Some(index))
    }

    /// `price` in the auction's currency. None if that is zero or too high for a price.
    fn in_auction_currency(&self, price: Cpm, currency: Currency) -> Option<Cpm> {
        let (rates, to) = (&self.auction.market.rates, self.auction.currency);
        rates.convert(price, currency, to, Rounding::Down).filter(|value| *value > Cpm::ZERO)
    }

    /// Groups the bids since `first_of_seat`: all must win, including those that failed a check. If
    /// bids of the group were cut (`is_whole` is false), the group cannot win.
    fn group(&mut self, first_of_seat: usize, is_whole: bool) {
        let bids = &mut self.judgement.bids[first_of_seat..];
        let mut imps = Vec::new();
        let mut possible = is_whole;
        for judged in &*bids {
            let impid = judged.bid.as_ref().and_then(|bid| bid.impid.as_deref());
            let imp = impid.and_then(|id| self.auction.imps.iter().position(|imp| *imp.id == *id));
            match imp {
                Some(imp) if imps.contains(&imp) => (),
                Some(imp) => imps.push(imp),
                None => possible = false,
            }
        }
        let index = self.judgement.groups.len();
        let mut tie = 0;
        for judged in bids {
            let Ok(entry) = judged.entry else { continue };
            let entry = &mut self.judgement.entries[entry];
            entry.group = Some(index);
            // Any order that bidders cannot choose and arrival does not change.
            tie ^= entry.tie;
        }
        self.judgement.groups.push(BidGroup { imps, possible, tie });
    }
}

fn floor_of(imp: &ImpTerms<'_>, deal: Option<&AuctionDeal<'_>>, shape: &BidShape) -> Cpm {
    deal.map_or_else(|| imp.open_floor(shape), |deal| imp.deal_floor(deal, shape))
}

fn checked_price(deal: Option<&AuctionDeal<'_>>, floor: Cpm, value: Cpm) -> Result<Cpm, Fate> {
    if !reaches(value, floor) {
        return Err(if deal.is_some() { Fate::BelowDealFloor } else { Fate::BelowFloor });
    }
    Ok(match deal.map(|deal| deal.auction_type) {
        Some(AuctionType::Agreed) => floor,
        _ => value,
    })
}

fn shape(imp: &ImpTerms<'_>, bid: &Bid<'_>, format: MediaType) -> BidShape {
    let size = match format {
        MediaType::Banner => banner_size(imp.imp, bid),
        _ => None,
    };
    BidShape { format, size, dur: bid.dur }
}

#[cfg(test)]
mod tests;
