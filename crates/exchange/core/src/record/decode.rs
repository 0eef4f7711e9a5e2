//! Decodes the record of an auction from any bytes. Positions in a decoded record are valid, counts
//! are limited, and its contents agree with how it ended.

use events::{Bytes, MalformedRecord, MessageReader, Varint, check_version, fields};
use openrtb::{DEALS_MAX, IMPS_MAX};

use super::auction::{AuctionRecord, CallRecord, EnrichmentResult};
use super::codes::SchemaCode;
use super::elements::{
    answer, bid, call, deal, enrichment_result, group, imp, not_asked, refusal, sale, terms,
    timings,
};
use super::encode::all;
use super::limits::BIDS_MAX;
use super::outcome::{AuctionEnding, CallOutcome};
use crate::auction::fate::Fate;
use crate::market::enrichment::ENRICHMENTS_MAX;

pub(super) const DSPS_MAX: usize = 1 << 16;

const CALLS_USUAL: usize = 64;
const BIDS_USUAL: usize = 16;

/// Calls to try before a search over all of them.
const NEAR: usize = 8;

/// Why bytes are not the record of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum RecordDecodeError {
    /// Malformed, or of an unknown version.
    #[error(transparent)]
    Malformed(#[from] MalformedRecord),
    /// Malformed within an element of a list.
    #[error("{list}[{at}]: {why}")]
    Element { list: &'static str, at: usize, why: MalformedRecord },
    /// An element of a list refers to one that does not exist.
    #[error("{list}[{at}] names {what}[{position}], and there are {len}")]
    Position { list: &'static str, at: usize, what: &'static str, position: usize, len: usize },
    /// An element contradicts itself or the rest of the record.
    #[error("{list}[{at}] {what}")]
    Contradiction { list: &'static str, at: usize, what: &'static str },
    /// A list is longer than in any auction.
    #[error("more than {max} {list}")]
    TooMany { list: &'static str, max: usize },
    /// A required field is missing.
    #[error("it has no {0}")]
    Absent(&'static str),
    /// Contents contradict how the auction ended.
    #[error("it ended otherwise than its {0} say")]
    Ending(&'static str),
}

impl<'b> AuctionRecord<'b> {
    /// Decodes a record.
    ///
    /// # Errors
    /// If it is malformed or of an unknown version.
    pub fn decode(record: &'b [u8]) -> Result<Self, RecordDecodeError> {
        use fields::auction as number;
        let mut reader = MessageReader::of_record(record)?;
        check_version(reader.take(number::VERSION, Varint::uint)?.unwrap_or(0))?;
        let record = AuctionRecord {
            id: reader.take(number::ID, Bytes::text)?.unwrap_or(""),
            caller_id: reader.take(number::CALLER_ID, Bytes::text)?.unwrap_or(""),
            generation: reader.take(number::GENERATION, Varint::uint)?.unwrap_or(0),
            arrival_unix_us: reader.take(number::ARRIVAL_UNIX_US, Varint::uint)?.unwrap_or(0),
            timings: reader
                .take(number::MOMENTS, |field: Bytes<'b>| timings(field.message()?))?
                .unwrap_or_default(),
            publisher: reader.take(number::PUBLISHER, Bytes::text)?,
            is_test: reader.take(number::IS_TEST, Varint::flag)?.unwrap_or(false),
            tmax_ms: reader.take(number::TMAX_MS, Varint::uint32)?,
            ending: reader.take(number::ENDING, AuctionEnding::read)?.ok_or(ABSENT_ENDING)?,
            nbr: reader.take(number::NBR, Varint::uint32)?,
            terms: reader.take(number::TERMS, |field: Bytes<'b>| terms(field.message()?))?,
            imps: Vec::new(),
            deals: Vec::new(),
            not_asked: Vec::new(),
            calls: Vec::with_capacity(CALLS_USUAL),
            bids: Vec::with_capacity(BIDS_USUAL),
            groups: Vec::new(),
            refusals: Vec::new(),
            sales: Vec::new(),
            bids_left_out: 0,
            request: None,
            answers: Vec::new(),
            enrichments: Vec::new(),
        };
        let record = AuctionDecoder { record, call: 0 }.lists(&mut reader)?;
        reader.finish()?;
        record.check()?;
        Ok(record)
    }
}

/// A partly decoded record. Fields are ordered by number, so references point backwards.
struct AuctionDecoder<'b> {
    record: AuctionRecord<'b>,
    call: usize,
}

impl<'b> AuctionDecoder<'b> {
    fn lists(
        mut self,
        reader: &mut MessageReader<'b>,
    ) -> Result<AuctionRecord<'b>, RecordDecodeError> {
        use fields::auction as number;
        let record = &mut self.record;
        reader.each(number::IMPS, |field| push(&mut record.imps, "imps", IMPS_MAX, field, imp))?;
        reader.each(number::DEALS, |field| {
            push(&mut record.deals, "deals", DEALS_MAX, field, deal)
        })?;
        reader.each(number::NOT_ASKED, |field| {
            push(&mut record.not_asked, "not_asked", DSPS_MAX, field, not_asked)
        })?;
        let imps = all(record.imps.len());
        reader.each(number::CALLS, |field| {
            let call = |field| call(field, imps);
            push(&mut self.record.calls, "calls", DSPS_MAX, field, call)?;
            self.check_call()
        })?;
        // The default is the auction's currency.
        let currency = self.record.terms.map(|terms| terms.currency);
        reader.each(number::BIDS, |field| {
            let auction = currency.ok_or(RecordDecodeError::Absent("terms"))?;
            let bid = |field| bid(field, auction);
            push(&mut self.record.bids, "bids", BIDS_MAX, field, bid)?;
            self.check_bid()
        })?;
        let mut record = self.record;
        reader.each(number::GROUPS, |field| {
            push(&mut record.groups, "groups", BIDS_MAX, field, group)
        })?;
        reader.each(number::REFUSALS, |field| {
            push(&mut record.refusals, "refusals", BIDS_MAX, field, refusal)
        })?;
        reader
            .each(number::SALES, |field| push(&mut record.sales, "sales", BIDS_MAX, field, sale))?;
        let left_out = reader.take(number::BIDS_LEFT_OUT, Varint::position)?;
        record.bids_left_out = left_out.unwrap_or(0);
        record.request = reader.take(number::REQUEST, Bytes::bytes)?;
        reader.each(number::ANSWERS, |field| {
            push(&mut record.answers, "answers", DSPS_MAX, field, answer)
        })?;
        reader.each(number::ENRICHMENTS, |field| {
            push(&mut record.enrichments, "enrichments", ENRICHMENTS_MAX, field, enrichment_result)
        })?;
        Ok(record)
    }

    fn check_call(&self) -> Result<(), RecordDecodeError> {
        let Some((last, before)) = self.record.calls.split_last() else { return Ok(()) };
        let (at, ask) = (before.len(), &last.call.ask);
        let wrong = |what| RecordDecodeError::Contradiction { list: "calls", at, what };
        if before.last().is_some_and(|before| ask.dsp <= before.call.ask.dsp) {
            return Err(wrong("stands before one of a DSP that comes first"));
        }
        let deals = self.record.deals.len();
        let beyond = u32::try_from(deals).ok().and_then(|deals| ask.deals.checked_shr(deals));
        if ask.imps & !all(self.record.imps.len()) != 0 || beyond.is_some_and(|rest| rest != 0) {
            return Err(wrong("is for what was not on sale"));
        }
        Ok(())
    }

    fn check_bid(&mut self) -> Result<(), RecordDecodeError> {
        let record = &self.record;
        let Some((bid, before)) = record.bids.split_last() else { return Ok(()) };
        let at = before.len();
        let within = |what, position: Option<usize>, len| match position {
            Some(position) if len <= position => {
                Err(RecordDecodeError::Position { list: "bids", at, what, position, len })
            }
            _ => Ok(()),
        };
        within("imps", bid.imp, record.imps.len())?;
        within("deals", bid.deal, record.deals.len())?;
        let wrong = |what| Err(RecordDecodeError::Contradiction { list: "bids", at, what });
        // Bids are in the order of calls: most belong to one of the next.
        let is_its = |call: &CallRecord| call.call.ask.dsp == bid.dsp;
        let calls = &record.calls[self.call..];
        let near = calls.iter().take(NEAR).position(is_its).map(|near| self.call + near);
        let anywhere =
            || record.calls.binary_search_by_key(&bid.dsp, |call| call.call.ask.dsp).ok();
        let call = near.or_else(anywhere);
        let answered = |call: &usize| record.calls[*call].call.outcome == CallOutcome::Answered;
        let Some(call) = call.filter(answered) else {
            return wrong("is of a DSP that did not answer");
        };
        self.call = call;
        if bid.deal.is_some_and(|deal| Some(record.deals[deal].imp) != bid.imp) {
            return wrong("is under a deal on another impression");
        }
        let is_of_clearing = bid.group.is_some() || bid.barred.is_some() || bid.is_out_of_reach;
        if bid.worth.is_none() && (is_of_clearing || bid.fate.took_part()) {
            return wrong("took no part, and has the fate of one that did");
        }
        let is_below = matches!(bid.fate, Fate::BelowFloor | Fate::BelowDealFloor);
        if bid.worth.is_none() && bid.floor.is_some() && !is_below {
            return wrong("came to its floor, and was out before");
        }
        let can_take_part = bid.imp.is_some()
            && bid.seat.is_some()
            && bid.price.is_some()
            && bid.floor.is_some()
            && (bid.fate.took_part() || bid.barred == Some(bid.fate));
        if bid.worth.is_some() && !can_take_part {
            return wrong("took part, and has not what that needs");
        }
        Ok(())
    }
}

const ABSENT_ENDING: RecordDecodeError = RecordDecodeError::Absent("ending");

impl AuctionRecord<'_> {
    fn check(&self) -> Result<(), RecordDecodeError> {
        self.check_deals()?;
        self.check_groups()?;
        self.check_refusals()?;
        self.check_sales()?;
        self.check_enrichments()?;
        self.check_ending()
    }

    fn check_enrichments(&self) -> Result<(), RecordDecodeError> {
        let wrong = |it: &EnrichmentResult<'_>| it.outcome.is_added() == it.text.is_empty();
        let at = self.enrichments.iter().position(wrong);
        at.map_or(Ok(()), |at| {
            let what = "adds text, or adds none, unlike its outcome";
            Err(RecordDecodeError::Contradiction { list: "enrichments", at, what })
        })
    }

    fn check_deals(&self) -> Result<(), RecordDecodeError> {
        let len = self.imps.len();
        for (at, deal) in self.deals.iter().enumerate() {
            check_position("deals", at, "imps", deal.imp, len)?;
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), RecordDecodeError> {
        for (at, group) in self.groups.iter().enumerate() {
            for imp in &group.imps {
                check_position("groups", at, "imps", *imp, self.imps.len())?;
            }
        }
        for (at, bid) in self.bids.iter().enumerate() {
            if let Some(group) = bid.group {
                check_position("bids", at, "groups", group, self.groups.len())?;
            }
        }
        Ok(())
    }

    fn check_refusals(&self) -> Result<(), RecordDecodeError> {
        let mut next = 0;
        for (at, refusal) in self.refusals.iter().enumerate() {
            check_position("refusals", at, "bids", refusal.bid, self.bids.len())?;
            let what = if self.bids[refusal.bid].worth.is_none() {
                "is of a bid that took no part"
            } else if refusal.question < next {
                "answers a question that was asked before"
            } else {
                next = refusal.question + 1;
                continue;
            };
            return Err(RecordDecodeError::Contradiction { list: "refusals", at, what });
        }
        Ok(())
    }

    fn check_sales(&self) -> Result<(), RecordDecodeError> {
        for (at, sale) in self.sales.iter().enumerate() {
            check_position("sales", at, "bids", sale.bid, self.bids.len())?;
            let bid = &self.bids[sale.bid];
            if bid.worth.is_none() || !matches!(bid.fate, Fate::Won | Fate::Offered) {
                let what = "is of a bid that was not sold";
                return Err(RecordDecodeError::Contradiction { list: "sales", at, what });
            }
        }
        Ok(())
    }

    fn check_ending(&self) -> Result<(), RecordDecodeError> {
        let (is_sold, is_refused) = (!self.sales.is_empty(), self.ending == AuctionEnding::Refused);
        if is_sold != (self.ending == AuctionEnding::Filled) {
            return Err(RecordDecodeError::Ending("sales"));
        }
        let has_bids = !self.bids.is_empty() || self.bids_left_out > 0;
        if has_bids && !self.was_held() {
            return Err(RecordDecodeError::Ending("bids"));
        }
        if is_refused && !self.calls.is_empty() {
            return Err(RecordDecodeError::Ending("calls"));
        }
        if !is_refused && self.terms.is_none() {
            return Err(RecordDecodeError::Absent("terms"));
        }
        Ok(())
    }
}

fn check_position(
    list: &'static str,
    at: usize,
    what: &'static str,
    position: usize,
    len: usize,
) -> Result<(), RecordDecodeError> {
    if position < len {
        return Ok(());
    }
    Err(RecordDecodeError::Position { list, at, what, position, len })
}

fn push<'b, T>(
    elements: &mut Vec<T>,
    list: &'static str,
    max: usize,
    field: Bytes<'b>,
    read: impl FnOnce(MessageReader<'b>) -> Result<T, MalformedRecord>,
) -> Result<(), RecordDecodeError> {
    let at = elements.len();
    if at == max {
        return Err(RecordDecodeError::TooMany { list, max });
    }
    let element = field.message().and_then(read);
    elements.push(element.map_err(|why| RecordDecodeError::Element { list, at, why })?);
    Ok(())
}
