//! Generations of the configuration, which auctions name by number: located in the durable lane,
//! and read on demand.
//!
//! Holds the place of each generation, and a few of them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use eventlog::lane::LaneKind;
use eventlog::{Corruption, LogEntry, LogReadError, LogReader, SegmentId};
use events::RecordKind;
use exchange_core::record::GenerationRecord;

use crate::log::directory::RecordDirectory;
use crate::log::lane::ReadBuffer;
use crate::log::position::RecordPosition;

/// Most generations held in memory.
const CACHED_MAX: usize = 16;

/// The generations of a node.
#[derive(Debug)]
pub struct GenerationIndex<'d> {
    directory: &'d RecordDirectory,
    found: Mutex<GenerationCache>,
}

/// What was found so far, for an index that goes on from there.
#[derive(Debug, Default)]
pub struct GenerationCache {
    /// By number, where each was first put in force.
    places: HashMap<u64, GenerationStart>,
    /// By number, the sequence of its last record; earlier ones may be gone.
    latest: HashMap<u64, u64>,
    /// The generations last used, most recent last.
    cached: Vec<Arc<GenerationRecord>>,
    problems: GenerationProblems,
    /// The segment in which the search ended, and the next sequence there.
    reached: Option<(SegmentId, u64)>,
    /// Numbers that were searched without success since then.
    absent: Vec<u64>,
}

/// A generation that was put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationStart {
    /// Position of its record.
    pub place: RecordPosition,
    /// Its number.
    pub number: u64,
    /// Since when, in Unix milliseconds.
    pub since_ms: u64,
    /// Number of its DSPs.
    pub dsps: usize,
}

/// Problems of the durable lane.
#[derive(Clone, Debug, Default)]
pub struct GenerationProblems {
    /// Unreadable records, and why.
    pub unreadable: Vec<(RecordPosition, events::MalformedRecord)>,
    /// Lost data.
    pub corruptions: Vec<Corruption>,
}

impl<'d> GenerationIndex<'d> {
    /// Locates all generations.
    pub fn find(directory: &'d RecordDirectory) -> Result<Self, LogReadError> {
        let generations = Self { directory, found: Mutex::default() };
        generations.refresh()?;
        Ok(generations)
    }

    /// Goes on with what an earlier index of the directory found.
    pub fn resumed(directory: &'d RecordDirectory, found: GenerationCache) -> Self {
        Self { directory, found: Mutex::new(found) }
    }

