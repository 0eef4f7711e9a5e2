//! Reads the log: records as they are written, and those that were written earlier.

use audit::{
    AuctionRecord, FollowEvent, Gap, GenerationIndex, GenerationLookup, GenerationRecord,
    LaneFollower, LaneKind, LaneSegment, LogReadError, Publication, RecordDirectory, RecordKind,
    RecordPosition,
};
use eventlog::lane::LaneHandle;
use events::v1;
use live_core::feed::{FeedLane, FeedPosition};
use tracing::warn;

use super::auction::NamedAuction;
use super::message::FeedRecord;
use super::place::{LotNewsRecord, MissingReason, MissingRecords};

/// The lane of the log that a lane of the feed is.
pub(crate) const fn lane_kind(lane: FeedLane) -> LaneKind {
    match lane {
        FeedLane::Firehose => LaneKind::Firehose,
        FeedLane::Durable => LaneKind::Durable,
    }
}

/// Turns the payloads of records into [`FeedRecord`]s.
pub(crate) struct RecordDecoder<'d> {
    lookup: GenerationLookup<'d, 'd>,
}

impl<'d> RecordDecoder<'d> {
    pub const fn new(generations: &'d GenerationIndex<'d>) -> Self {
        Self { lookup: GenerationLookup::new(generations) }
    }

    /// Calls `visit` with the record, unless it is of no interest or unreadable.
    pub fn decode(&mut self, kind: u8, payload: &[u8], visit: &mut dyn FnMut(FeedRecord<'_>)) {
        match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => {
                let Ok(record) = AuctionRecord::decode(payload) else { return damaged(visit) };
                // Without the names of its DSPs an auction shows their positions.
                let generation = self.lookup.get(record.generation).unwrap_or_default();
                visit(FeedRecord::Auction(NamedAuction { record: &record, generation }));
            }
            Some(RecordKind::Publication) => match Publication::decode(payload) {
                Ok(publication) => visit(FeedRecord::Publication(publication)),
                Err(_) => damaged(visit),
            },
            Some(RecordKind::Gap) => match Gap::decode(payload) {
                Ok(Gap { records, .. }) => {
                    let reason = MissingReason::Shed;
                    visit(FeedRecord::Missing(MissingRecords { records, reason }));
                }
                Err(_) => damaged(visit),
            },
            Some(RecordKind::Generation) => match GenerationRecord::decode(payload) {
                Ok(generation) => {
                    self.lookup.forget();
                    visit(FeedRecord::Generation(Box::new(generation)));
                }
                Err(_) => damaged(visit),
            },
            Some(RecordKind::Lot) => match v1::Lot::read_record(payload) {
                Ok(v1::Lot { id: lot, news, .. }) => {
                    // A secret event has none.
                    if let Some(text) = news.and_then(|news| String::from_utf8(news).ok()) {
                        visit(FeedRecord::Lot(LotNewsRecord { lot, text }));
                    }
                }
                Err(_) => damaged(visit),
            },
            Some(RecordKind::Notice | RecordKind::Watermark | RecordKind::Settlements) | None => (),
        }
    }
}

fn damaged(visit: &mut dyn FnMut(FeedRecord<'_>)) {
    let missing = MissingRecords { records: 1, reason: MissingReason::Damaged };
    visit(FeedRecord::Missing(missing));
}

/// A lane as it grows. Of the durable lane it yields what is durable.
pub(crate) struct LaneTail<'d> {
    lane: LaneHandle,
    follower: LaneFollower<'d>,
    /// Read before they were durable.
    early: Vec<HeldRecord>,
    reached: FeedPosition,
}

struct HeldRecord {
    place: RecordPosition,
    kind: u8,
    payload: Vec<u8>,
}

impl<'d> LaneTail<'d> {
    /// Follows a lane from its durable end.
    pub fn at_end(directory: &'d RecordDirectory, lane: LaneHandle) -> Self {
        let reached = FeedPosition::behind(lane.epoch(), lane.sequence());
        let follower = LaneFollower::new(directory, lane.kind(), reached.sequence + 1);
        Self { lane, follower, early: Vec::new(), reached }
    }

    /// How far it has been read.
    pub const fn reached(&self) -> FeedPosition {
        self.reached
    }

    /// Yields what has come since the last call.
    pub fn poll(&mut self, visit: &mut dyn FnMut(&RecordPosition, u8, &[u8])) {
        let Self { lane, follower, early, reached } = self;
        let is_durable_lane = lane.kind() == LaneKind::Durable;
        // Files are not looked at where nothing new is durable, as in most polls.
        if is_durable_lane && FeedPosition::behind(lane.epoch(), lane.sequence()) <= *reached {
            return;
        }
        let mut yields = |place: &RecordPosition, kind: u8, payload: &[u8]| {
            let position = FeedPosition::behind(place.epoch, place.sequence);
            // After an error the follower starts again from its last record.
            if *reached < position {
                *reached = position;
                visit(place, kind, payload);
            }
        };
        let result = follower.poll(&mut |event| match event {
            FollowEvent::Record(place, kind, payload) if is_durable_lane => {
                // A failed commit takes back what was written and not durable.
                early.retain(|held| held.place.sequence < place.sequence);
                early.push(HeldRecord { place: *place, kind, payload: payload.to_vec() });
            }
            FollowEvent::Record(place, kind, payload) => yields(place, kind, payload),
            // What follows shows the hole.
            FollowEvent::Corruption(corruption) => {
                warn!(%corruption, "the feed cannot read a record");
            }
        });
        if let Err(error) = result {
            warn!(%error, "the feed cannot read the record; it tries again");
        }
        let durable = lane.sequence();
        let count = early.partition_point(|held| held.place.sequence <= durable);
        for held in early.drain(..count) {
            yields(&held.place, held.kind, &held.payload);
        }
    }
}

/// Where to read a lane from so that nothing behind `after` is missed: the next sequence, or the
/// beginning of a later epoch that used earlier sequences again.
///
/// # Errors
/// The lane's files cannot be listed.
pub(crate) fn sequence_behind(
    directory: &RecordDirectory,
    kind: LaneKind,
    after: FeedPosition,
) -> Result<u64, LogReadError> {
    let lane = directory.lane(kind)?;
    let identities = lane.segments().iter().map(LaneSegment::identity);
    let later = identities.filter(|identity| identity.epoch > after.epoch).map(|it| it.first).min();
    let next = after.sequence.saturating_add(1);
    Ok(later.map_or(next, |first| first.min(next)))
}
