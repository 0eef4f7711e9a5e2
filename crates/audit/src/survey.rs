//! What the lanes of a record hold, and whether it is intact: checks and sequences of all frames,
//! and optionally all payloads; or a quick summary from the indexes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::lane::{KnownReach, LaneKind};
use eventlog::{Corruption, LogReadError, SegmentIndex};
use events::{Gap, RecordKind, SettlementsReader};
use exchange_core::delivery::JournalRecord;
use exchange_core::record::{AuctionRecord, GenerationRecord};

use crate::log::chain::{Chain, ChainAbsence, LaneEnd};
use crate::log::directory::RecordDirectory;
use crate::log::lane::{LaneDamage, LaneSegment, ReadBuffer, RecordedLane};
use crate::log::position::RecordPosition;

/// Most unreadable records per segment that are reported; further ones are counted.
const UNREADABLE_MAX: usize = 1000;

/// Summary of a lane.
#[derive(Debug)]
pub struct LaneSurvey {
    /// Which.
    pub kind: LaneKind,
    /// Path of its files.
    pub place: String,
    /// The node that wrote it. None if it is empty.
    pub node: Option<u32>,
    /// Number of files.
    pub segments: u64,
    /// Their total length.
    pub bytes: u64,
    /// Number of epochs with records.
    pub epochs: u64,
    /// Its records.
    pub tally: RecordTally,
    /// What is wrong with it.
    pub damage: LaneDamage,
    /// Number of segments counted by their index alone.
    pub by_index: u64,
    /// The hash chain. None if segments were not hashed.
    pub chain: Option<Chain>,
    /// How far the durable lane says the firehose was durable.
    pub reach: Option<KnownReach>,
}

/// Counts of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordTally {
    /// Number of records.
    pub records: u64,
    /// By kind.
    pub kinds: BTreeMap<u8, u64>,
    /// Earliest and latest time, in Unix milliseconds.
    pub times_ms: Option<(u64, u64)>,
    /// Bytes of the payloads that were read; indexes do not tell.
    pub payload_bytes: u64,
    /// Number of payloads that were read.
    pub payloads: u64,
    /// Auctions that were not recorded, according to gaps.
    pub shed: u64,
    /// The first unreadable records.
    pub unreadable: Vec<UnreadableRecord>,
    /// Number of unreadable records.
    pub unreadable_count: u64,
}

/// A record with sound bytes that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecord {
    /// Its position.
    pub place: RecordPosition,
    /// Its kind.
    pub kind: u8,
    /// The reason.
    pub why: String,
}

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyDepth {
    /// Check and sequence of every frame.
    Frames,
    /// Also the content of every record.
    Records,
}

impl LaneSurvey {
    /// Whether everything durable is there and unchanged.
    pub fn is_sound(&self) -> bool {
        let is_whole = self.chain.as_ref().is_none_or(Chain::is_whole);
        is_whole && !self.damage.is_corrupt() && self.tally.unreadable_count == 0
    }

    fn of(lane: &RecordedLane<'_>) -> Self {
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
            tally: RecordTally::default(),
            damage: LaneDamage { corruptions, torn: None },
            by_index: 0,
            chain: None,
            reach: None,
        }
    }
}

impl RecordTally {
    fn count(&mut self, kind: u8, records: u64, first_ms: u64, last_ms: u64) {
        self.records += records;
        *self.kinds.entry(kind).or_default() += records;
        let (from, to) = self.times_ms.unwrap_or((first_ms, last_ms));
        self.times_ms = Some((from.min(first_ms), to.max(last_ms)));
    }

