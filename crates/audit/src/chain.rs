//! Whether the segments of a lane are those that were written: each holds the hash of the one
//! before, and the end that was sealed holds that of the last.
//!
//! Knows hashes and headers, and nothing of what records say. Where the chain is broken somebody
//! changed a file, or the medium did in a way that checks do not show.

use std::collections::BTreeSet;

use eventlog::{ChainHash, ChainPoint, EndFile, LogEnd};

use crate::lane::{Lane, Segment, Walked};

#[cfg(test)]
mod tests;

/// The chain of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The first record in it. None if there is no chain: an earlier release wrote the lane.
    pub begins: Option<u64>,
    /// The last record that was found.
    pub last: u64,
    /// How far it reaches as found. None if the last segment is damaged, or has no chain.
    pub found: Option<ChainPoint>,
    /// Segments whose bytes are not those that were written, by the hash that the next one holds.
    pub broken: Vec<String>,
    /// How the lane ended.
    pub end: LaneEnd,
    /// Every hash that the chain passes through.
    hashes: BTreeSet<ChainHash>,
    /// The last segment with records.
    newest: Option<String>,
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneEnd {
    /// Nothing says how: an earlier release wrote it, or the file that says so is gone.
    #[default]
    Unknown,
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
        let is_damaged =
            matches!(self.end, LaneEnd::Damaged | LaneEnd::Altered(_) | LaneEnd::Gone(_));
        self.broken.is_empty() && !is_damaged
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
                self.found = hashed.map(|(records, hash)| before.then(records, hash));
            }
            (None, _) => self.found = None,
        }
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
            self.hashes.insert(before.hash);
        }
        if self.found.is_some_and(|found| found != before) {
            self.broken.extend(self.newest.take());
        }
    }

    /// Compares with how the lane ended, after the last segment.
    pub(crate) fn finish(&mut self, lane: &Lane<'_>) {
        let newest = lane.segments().last().map(Segment::identity);
        self.end = match lane.end() {
            EndFile::Absent => LaneEnd::Unknown,
            EndFile::Damaged => LaneEnd::Damaged,
            EndFile::Sound(end) if !end.is_sealed || newest > Some(end.newest) => {
                if newest < Some(end.newest) { LaneEnd::Gone(end) } else { LaneEnd::Open(end) }
            }
            EndFile::Sound(end) => {
                let found = self.found.unwrap_or(ChainPoint::START);
                if found == end.chain { LaneEnd::Sealed(end) } else { LaneEnd::Altered(end) }
            }
        };
    }
}
