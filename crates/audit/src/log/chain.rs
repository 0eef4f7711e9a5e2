//! Whether the segments of a lane are those that were written: each holds the hash of the one
//! before, and the end that was sealed holds that of the last.
//!
//! Knows hashes and headers, and nothing of what records say. Where the chain is broken somebody
//! changed a file, or the medium did in a way that checks do not show.

use std::collections::BTreeSet;

use eventlog::{ChainHash, ChainPoint, EndFile, LogEnd};

use crate::log::lane::{Lane, Segment, Walked};

#[cfg(test)]
mod tests;

/// The chain of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The first record in it that is here. None if there is no chain: see [`Self::absence`].
    pub begins: Option<u64>,
    /// The last record that was found.
    pub last: u64,
    /// How far it reaches as found. None if the last segment is damaged, or has no chain.
    pub found: Option<ChainPoint>,
    /// The chain behind all segments that are complete, and the last record there: a hash to keep. None
    /// if there is no such segment.
    pub complete: Option<(ChainPoint, u64)>,
    /// Whether an unfinished write comes behind the last record.
    pub is_torn: bool,
    /// Segments whose bytes are not those that were written, by the hash that the next one holds.
    pub broken: Vec<String>,
    /// How the lane ended.
    pub end: LaneEnd,
    /// Every hash that the chain passes through.
    hashes: BTreeSet<ChainHash>,
    /// The last segment with records.
    newest: Option<String>,
    /// Whether there was a segment.
    is_begun: bool,
    /// The segment before, if it is sound and holds no hash.
    unlinked: Option<String>,
    /// Whether any segment is sound and holds no hash.
    has_unlinked: bool,
}

/// Why a lane has no chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainAbsence {
    /// There are no segments.
    Empty,
    /// An earlier release wrote them.
    EarlierRelease,
    /// No segment has a sound header.
    Damaged,
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneEnd {
    /// Nothing says how: it is empty, or an earlier release wrote it.
    #[default]
    Unknown,
    /// The file that says how is missing.
    Missing,
    /// All of it is missing: another lane holds records that this one must have had records before.
    LaneMissing,
    /// The file that says how is damaged.
    Damaged,
    /// By a clean stop, and what is there is what was sealed.
    Sealed(LogEnd),
    /// By a clean stop, and what is there is something else.
    Altered(LogEnd),
    /// It is being written, or was not stopped cleanly.
    Open(LogEnd),
    /// It is being written, or was not stopped cleanly, and the segment that had begun is gone.
    Gone(LogEnd),
}

impl Chain {
    /// Whether nothing was changed, as far as the chain tells.
    pub fn is_whole(&self) -> bool {
        let is_sound = matches!(self.end, LaneEnd::Unknown | LaneEnd::Sealed(_) | LaneEnd::Open(_));
        self.broken.is_empty() && is_sound
    }

    /// Why there is no chain. None if there is one.
    pub fn absence(&self) -> Option<ChainAbsence> {
        match self.begins {
            Some(_) => None,
            None if !self.is_begun => Some(ChainAbsence::Empty),
            None if self.has_unlinked => Some(ChainAbsence::EarlierRelease),
            None => Some(ChainAbsence::Damaged),
        }
    }

    /// Whether the chain passes through a hash that was kept elsewhere: then all before it is as it
    /// was then, where the chain is whole.
    pub fn holds(&self, hash: &ChainHash) -> bool {
        self.hashes.contains(hash)
    }

    /// Adds the next segment of a lane.
    pub(crate) fn add(&mut self, segment: &Segment, walked: &Walked) {
        let identity = segment.identity();
        if let Some((records, _)) = walked.hashed {
            self.last = self.last.max(identity.first + records - 1);
        }
        match (segment.before(), walked.hashed) {
            (Some(before), hashed) => {
                self.join(identity.first, before);
                self.unlinked = None;
                self.complete = (!before.is_start()).then_some((before, identity.first - 1));
                self.found = hashed.map(|(records, hash)| before.then(records, hash));
            }
            (None, hashed) => {
                let name = identity.file_name();
                if hashed.is_some() && self.begins.is_some() {
                    // Segments have held a hash ever since the chain began.
                    self.broken.push(name.clone());
                }
                self.has_unlinked |= hashed.is_some();
                self.unlinked = hashed.map(|_| name);
                (self.found, self.complete) = (None, None);
            }
        }
        self.is_begun = true;
        self.is_torn = walked.damage.torn.is_some();
        self.hashes.extend(self.found.filter(|point| !point.is_start()).map(|point| point.hash));
        // One without records adds nothing, though it vouches for those before.
        if walked.hashed.is_none_or(|(records, _)| records > 0) {
            self.newest = Some(identity.file_name());
        }
    }

    fn join(&mut self, first: u64, before: ChainPoint) {
        if before.is_start() {
            if self.found.is_none_or(|found| found.is_start()) {
                self.begins = Some(first);
            }
        } else {
            self.begins.get_or_insert(first);
            // A segment without a hash has none that this one could hold.
            if let Some(name) = self.unlinked.take()
                && self.broken.last() != Some(&name)
            {
                self.broken.push(name);
            }
            if !self.is_begun {
                self.hashes.insert(before.hash);
            }
        }
        if self.found.is_some_and(|found| found != before) {
            self.broken.extend(self.newest.take());
        }
    }

    /// Compares with how the lane ended, after the last segment.
    pub(crate) fn finish(&mut self, lane: &Lane<'_>) {
        let newest = lane.segments().last().map(Segment::identity);
        self.end = match lane.end() {
            // The file is written before the first record of a chain.
            EndFile::Absent if self.found.is_some_and(|found| !found.is_start()) => {
                match lane.end_now() {
                    EndFile::Sound(end) => LaneEnd::Open(end),
                    _ => LaneEnd::Missing,
                }
            }
            EndFile::Absent => LaneEnd::Unknown,
            EndFile::Damaged | EndFile::Unreadable(_) | EndFile::Version(_) => LaneEnd::Damaged,
            EndFile::Sound(end) if !end.is_sealed || newest > Some(end.newest) => {
                if newest < Some(end.newest) { LaneEnd::Gone(end) } else { LaneEnd::Open(end) }
            }
            EndFile::Sound(end) => {
                let found = self.found.unwrap_or(ChainPoint::START);
                if found == end.chain { LaneEnd::Sealed(end) } else { LaneEnd::Altered(end) }
            }
        };
        if !matches!(self.end, LaneEnd::Open(_)) {
            self.complete = self.found.filter(|found| !found.is_start()).map(|it| (it, self.last));
        }
    }
}
