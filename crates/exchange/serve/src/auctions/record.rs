//! A shard's record of each auction, however it ends.
//!
//! `exchange_core::record` defines the record's content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange_core::record::{
    self, AuctionContext, AuctionEnding, CallOutcome, JudgedAuction, RecordedBodies, RecordedCall,
};
use exchange_core::{Auction, BidderCall, Masks, NotAsked};
use openrtb::BidRequest;
use openrtb::codes::NoBidReason;
use tokio::time::Instant;

use crate::auctions::trace::AuctionTimings;
use crate::config::BodiesConfig;
use crate::fanout::{Outcomes, Question};
use crate::shard::{ExchangeShard, ShardSnapshot};

/// Fields of an auction's record that are known once the DSPs to call are.
#[derive(Clone, Copy)]
pub(crate) struct RecordedAuction<'m> {
    pub shard: &'m ExchangeShard,
    pub snapshot: &'m ShardSnapshot,
    pub id: &'m str,
    pub request: &'m BidRequest<'m>,
    /// Text of the request.
    pub body: &'m str,
    /// None if it was not known yet.
    pub deadline: Option<Instant>,
    /// None if the request was refused before.
    pub auction: Option<&'m Auction<'m>>,
    /// DSPs that were not asked, in market order.
    pub not_asked: &'m [(usize, NotAsked)],
}

#[derive(Clone, Copy)]
struct AuctionEnd<'e> {
    timings: &'e AuctionTimings,
    ending: AuctionEnding,
    no_bid: Option<NoBidReason>,
    judged: Option<JudgedAuction<'e>>,
}

impl RecordedAuction<'_> {
    /// No DSP was asked.
    pub fn refused(&self, no_bid: NoBidReason, timings: &AuctionTimings) {
        let (ending, no_bid) = (AuctionEnding::Refused, Some(no_bid));
        self.write(AuctionEnd { timings, ending, no_bid, judged: None }, []);
    }

    /// The caller left.
    pub fn abandoned(&self, calls: impl Iterator<Item = RecordedCall>, timings: &AuctionTimings) {
        let ending = AuctionEnding::Abandoned;
        self.write(AuctionEnd { timings, ending, no_bid: None, judged: None }, calls);
    }

    /// The auction ended; `no_bid` is set if nothing was sold.
    pub fn closed(
        &self,
        judged: JudgedAuction<'_>,
        calls: impl Iterator<Item = RecordedCall>,
        no_bid: Option<NoBidReason>,
        timings: &AuctionTimings,
    ) {
        let ending = if no_bid.is_none() { AuctionEnding::Filled } else { AuctionEnding::NoBid };
        self.write(AuctionEnd { timings, ending, no_bid, judged: Some(judged) }, calls);
    }

    fn write(&self, end: AuctionEnd<'_>, calls: impl IntoIterator<Item = RecordedCall>) {
        let Some(recorder) = self.shard.recorder() else { return };
        let bodies = self.snapshot.config().record.as_ref().map(|record| record.bodies);
        let bodies = bodies.filter(BodiesConfig::draws);
        // A body that cannot be masked is not recorded.
        let masks = bodies.map(|bodies| match self.request.is_coppa() {
            true => Masks::COPPA,
            false => bodies.masks,
        });
        let request = masks.and_then(|masks| masks.apply(self.body));
        let AuctionEnd { timings, ending, no_bid, judged } = end;
        let context = AuctionContext {
            id: self.id,
            request: self.request,
            generation: self.snapshot.generation_number(),
            arrival_unix_us: unix_us(timings.arrival),
            moments: recorded_timings(timings, self.deadline),
            ending,
            no_bid,
            auction: self.auction,
            judged,
            full: RecordedBodies {
                request: request.as_deref(),
                answers: bodies.is_some_and(|bodies| bodies.answers),
            },
        };
        recorder.record(&context, self.not_asked, calls);
    }
}

/// Calls and their questions, one for one.
pub(crate) type Calls<'c> = (&'c [BidderCall], &'c [Question<'c>]);

pub(crate) fn recorded_calls(
    (asks, questions): Calls<'_>,
    outcomes: &Outcomes,
    arrival: Instant,
) -> impl Iterator<Item = RecordedCall> {
    asks.iter().zip(questions).enumerate().map(move |(call, (ask, question))| RecordedCall {
        ask: *ask,
        tmax_ms: outcomes.tmax_ms(call).unwrap_or(question.tmax_ms),
        outcome: outcomes.calls[call],
        sent: outcomes.sent_at(call).map(|sent| sent.saturating_duration_since(arrival)),
        latency: outcomes.latency(call),
    })
}

/// Calls of an abandoned auction.
pub(crate) fn unanswered_calls((asks, questions): Calls<'_>) -> impl Iterator<Item = RecordedCall> {
    asks.iter().zip(questions).map(|(ask, question)| RecordedCall {
        ask: *ask,
        tmax_ms: question.tmax_ms,
        outcome: CallOutcome::Abandoned,
        sent: None,
        latency: None,
    })
}

fn recorded_timings(timings: &AuctionTimings, deadline: Option<Instant>) -> record::Timings {
    let AuctionTimings { arrival, received: _, parsed, asked, closed, cleared, answered } =
        *timings;
    let since = |at: Instant| at.saturating_duration_since(arrival);
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    let left = |deadline: Instant| match deadline.checked_duration_since(answered) {
        Some(left) => micros(left),
        None => -micros(answered - deadline),
    };
    record::Timings {
        parsed: Some(since(parsed)),
        asked: asked.map(since),
        closed: closed.map(since),
        cleared: cleared.map(since),
        answered: Some(since(answered)),
        left_us: deadline.map_or(0, left),
    }
}

/// Unix time in microseconds.
fn unix_us(at: Instant) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(at.elapsed()).as_micros()).unwrap_or(u64::MAX)
}