    fn visit(&mut self, place: &RecordPosition, kind: u8, payload: &[u8], depth: SurveyDepth) {
        self.count(kind, 1, place.time_ms, place.time_ms);
        self.payloads += 1;
        self.payload_bytes += payload.len() as u64;
        let known = RecordKind::from_code(kind);
        if known == Some(RecordKind::Gap) {
            self.shed += Gap::decode(payload).map_or(0, |gap| gap.records);
        }
        let Some(known) = known.filter(|_| depth == SurveyDepth::Records) else { return };
        if let Err(why) = decode(known, payload) {
            self.unreadable_count += 1;
            if self.unreadable.len() < UNREADABLE_MAX {
                self.unreadable.push(UnreadableRecord { place: *place, kind, why });
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

    fn add_index(&mut self, index: &SegmentIndex) {
        for (kind, records) in &index.kinds {
            self.count(*kind, u64::from(*records), index.min_time_ms, index.max_time_ms);
        }
    }
}

fn decode(kind: RecordKind, payload: &[u8]) -> Result<(), String> {
    match kind {
        RecordKind::Notice => check(JournalRecord::decode(payload)),
        RecordKind::Generation => check(GenerationRecord::decode(payload)),
        RecordKind::Auction => check(AuctionRecord::decode(payload)),
        RecordKind::Gap => check(Gap::decode(payload)),
        RecordKind::Watermark => check(events::Watermark::decode(payload)),
        RecordKind::Settlements => {
            check(SettlementsReader::new(payload).and_then(|reader| reader.each(drop)))
        }
        RecordKind::Publication => check(events::Publication::decode(payload)),
        RecordKind::Lot => check(events::v1::Lot::read_record(payload)),
    }
}

fn check<T, E: ToString>(decoded: Result<T, E>) -> Result<(), String> {
    decoded.map(drop).map_err(|error| error.to_string())
}

/// Reads all of both lanes. `each` gets the number of segments done and of all, and may stop it.
pub fn verify(
    directory: &RecordDirectory,
    depth: SurveyDepth,
    mut each: impl FnMut(LaneKind, usize, usize) -> ControlFlow<()>,
) -> Result<[LaneSurvey; 2], LogReadError> {
    let mut one = |kind| {
        let lane = directory.lane(kind)?.hashing();
        let (mut survey, mut chain) = (LaneSurvey::of(&lane), Chain::default());
        if kind == LaneKind::Firehose {
            survey.reach = directory.reach()?;
        }
        let visit = |tally: &mut RecordTally, place: &RecordPosition, kind: u8, payload: &[u8]| {
            tally.visit(place, kind, payload, depth);
        };
        let mut done = 0;
        lane.sweep(lane.segments(), RecordTally::default, visit, |part| {
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
    // A generation is durable before any auction under it is recorded.
    let auctions = firehose.tally.kinds.get(&RecordKind::Auction.code());
    if let Some(chain) = &mut durable.chain
        && chain.absence() == Some(ChainAbsence::Empty)
        && chain.end == LaneEnd::Unknown
        && auctions.is_some_and(|auctions| *auctions > 0)
    {
        chain.end = LaneEnd::LaneMissing;
    }
    Ok(surveys)
}

/// Summarises both lanes, by their indexes if possible. Damage within an indexed segment is not
/// found.
pub fn stat(directory: &RecordDirectory) -> Result<[LaneSurvey; 2], LogReadError> {
    let one = |kind| {
        let lane = directory.lane(kind)?;
        let mut survey = LaneSurvey::of(&lane);
        let mut room = ReadBuffer::default();
        for segment in lane.segments() {
            match lane.index(segment) {
                // The number of missing auctions is in the gaps themselves.
                Some(index) if !index.kinds.contains_key(&RecordKind::Gap.code()) => {
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

impl LaneSurvey {
    fn walk(
        &mut self,
        lane: &RecordedLane<'_>,
        segment: &LaneSegment,
        room: &mut ReadBuffer,
    ) -> Result<(), LogReadError> {
        let tally = &mut self.tally;
        let mut visit = |place: &RecordPosition, kind: u8, payload: &[u8]| {
            tally.visit(place, kind, payload, SurveyDepth::Frames);
            ControlFlow::Continue(())
        };
        let walked = lane.walk(segment, 0, room, &mut visit)?;
        self.bytes += walked.bytes;
        self.damage.add(walked.damage);
        Ok(())
    }
}