    /// What was found.
    pub fn into_found(self) -> GenerationCache {
        self.found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locates generations added since the last search.
    pub fn refresh(&self) -> Result<(), LogReadError> {
        self.refresh_until(None).map(drop)
    }

    /// The same, until this time. Returns whether all were located; the next search goes on.
    pub fn refresh_until(&self, end: Option<Instant>) -> Result<bool, LogReadError> {
        let lane = self.directory.lane(LaneKind::Durable)?;
        let mut found = self.lock();
        let found = &mut *found;
        let mut room = ReadBuffer::default();
        for segment in lane.segments() {
            let is_last = found.reached.filter(|(reached, _)| *reached == segment.identity());
            let is_passed = found.reached.is_some_and(|(reached, _)| segment.identity() < reached);
            let has_none = || {
                let index = lane.index(segment);
                index.is_some_and(|index| !index.kinds.contains_key(&RecordKind::Generation.code()))
            };
            if is_passed || has_none() {
                continue;
            }
            let from = is_last.map_or(0, |(_, next)| next);
            let mut next = from;
            let mut visit = |place: &RecordPosition, kind: u8, payload: &[u8]| {
                if end.is_some_and(|end| end < Instant::now()) {
                    return ControlFlow::Break(());
                }
                next = place.sequence + 1;
                if kind == RecordKind::Generation.code() {
                    found.add(place, payload);
                }
                ControlFlow::Continue(())
            };
            let walked = lane.walk(segment, from, &mut room, &mut visit)?;
            found.reached = Some((segment.identity(), next));
            if walked.is_over {
                return Ok(false);
            }
            let told = &mut found.problems.corruptions;
            for corruption in walked.damage.corruptions {
                if !told.contains(&corruption) {
                    told.push(corruption);
                }
            }
        }
        let GenerationCache { absent, latest, .. } = found;
        absent.retain(|number| !latest.contains_key(number));
        Ok(true)
    }

    /// The generation with a number. None if the lane does not have it or it is unreadable. An
    /// unknown one is searched once more, because it may have come in force while auctions were
    /// read.
    pub fn get(&self, number: u64) -> Result<Option<Arc<GenerationRecord>>, LogReadError> {
        let mut found = self.lock();
        if let Some(at) = found.cached.iter().position(|held| held.number == number) {
            let held = found.cached.remove(at);
            found.cached.push(Arc::clone(&held));
            return Ok(Some(held));
        }
        if found.absent.contains(&number) {
            return Ok(None);
        }
        if !found.latest.contains_key(&number) {
            drop(found);
            self.refresh()?;
            found = self.lock();
        }
        let Some(&sequence) = found.latest.get(&number) else {
            found.absent.push(number);
            return Ok(None);
        };
        let Some(facts) = self.read(number, sequence)? else {
            found.absent.push(number);
            return Ok(None);
        };
        if found.cached.len() == CACHED_MAX {
            found.cached.remove(0);
        }
        found.cached.push(Arc::clone(&facts));
        Ok(Some(facts))
    }

    fn read(
        &self,
        number: u64,
        sequence: u64,
    ) -> Result<Option<Arc<GenerationRecord>>, LogReadError> {
        let folder = self.directory.folder(LaneKind::Durable);
        for item in LogReader::new(folder)?.seek(sequence)? {
            let LogEntry::Record(record) = item? else { continue };
            if record.sequence != sequence {
                break;
            }
            let facts = GenerationRecord::decode(&record.payload).ok();
            let facts = facts.filter(|facts| facts.number == number);
            // Without the configuration file, which is not needed here.
            let facts = facts.map(|facts| GenerationRecord { toml: None, ..facts });
            return Ok(facts.map(Arc::new));
        }
        Ok(None)
    }

    /// Problems of the lane, as far as it was read.
    pub fn problems(&self) -> GenerationProblems {
        self.lock().problems.clone()
    }

    /// All located generations, in the order of their records.
    pub fn list(&self) -> Vec<GenerationStart> {
        let mut list: Vec<_> = self.lock().places.values().copied().collect();
        list.sort_unstable_by_key(|put| put.place.sequence);
        list
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GenerationCache> {
        // Its content is consistent after each step.
        self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl GenerationCache {
    fn add(&mut self, place: &RecordPosition, payload: &[u8]) {
        match GenerationRecord::decode(payload) {
            Ok(facts) => {
                let GenerationRecord { number, since_unix_ms: since_ms, .. } = facts;
                let dsps = facts.dsps.len();
                let put = GenerationStart { place: *place, number, since_ms, dsps };
                self.places.entry(number).or_insert(put);
                self.latest.insert(number, place.sequence);
                self.cached.retain(|held| held.number != number);
            }
            Err(why) => self.problems.unreadable.push((*place, why)),
        }
    }
}

/// Remembers the last generation, for a reader of auctions in order.
#[derive(Debug)]
pub struct GenerationLookup<'g, 'd> {
    generations: &'g GenerationIndex<'d>,
    last: Option<(u64, Option<Arc<GenerationRecord>>)>,
}

impl<'g, 'd> GenerationLookup<'g, 'd> {
    /// Asks `generations`.
    pub const fn new(generations: &'g GenerationIndex<'d>) -> Self {
        Self { generations, last: None }
    }

    /// As [`GenerationIndex::get`]; free if the previous auction had the same one.
    pub fn get(&mut self, number: u64) -> Result<Option<&GenerationRecord>, LogReadError> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = Some((number, self.generations.get(number)?));
        }
        Ok(self.last.as_ref().and_then(|(_, facts)| facts.as_deref()))
    }

    /// Forgets the last one, in case it was missing and has come since.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
