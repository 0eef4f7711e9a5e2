//! Verifies the hash chain of a lane: each segment holds the hash of the previous one, and a sealed
//! end that of the last.
//!
//! A broken chain means that somebody changed a file, or that the medium did and the checks of the
//! frames do not show it.

use std::collections::BTreeSet;

use eventlog::{ChainHash, ChainPoint, EndFile, LogEnd};

use crate::log::lane::{LaneSegment, RecordedLane, SegmentWalk};

#[cfg(test)]
mod tests;

/// The chain of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its first record. None if there is no chain: see [`Self::absence`].
    pub begins: Option<u64>,
    /// The last record that was found.
    pub last: u64,
    /// How far it reaches. None if the last segment is damaged or has no chain.
    pub found: Option<ChainPoint>,
    /// The chain after the last complete segment, and the last record there: a hash to keep
    /// elsewhere. None without such a segment.
    pub complete: Option<(ChainPoint, u64)>,
    /// Whether an unfinished write follows the last record.
    pub is_torn: bool,
    /// Segments that differ from the hash in the next segment.
    pub broken: Vec<String>,
    /// How the lane ended.
    pub end: LaneEnd,
    /// Every hash on the chain.
    hashes: BTreeSet<ChainHash>,
    /// The last segment with records.
    newest: Option<String>,
    /// Whether there was a segment.
    is_begun: bool,
    /// The previous segment, if it is sound and has no hash.
    unlinked: Option<String>,
    /// Whether any sound segment has no hash.
    has_unlinked: bool,
}

/// Why a lane has no chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainAbsence {
    /// There are no segments.
    Empty,
    /// An earlier release wrote the segments.
    EarlierRelease,
    /// No segment has a sound header.
    Damaged,
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneEnd {
    /// Unknown: it is empty, or an earlier release wrote it.
    #[default]
    Unknown,
    /// The file `end` is missing.
    Missing,
    /// The whole lane is missing: the other lane holds records that imply some in this one.
    LaneMissing,
    /// The file `end` is damaged.
    Damaged,
    /// By a clean stop, and unchanged since.
    Sealed(LogEnd),
    /// By a clean stop, and changed since.
    Altered(LogEnd),
    /// It is being written, or was not stopped cleanly.
    Open(LogEnd),
    /// As [`Self::Open`], and the segment that had begun is gone.
    Gone(LogEnd),
}

impl Chain {
    /// Whether the chain shows no change.
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

    /// Whether the chain contains a hash that was kept elsewhere. If so, and if the chain is whole,
    /// everything before it is unchanged.
    pub fn holds(&self, hash: &ChainHash) -> bool {
        self.hashes.contains(hash)
    }

    /// Adds the next segment of a lane.
    pub(crate) fn add(&mut self, segment: &LaneSegment, walked: &SegmentWalk) {
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
                    // Since the chain began, every segment has had a hash.
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
        // A segment without records adds nothing, but vouches for the earlier ones.
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
            // The previous segment has no hash to compare with.
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

    /// Compares the chain with the lane's end, after the last segment.
    pub(crate) fn finish(&mut self, lane: &RecordedLane<'_>) {
        let newest = lane.segments().last().map(LaneSegment::identity);
        self.end = match lane.end() {
            // `end` is written before the first record of a chain.
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
