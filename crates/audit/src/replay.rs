//! Every auction that is wanted, held once more from its record: how many come to the same, and what
//! differs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use eventlog::ReadError;
use eventlog::lane::LaneKind;
use events::{Gap, Kind};
use exchange_core::record::{
    AuctionRecord, RecordDecodeError, ReplayDifference, ReplayOutcome, replay,
};

use crate::filter::{Filter, Window};
use crate::generations::{Generations, Lookup, Problems};
use crate::log::directory::Directory;
use crate::log::lane::Damage;
use crate::log::place::Place;

/// Most findings of a segment that are told; more are counted.
const FINDINGS_MAX: usize = 1000;

/// What became of holding auctions again.
#[derive(Debug, Default)]
pub struct Replays {
    /// How many auctions were wanted.
    pub auctions: u64,
    /// The same, bit for bit.
    pub same: u64,
    /// Without judged bids: there is nothing to recompute, and what is said of terms holds.
    pub not_held: u64,
    /// Bids are left out of the record.
    pub cut: u64,
    /// Otherwise than the rules have it.
    pub different: u64,
    /// Records that are none, or not to be read; whether they were wanted is not known.
    pub unreadable: u64,
    /// The generation of the configuration is not in the record.
    pub no_generation: u64,
    /// Of these, by the number of the generation.
    pub without: BTreeMap<u64, WithoutGeneration>,
    /// Auctions that were not recorded, by what gaps say.
    pub shed: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// What is wrong with the lane of auctions.
    pub damage: Damage,
    /// What is wrong with the lane of generations.
    pub generations: Problems,
}

impl Replays {
    /// Whether everything that was wanted was there, and came to what is recorded.
    pub fn is_exact(&self) -> bool {
        let wrong = self.different + self.unreadable + self.no_generation;
        let Problems { unreadable, corruptions } = &self.generations;
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

/// One auction with which something is wrong.
#[derive(Debug)]
pub struct Finding {
    /// Where its record stands.
    pub place: Place,
    /// Our id of it; empty when it cannot be read.
    pub id: String,
    /// What.
    pub wrong: Wrong,
}

/// Auctions whose generation is not in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutGeneration {
    /// How many.
    pub auctions: u64,
    /// Where the record of the first stands.
    pub first: Place,
    /// Our id of it.
    pub first_id: String,
}

/// What is wrong with an auction.
#[derive(Debug)]
pub enum Wrong {
    /// The rules come to something else.
    Different(ReplayDifference),
    /// It cannot be read.
    Unreadable(RecordDecodeError),
}

/// What comes in the course of a replay.
#[derive(Debug)]
pub enum Progress {
    /// So many segments of so many are done.
    Segments(usize, usize),
    /// Something is wrong.
    Found(Finding),
    /// Of a segment, so many more findings than are told.
    More(u64),
}

/// Holds every wanted auction once more.
///
/// # Errors
///
/// When the record cannot be read.
pub fn replay_all(
    directory: &Directory,
    filter: &Filter,
    mut each: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Replays, ReadError> {
    let generations = Generations::find(directory)?;
    let lane = directory.lane(LaneKind::Firehose)?;
    let segments = lane.within(filter.window());
    let mut all = Replays::default();
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
        let told = findings.into_iter().try_for_each(|finding| each(Progress::Found(finding)));
        if told.is_break()
            || (more > 0 && each(Progress::More(more)).is_break())
            || each(Progress::Segments(done, segments.len())).is_break()
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

/// Holds the auctions of one segment again.
struct Replayer<'g, 'd> {
    filter: &'g Filter,
    window: Window,
    lookup: Lookup<'g, 'd>,
    replays: Replays,
    findings: Vec<Finding>,
    failed: Option<ReadError>,
}

impl<'g, 'd> Replayer<'g, 'd> {
    fn new(generations: &'g Generations<'d>, filter: &'g Filter) -> Self {
        Self {
            filter,
            window: filter.window(),
            lookup: Lookup::new(generations),
            replays: Replays::default(),
            findings: Vec::new(),
            failed: None,
        }
    }

    fn visit(&mut self, place: &Place, kind: u8, payload: &[u8]) {
        if !self.window.holds(place.time_ms) || self.failed.is_some() {
            return;
        }
        match Kind::from_code(kind) {
            Some(Kind::Auction) => self.auction(place, payload),
            Some(Kind::Gap) => {
                let gap = Gap::decode(payload);
                self.replays.shed += gap.map_or(0, |gap| gap.records);
            }
            _ => (),
        }
    }

    fn auction(&mut self, place: &Place, payload: &[u8]) {
        let record = match AuctionRecord::decode(payload) {
            Ok(record) => record,
            Err(error) => {
                self.replays.unreadable += 1;
                return self.found(place, "", Wrong::Unreadable(error));
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
                Wrong::Different(difference)
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

    fn found(&mut self, place: &Place, id: &str, wrong: Wrong) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { place: *place, id: id.to_owned(), wrong });
        }
    }
}
