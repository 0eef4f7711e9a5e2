//! What the lanes of a record hold, and whether it is what was written: every frame's check and
//! number, and where asked every payload; or, at a glance, what indexes say.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::lane::{KnownReach, LaneKind};
use eventlog::{Corruption, Index, ReadError};
use events::{Gap, Kind};
use exchange_core::delivery::JournalRecord;
use exchange_core::record::{AuctionRecord, GenerationRecord};

use crate::log::chain::{Chain, ChainAbsence, LaneEnd};
use crate::log::directory::Directory;
use crate::log::lane::{Damage, Lane, Room, Segment};
use crate::log::place::Place;

/// Most unreadable records of a segment that are told; more are counted.
const UNREADABLE_MAX: usize = 1000;

/// One lane of a record.
#[derive(Debug)]
pub struct Survey {
    /// Which.
    pub kind: LaneKind,
    /// Where its files are.
    pub place: String,
    /// Which node wrote it; `None` of an empty one.
    pub node: Option<u32>,
    /// How many files.
    pub segments: u64,
    /// How long they are in all.
    pub bytes: u64,
    /// How many starts of the node, and failed commits, it has records of.
    pub epochs: u64,
    /// What is in it.
    pub tally: Tally,
    /// What is wrong with it.
    pub damage: Damage,
    /// How many segments were counted by their index alone.
    pub by_index: u64,
    /// Whether its segments are those that were written. None if they were not hashed.
    pub chain: Option<Chain>,
    /// How far the durable lane says that it was; of the firehose.
    pub reach: Option<KnownReach>,
}

/// Records, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub records: u64,
    /// By the number of their kind.
    pub kinds: BTreeMap<u8, u64>,
    /// When the earliest and the latest was written, in milliseconds of Unix time.
    pub times_ms: Option<(u64, u64)>,
    /// Bytes of those that were read, and how many that were: an index does not tell.
    pub payload_bytes: u64,
    /// See `payload_bytes`.
    pub payloads: u64,
    /// Auctions that were not recorded, by what gaps say.
    pub shed: u64,
    /// Records that cannot be read, and why; the first of them.
    pub unreadable: Vec<Unreadable>,
    /// How many there are.
    pub unreadable_count: u64,
}

/// A record whose bytes are sound and say nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where it stands.
    pub place: Place,
    /// Its kind.
    pub kind: u8,
    /// What is wrong with it.
    pub why: String,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every frame: its checks and its number.
    Frames,
    /// And what every record says.
    Records,
}

impl Survey {
    /// Whether all that was durable is there, as it was written.
    pub fn is_sound(&self) -> bool {
        let is_whole = self.chain.as_ref().is_none_or(Chain::is_whole);
        is_whole && !self.damage.is_corrupt() && self.tally.unreadable_count == 0
    }

    fn of(lane: &Lane<'_>) -> Self {
        let mut epochs: Vec<_> =
            lane.segments().iter().map(|segment| segment.identity().epoch).collect();
        epochs.dedup();
        let corruptions: Vec<Corruption> = lane.foreign().to_vec();
        Self {
            kind: lane.kind(),
            place: lane.place(),
            node: lane.node(),
            segments: lane.segments_len() as u64,
            bytes: 0,
            epochs: epochs.len() as u64,
            tally: Tally::default(),
            damage: Damage { corruptions, torn: None },
            by_index: 0,
            chain: None,
            reach: None,
        }
    }
}

impl Tally {
    fn count(&mut self, kind: u8, records: u64, (first_ms, last_ms): (u64, u64)) {
        self.records += records;
        *self.kinds.entry(kind).or_default() += records;
        let (from, to) = self.times_ms.unwrap_or((first_ms, last_ms));
        self.times_ms = Some((from.min(first_ms), to.max(last_ms)));
    }

    fn visit(&mut self, place: &Place, kind: u8, payload: &[u8], depth: Depth) {
        self.count(kind, 1, (place.time_ms, place.time_ms));
        self.payloads += 1;
        self.payload_bytes += payload.len() as u64;
        let known = Kind::from_code(kind);
        if known == Some(Kind::Gap) {
            self.shed += Gap::decode(payload).map_or(0, |gap| gap.records);
        }
        let Some(known) = known.filter(|_| depth == Depth::Records) else { return };
        if let Err(why) = decode(known, payload) {
            self.unreadable_count += 1;
            if self.unreadable.len() < UNREADABLE_MAX {
                self.unreadable.push(Unreadable { place: *place, kind, why });
            }
        }
    }

