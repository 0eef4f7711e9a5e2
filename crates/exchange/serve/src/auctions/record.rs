//! A shard's record of each auction, however it ends.
//!
//! `exchange_core::record` defines the record's content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange_core::record::{
    self, AuctionContext, AuctionEnding, JudgedAuction, RecordedBodies, RecordedCall,
};
use exchange_core::{Auction, Masks, NotAsked};
use openrtb::BidRequest;
use openrtb::codes::NoBidReason;
use tokio::time::Instant;

use crate::auctions::trace::AuctionTimings;
use crate::config::BodiesConfig;
use crate::shard::{ExchangeShard, ShardSnapshot};

/// Fields of an auction's record that are known once the DSPs to call are.
#[derive(Clone, Copy)]
pub(crate) struct AuctionRecorder<'m> {
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

impl AuctionRecorder<'_> {
    /// Records the auction. `no_bid` is set if nothing was sold; an auction without it whose answers
    /// were not judged was abandoned. `calls` are in the market's order.
    pub fn record(
        &self,
        timings: &AuctionTimings,
        no_bid: Option<NoBidReason>,
        judged: Option<JudgedAuction<'_>>,
        calls: impl IntoIterator<Item = RecordedCall>,
    ) {
        let ending = match (judged, no_bid) {
            (Some(_), None) => AuctionEnding::Filled,
            (Some(_), Some(_)) => AuctionEnding::NoBid,
            (None, Some(_)) => AuctionEnding::Refused,
            (None, None) => AuctionEnding::Abandoned,
        };
        let Some(recorder) = &self.shard.parts.recorder else { return };
        let bodies = Some(self.snapshot.config().bodies).filter(BodiesConfig::draws);
        // A body that cannot be masked is not recorded.
        let masks = bodies.map(|bodies| match self.request.is_coppa() {
            true => Masks::COPPA,
            false => bodies.masks,
        });
        let request = masks.and_then(|masks| masks.apply(self.body));
        let context = AuctionContext {
            id: self.id,
            request: self.request,
            generation: self.snapshot.generation.number,
            arrival_unix_us: unix_us(timings.arrival),
            timings: recorded_timings(timings, self.deadline),
            ending,
            no_bid,
            auction: self.auction,
            judged,
            bodies: RecordedBodies {
                request: request.as_deref(),
                answers: bodies.is_some_and(|bodies| bodies.answers),
            },
        };
        recorder.record(&context, self.not_asked, calls);
    }
}

fn recorded_timings(timings: &AuctionTimings, deadline: Option<Instant>) -> record::Timings {
    let AuctionTimings { arrival, received: _, parsed, asked, collected, cleared, answered } =
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
        closed: collected.map(since),
        cleared: cleared.map(since),
        answered: Some(since(answered)),
        left_us: deadline.map_or(0, left),
    }
}

/// Unix time in microseconds.
pub(crate) fn unix_us(at: Instant) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(at.elapsed()).as_micros()).unwrap_or(u64::MAX)
}
