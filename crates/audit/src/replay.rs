//! Recomputes selected auctions from their records, and reports those that differ.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::LogReadError;
use eventlog::lane::LaneKind;
use events::{Gap, RecordKind};
use exchange_core::record::{
    AuctionRecord, RecordDecodeError, ReplayDifference, ReplayOutcome, replay,
};

use crate::filter::{Filter, TimeWindow};
use crate::generations::{GenerationIndex, GenerationLookup, GenerationProblems};
use crate::log::directory::RecordDirectory;
use crate::log::lane::LaneDamage;
use crate::log::position::RecordPosition;

/// Most findings per segment that are reported; further ones are counted.
const FINDINGS_MAX: usize = 1000;

/// Results of a replay.
#[derive(Debug, Default)]
pub struct ReplaySummary {
    /// Number of selected auctions.
    pub auctions: u64,
    /// Identical, bit for bit.
    pub same: u64,
    /// Without judged bids: nothing to recompute, and the recorded terms are correct.
    pub not_held: u64,
    /// Some bids are missing from the record.
    pub cut: u64,
    /// The rules give another result.
    pub different: u64,
    /// Unreadable records, selected or not.
    pub unreadable: u64,
    /// The generation of the configuration is missing.
    pub no_generation: u64,
    /// The same by number of the generation.
    pub without: BTreeMap<u64, WithoutGeneration>,
    /// Auctions that were not recorded, according to gaps.
    pub shed: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Damage of the lane of auctions.
    pub damage: LaneDamage,
    /// Problems of the lane of generations.
    pub generations: GenerationProblems,
}

impl ReplaySummary {
    /// Whether all selected auctions were readable and identical, and no data was lost.
    pub fn is_exact(&self) -> bool {
        let wrong = self.different + self.unreadable + self.no_generation;
        let GenerationProblems { unreadable, corruptions } = &self.generations;
        let is_whole = !self.damage.is_corrupt() && corruptions.is_empty();
        wrong == 0 && is_whole && unreadable.is_empty()
    }

    fn add(&mut self, other: Self) {
        self.auctions += other.auctions;
        self.same += other.same;
        self.not_held += other.not_held;
        self.cut += other.cut;
        self.different += other.different;
        self.unreadable += other.unreadable;
        self.no_generation += other.no_generation;
        for (number, without) in other.without {
            let known = self.without.entry(number).or_insert_with(|| without.clone());
            if known.first != without.first {
                known.auctions += without.auctions;
            }
        }
        self.shed += other.shed;
        self.bytes += other.bytes;
        self.damage.add(other.damage);
    }
}

/// An auction with a problem.
#[derive(Debug)]
pub struct ReplayFinding {
    /// Position of its record.
    pub place: RecordPosition,
    /// Our id of the auction; empty if unreadable.
    pub id: String,
    /// The problem.
    pub wrong: ReplayProblem,
}

/// Auctions whose generation is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutGeneration {
    /// Their number.
    pub auctions: u64,
    /// Position of the first one's record.
    pub first: RecordPosition,
    /// Our id of the first one.
    pub first_id: String,
}

/// A problem of a replayed auction.
#[derive(Debug)]
pub enum ReplayProblem {
    /// The rules give another result.
    Different(ReplayDifference),
    /// The record is unreadable.
    Unreadable(RecordDecodeError),
}

/// Progress of a replay.
#[derive(Debug)]
pub enum ReplayProgress {
    /// Number of segments done, and of all.
    Segments(usize, usize),
    /// A problem was found.
    Found(ReplayFinding),
    /// Number of further problems in a segment that are not reported.
    More(u64),
}

/// Recomputes every selected auction.
pub fn replay_all(
    directory: &RecordDirectory,
    filter: &Filter,
    mut each: impl FnMut(ReplayProgress) -> ControlFlow<()>,
) -> Result<ReplaySummary, LogReadError> {
    let generations = GenerationIndex::find(directory)?;
    let lane = directory.lane(LaneKind::Firehose)?;
    let segments = lane.within(filter.window());
    let mut all = ReplaySummary::default();
    all.damage.corruptions.extend_from_slice(lane.foreign());
    let (mut done, mut failed) = (0, None);
    let begin = || Replayer::new(&generations, filter);
    let sweep = lane.sweep(&segments, begin, Replayer::visit, |part| {
        let Replayer { mut replays, findings, failed: error, .. } = part.made;
        failed = error;
        let more = replays.different + replays.unreadable;
        let more = more - findings.len() as u64;
        (replays.damage, replays.bytes) = (part.walked.damage, part.walked.bytes);
        all.add(replays);
        done += 1;
        let told =
            findings.into_iter().try_for_each(|finding| each(ReplayProgress::Found(finding)));
        if told.is_break()
            || (more > 0 && each(ReplayProgress::More(more)).is_break())
            || each(ReplayProgress::Segments(done, segments.len())).is_break()
            || failed.is_some()
        {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    sweep?;
    all.generations = generations.problems();
    failed.map_or(Ok(all), Err)
}

/// Recomputes the auctions of one segment.
struct Replayer<'g, 'd> {
    filter: &'g Filter,
    window: TimeWindow,
    lookup: GenerationLookup<'g, 'd>,
    replays: ReplaySummary,
    findings: Vec<ReplayFinding>,
    failed: Option<LogReadError>,
}

impl<'g, 'd> Replayer<'g, 'd> {
    fn new(generations: &'g GenerationIndex<'d>, filter: &'g Filter) -> Self {
        Self {
            filter,
            window: filter.window(),
            lookup: GenerationLookup::new(generations),
            replays: ReplaySummary::default(),
            findings: Vec::new(),
            failed: None,
        }
    }

    fn visit(&mut self, place: &RecordPosition, kind: u8, payload: &[u8]) {
        if !self.window.holds(place.time_ms) || self.failed.is_some() {
            return;
        }
        match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => self.auction(place, payload),
            Some(RecordKind::Gap) => {
                let gap = Gap::decode(payload);
                self.replays.shed += gap.map_or(0, |gap| gap.records);
            }
            _ => (),
        }
    }

    fn auction(&mut self, place: &RecordPosition, payload: &[u8]) {
        let record = match AuctionRecord::decode(payload) {
            Ok(record) => record,
            Err(error) => {
                self.replays.unreadable += 1;
                return self.found(place, "", ReplayProblem::Unreadable(error));
            }
        };
        let generation = match self.lookup.get(record.generation) {
            Ok(generation) => generation,
            Err(error) => {
                self.failed = Some(error);
                return;
            }
        };
        if !self.filter.matches(&record, generation) {
            return;
        }
        let replays = &mut self.replays;
        replays.auctions += 1;
        let wrong = match generation.map(|generation| replay(&record, generation)) {
            None => {
                replays.no_generation += 1;
                let (first, first_id) = (*place, record.id.to_owned());
                let without = replays.without.entry(record.generation);
                without.or_insert(WithoutGeneration { auctions: 0, first, first_id }).auctions += 1;
                return;
            }
            Some(Err(difference)) => {
                replays.different += 1;
                ReplayProblem::Different(difference)
            }
            Some(Ok(replayed)) => {
                match replayed {
                    ReplayOutcome::Same => replays.same += 1,
                    ReplayOutcome::NotHeld => replays.not_held += 1,
                    ReplayOutcome::Cut => replays.cut += 1,
                }
                return;
            }
        };
        self.found(place, record.id, wrong);
    }

    fn found(&mut self, place: &RecordPosition, id: &str, wrong: ReplayProblem) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(ReplayFinding { place: *place, id: id.to_owned(), wrong });
        }
    }
}
