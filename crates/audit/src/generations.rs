//! Generations of the configuration, as auctions name them: found in the durable lane by number, and
//! read when one is asked for.
//!
//! Holds where they stand and a few of them, however many there are.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use eventlog::lane::LaneKind;
use eventlog::{Corruption, Identity, Item, ReadError, Reader};
use events::Kind;
use exchange_core::record::GenerationRecord;

use crate::log::directory::Directory;
use crate::log::lane::Room;
use crate::log::place::Place;

/// How many are held.
const HELD_MAX: usize = 16;

/// Generations of one node.
#[derive(Debug)]
pub struct Generations<'d> {
    directory: &'d Directory,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// By number: where each was put in force, as far back as the lane goes.
    places: HashMap<u64, Put>,
    /// By number: the sequence of its last record. Those before it may be gone.
    latest: HashMap<u64, u64>,
    /// The last ones that were asked for, the latest last.
    held: Vec<Arc<GenerationRecord>>,
    problems: Problems,
    /// The segment in which the search ended, and what comes next there.
    reached: Option<(Identity, u64)>,
    /// Those that were looked for in vain since.
    absent: Vec<u64>,
}

/// A generation that was put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where its record stands.
    pub place: Place,
    /// Its number.
    pub number: u64,
    /// Since when, in milliseconds of Unix time.
    pub since_ms: u64,
    /// How many DSPs it has.
    pub dsps: usize,
}

/// What is wrong with the lane that they are in.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Records that cannot be read, and why.
    pub unreadable: Vec<(Place, events::Malformed)>,
    /// What was lost.
    pub corruptions: Vec<Corruption>,
}

impl<'d> Generations<'d> {
    /// Finds all that there are.
    ///
    /// # Errors
    ///
    /// When the durable lane cannot be read.
    pub fn find(directory: &'d Directory) -> Result<Self, ReadError> {
        let generations = Self { directory, found: Mutex::default() };
        generations.refresh()?;
        Ok(generations)
    }

    /// Looks for more, behind those that were found.
    ///
    /// # Errors
    ///
    /// When the durable lane cannot be read.
    pub fn refresh(&self) -> Result<(), ReadError> {
        let lane = self.directory.lane(LaneKind::Durable)?;
        let mut found = self.lock();
        let found = &mut *found;
        let mut room = Room::default();
        for segment in lane.segments() {
            let is_last = found.reached.filter(|(reached, _)| *reached == segment.identity());
            let is_passed = found.reached.is_some_and(|(reached, _)| segment.identity() < reached);
            let has_none = || {
                let index = lane.index(segment);
                index.is_some_and(|index| !index.kinds.contains_key(&Kind::Generation.code()))
            };
            if is_passed || has_none() {
                continue;
            }
            let from = is_last.map_or(0, |(_, next)| next);
            let mut next = from;
            let mut visit = |place: &Place, kind: u8, payload: &[u8]| {
                next = place.sequence + 1;
                if kind == Kind::Generation.code() {
                    found.add(place, payload);
                }
                ControlFlow::Continue(())
            };
            let walked = lane.walk(segment, (from, &mut room), &mut visit)?;
            found.reached = Some((segment.identity(), next));
            let told = &mut found.problems.corruptions;
            for corruption in walked.damage.corruptions {
                if !told.contains(&corruption) {
                    told.push(corruption);
                }
            }
        }
        let Found { absent, latest, .. } = found;
        absent.retain(|number| !latest.contains_key(number));
        Ok(())
    }

    /// The generation of that number; `None` when it is not in the lane, or cannot be read. One that
    /// was not there yet is looked for once more: it came in force while auctions were read.
    ///
    /// # Errors
    ///
    /// When the durable lane cannot be read.
    pub fn get(&self, number: u64) -> Result<Option<Arc<GenerationRecord>>, ReadError> {
        let mut found = self.lock();
        if let Some(at) = found.held.iter().position(|held| held.number == number) {
            let held = found.held.remove(at);
            found.held.push(Arc::clone(&held));
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
        if found.held.len() == HELD_MAX {
            found.held.remove(0);
        }
        found.held.push(Arc::clone(&facts));
        Ok(Some(facts))
    }

    fn read(&self, number: u64, sequence: u64) -> Result<Option<Arc<GenerationRecord>>, ReadError> {
        let folder = self.directory.folder(LaneKind::Durable);
        for item in Reader::new(folder)?.seek(sequence)? {
            let Item::Record(record) = item? else { continue };
            if record.sequence != sequence {
                break;
            }
            let facts = GenerationRecord::decode(&record.payload).ok();
            let facts = facts.filter(|facts| facts.number == number);
            // The file itself is not looked at.
            let facts = facts.map(|facts| GenerationRecord { toml: None, ..facts });
            return Ok(facts.map(Arc::new));
        }
        Ok(None)
    }

    /// What is wrong with the lane, as far as it was read.
    pub fn problems(&self) -> Problems {
        self.lock().problems.clone()
    }

    /// All that were found, in the order of their records.
    pub fn list(&self) -> Vec<Put> {
        let mut list: Vec<_> = self.lock().places.values().copied().collect();
        list.sort_unstable_by_key(|put| put.place.sequence);
        list
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Found> {
        // What it holds is whole after each step.
        self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Found {
    fn add(&mut self, place: &Place, payload: &[u8]) {
        match GenerationRecord::decode(payload) {
            Ok(facts) => {
                let GenerationRecord { number, since_unix_ms: since_ms, .. } = facts;
                let dsps = facts.dsps.len();
                let put = Put { place: *place, number, since_ms, dsps };
                self.places.entry(number).or_insert(put);
                self.latest.insert(number, place.sequence);
                self.held.retain(|held| held.number != number);
            }
            Err(why) => self.problems.unreadable.push((*place, why)),
        }
    }
}

/// The generation that was asked for last, for whoever reads auctions in order.
#[derive(Debug)]
pub struct Lookup<'g, 'd> {
    generations: &'g Generations<'d>,
    last: Option<(u64, Option<Arc<GenerationRecord>>)>,
}

impl<'g, 'd> Lookup<'g, 'd> {
    /// Asks these.
    pub const fn new(generations: &'g Generations<'d>) -> Self {
        Self { generations, last: None }
    }

    /// As [`Generations::get`], at once where it is the one of the auction before.
    ///
    /// # Errors
    ///
    /// When the durable lane cannot be read.
    pub fn get(&mut self, number: u64) -> Result<Option<&GenerationRecord>, ReadError> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = Some((number, self.generations.get(number)?));
        }
        Ok(self.last.as_ref().and_then(|(_, facts)| facts.as_deref()))
    }

    /// Forgets what was not there, for it may have come since.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