    fn add(&mut self, other: Self) {
        for (kind, records) in other.kinds {
            *self.kinds.entry(kind).or_default() += records;
        }
        self.records += other.records;
        self.times_ms = match (self.times_ms, other.times_ms) {
            (Some((from, to)), Some((first, last))) => Some((from.min(first), to.max(last))),
            (one, other) => one.or(other),
        };
        self.payloads += other.payloads;
        self.payload_bytes += other.payload_bytes;
        self.shed += other.shed;
        self.unreadable_count += other.unreadable_count;
        self.unreadable.extend(other.unreadable);
    }

    fn add_index(&mut self, index: &Index) {
        for (kind, records) in &index.kinds {
            self.count(*kind, u64::from(*records), (index.min_time_ms, index.max_time_ms));
        }
    }
}

fn decode(kind: Kind, payload: &[u8]) -> Result<(), String> {
    match kind {
        Kind::Notice => JournalRecord::decode(payload).map(drop).map_err(|error| error.to_string()),
        Kind::Generation => {
            GenerationRecord::decode(payload).map(drop).map_err(|error| error.to_string())
        }
        Kind::Auction => {
            AuctionRecord::decode(payload).map(drop).map_err(|error| error.to_string())
        }
        Kind::Gap => Gap::decode(payload).map(drop).map_err(|error| error.to_string()),
        Kind::Watermark => {
            events::Watermark::decode(payload).map(drop).map_err(|error| error.to_string())
        }
    }
}

/// Reads all of both lanes. `each` is told how many segments of how many are done, and ends it by
/// breaking.
///
/// # Errors
///
/// When a lane cannot be read, or is of a later release.
pub fn verify(
    directory: &Directory,
    depth: Depth,
    mut each: impl FnMut(LaneKind, usize, usize) -> ControlFlow<()>,
) -> Result<[Survey; 2], ReadError> {
    let mut one = |kind| {
        let lane = directory.lane(kind)?.hashing();
        let (mut survey, mut chain) = (Survey::of(&lane), Chain::default());
        if kind == LaneKind::Firehose {
            survey.reach = directory.reach()?;
        }
        let visit = |tally: &mut Tally, place: &Place, kind: u8, payload: &[u8]| {
            tally.visit(place, kind, payload, depth);
        };
        let mut done = 0;
        lane.sweep(lane.segments(), Tally::default, visit, |part| {
            survey.tally.add(part.made);
            survey.bytes += part.walked.bytes;
            chain.add(&lane.segments()[done], &part.walked);
            survey.damage.add(part.walked.damage);
            done += 1;
            each(kind, done, lane.segments_len())
        })?;
        chain.finish(&lane);
        survey.chain = Some(chain);
        Ok(survey)
    };
    let mut surveys = [one(LaneKind::Durable)?, one(LaneKind::Firehose)?];
    let [durable, firehose] = &mut surveys;
    // A generation is durable before any auction is recorded.
    let auctions = firehose.tally.kinds.get(&Kind::Auction.code());
    if let Some(chain) = &mut durable.chain
        && chain.absence() == Some(ChainAbsence::Empty)
        && chain.end == LaneEnd::Unknown
        && auctions.is_some_and(|auctions| *auctions > 0)
    {
        chain.end = LaneEnd::LaneMissing;
    }
    Ok(surveys)
}

/// What both lanes hold, by their indexes where there are any: what is wrong within a segment that
/// has one is not found.
///
/// # Errors
///
/// When a lane cannot be read, or is of a later release.
pub fn stat(directory: &Directory) -> Result<[Survey; 2], ReadError> {
    let one = |kind| {
        let lane = directory.lane(kind)?;
        let mut survey = Survey::of(&lane);
        let mut room = Room::default();
        for segment in lane.segments() {
            match lane.index(segment) {
                // How many auctions are missing stands in the gaps themselves.
                Some(index) if !index.kinds.contains_key(&Kind::Gap.code()) => {
                    survey.tally.add_index(&index);
                    survey.bytes += lane.bytes(segment);
                    survey.by_index += 1;
                }
                _ => survey.walk(&lane, segment, &mut room)?,
            }
        }
        Ok(survey)
    };
    Ok([one(LaneKind::Durable)?, one(LaneKind::Firehose)?])
}

impl Survey {
    fn walk(
        &mut self,
        lane: &Lane<'_>,
        segment: &Segment,
        room: &mut Room,
    ) -> Result<(), ReadError> {
        let tally = &mut self.tally;
        let mut visit = |place: &Place, kind: u8, payload: &[u8]| {
            tally.visit(place, kind, payload, Depth::Frames);
            ControlFlow::Continue(())
        };
        let walked = lane.walk(segment, (0, room), &mut visit)?;
        self.bytes += walked.bytes;
        self.damage.add(walked.damage);
        Ok(())
    }
}
