//! A reading of the record from its end: the newest auctions that have the rows that are wanted.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;

use audit::{
    AuctionRecord, BidRecord, Filter, GenerationIndex, GenerationLookup, GenerationRecord,
    LaneKind, LogReadError, ReadBuffer, RecordDirectory, RecordKind, RecordPosition, TimeWindow,
};

/// A recorded auction, and the generation that it ran under, if known.
#[derive(Clone, Copy)]
pub(super) struct FoundAuction<'r> {
    pub record: &'r AuctionRecord<'r>,
    pub generation: Option<&'r GenerationRecord>,
}

impl FoundAuction<'_> {
    pub fn matches(&self, filter: &Filter) -> bool {
        filter.matches(self.record, self.generation)
    }

    /// The positions of the bids that match, in an auction that does.
    pub fn bids(&self, filter: &Filter) -> impl Iterator<Item = usize> {
        let matches = self.matches(filter);
        let bids = self.record.bids.iter().enumerate().filter(move |_| matches);
        let selected =
            move |bid: &BidRecord<'_>| filter.matches_bid(self.record, self.generation, bid);
        bids.filter(move |(_, bid)| selected(bid)).map(|(at, _)| at)
    }
}

/// Gets an auction that was found, and its position.
pub(super) type AuctionVisitor<'v> = dyn FnMut(&RecordPosition, FoundAuction<'_>) + 'v;

/// Counts the rows of an auction.
pub(super) type RowCount<'c> = dyn Fn(&FoundAuction<'_>) -> usize + 'c;

/// A record that is held until it is known that it is among the newest.
struct SelectedAuction {
    place: RecordPosition,
    payload: Vec<u8>,
    rows: usize,
}

/// Why a reading ends before its end.
pub(super) enum ReadingEnd {
    Failed(LogReadError),
    TooLong,
    TooLarge,
}

/// One reading of the record.
pub(super) struct RecordReading<'d> {
    pub directory: &'d RecordDirectory,
    pub generations: &'d GenerationIndex<'d>,
    /// The times to read.
    pub window: TimeWindow,
    /// How many rows.
    pub wanted: usize,
    /// Bytes of recorded auctions that are held until all are found.
    pub bytes_max: usize,
    /// When it ends.
    pub end: Instant,
}

impl RecordReading<'_> {
    /// Visits the auctions that have the rows, the newest first. Returns how many places of what was read
    /// are damaged.
    pub fn newest(
        &self,
        counted: &RowCount<'_>,
        visit: &mut AuctionVisitor<'_>,
    ) -> Result<usize, ReadingEnd> {
        let mut lookup = GenerationLookup::new(self.generations);
        let lane = self.directory.lane(LaneKind::Firehose).map_err(ReadingEnd::Failed)?;
        let (mut room, mut damages) = (ReadBuffer::default(), lane.foreign().len());
        let mut held = SelectedAuctions::default();
        let (window, wanted) = (self.window, self.wanted);
        // The newest segment first, and in it the oldest auction.
        for segment in lane.within(window).iter().rev() {
            if held.rows >= wanted {
                break;
            }
            let (mut here, missing) = (SelectedAuctions::default(), wanted - held.rows);
            let mut failed = None;
            let mut take = |place: &RecordPosition, kind: u8, payload: &[u8]| {
                if self.end < Instant::now() {
                    failed = Some(ReadingEnd::TooLong);
                } else if window.holds(place.time_ms)
                    && RecordKind::from_code(kind) == Some(RecordKind::Auction)
                {
                    match rows_of(payload, &mut lookup, counted) {
                        Err(error) => failed = Some(ReadingEnd::Failed(error)),
                        Ok(None) => damages += 1,
                        Ok(Some(rows)) => here.push(place, payload, rows, missing),
                    }
                    if held.bytes + here.bytes > self.bytes_max {
                        failed = Some(ReadingEnd::TooLarge);
                    }
                }
                if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let walked = lane.walk(segment, 0, &mut room, &mut take).map_err(ReadingEnd::Failed)?;
            if let Some(failed) = failed {
                return Err(failed);
            }
            damages += walked.damage.corruptions.len();
            held.append(here);
        }
        for SelectedAuction { place, payload, .. } in &held.auctions {
            let record = AuctionRecord::decode(payload).expect("it was decoded before");
            let generation = lookup.get(record.generation).map_err(ReadingEnd::Failed)?;
            visit(place, FoundAuction { record: &record, generation });
        }
        Ok(damages)
    }
}

/// The rows of a recorded auction. None if it cannot be read.
fn rows_of(
    payload: &[u8],
    lookup: &mut GenerationLookup<'_, '_>,
    counted: &RowCount<'_>,
) -> Result<Option<usize>, LogReadError> {
    let Ok(record) = AuctionRecord::decode(payload) else { return Ok(None) };
    let generation = lookup.get(record.generation)?;
    Ok(Some(counted(&FoundAuction { record: &record, generation })))
}

/// Auctions with rows.
#[derive(Default)]
struct SelectedAuctions {
    auctions: VecDeque<SelectedAuction>,
    rows: usize,
    bytes: usize,
}

impl SelectedAuctions {
    /// Adds a newer auction, if it has rows. Older ones go that `wanted` rows do not need.
    fn push(&mut self, place: &RecordPosition, payload: &[u8], rows: usize, wanted: usize) {
        if rows == 0 {
            return;
        }
        let (place, payload) = (*place, payload.to_vec());
        self.rows += rows;
        self.bytes += payload.len();
        self.auctions.push_back(SelectedAuction { place, payload, rows });
        while let Some(oldest) = self.auctions.front()
            && self.rows - oldest.rows >= wanted
        {
            self.rows -= oldest.rows;
            self.bytes -= oldest.payload.len();
            self.auctions.pop_front();
        }
    }

    /// Appends older ones, which are in their order: these become the newest first.
    fn append(&mut self, older: Self) {
        self.rows += older.rows;
        self.bytes += older.bytes;
        self.auctions.extend(older.auctions.into_iter().rev());
    }
}
