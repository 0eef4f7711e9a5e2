//! Chooses which segments to remove, by size and by age. The writer removes them after it has
//! durably declared their records unwanted.

use std::io;

use super::{LogWriter, SegmentTimes};
use crate::disk::{Disk, DiskFile as _};
use crate::index::{IndexBuilder, SegmentIndex};
use crate::item::LogReadError;
use crate::reader::{times_ms, trusted_index};
use crate::segment::SegmentId;
use crate::source::SegmentSource;

/// What retention removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedSegments {
    /// Segments, oldest first.
    pub segments: Vec<SegmentId>,
    /// Their total length.
    pub bytes: u64,
    /// Clock steps between the segments, each longer than [`CLOCK_STEP_MAX_MS`], which add no age.
    /// None if ages were not computed.
    pub clock_steps: Option<usize>,
}

/// The longest gap between two records that adds to the age of older records: one day. A longer
/// one, from a wrong clock or no traffic, adds nothing, and the next record begins a new segment.
pub const CLOCK_STEP_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Ages of all segments.
struct SegmentAges {
    /// Milliseconds between each segment's latest record and the newest one, oldest segment first.
    of: Vec<u64>,
    clock_steps: usize,
}

/// Some segments could not be removed. No wanted record is lost, and the removal is retried when
/// the next segment begins.
#[derive(Debug, thiserror::Error)]
#[error("old segments were not removed: {source}")]
pub struct RetainError {
    /// The cause.
    #[from]
    pub source: io::Error,
}

impl<D: Disk> LogWriter<D> {
    /// Removes whole segments, oldest first, while the total is longer than `bytes_max`, or while
    /// every record of the oldest is more than `age_max_ms` older than the newest record: see
    /// [`CLOCK_STEP_MAX_MS`]. Segments with a record from `keep_from_sequence` on, the active
    /// segment and the newest one stay.
    ///
    /// If there is anything to remove, a new segment begins first, whose durable header declares
    /// the records unwanted. Call this between commits: with a batch begun it removes nothing.
    pub fn retain(
        &mut self,
        bytes_max: Option<u64>,
        age_max_ms: Option<u64>,
        keep_from_sequence: u64,
    ) -> Result<RemovedSegments, RetainError> {
        let mut removed = RemovedSegments::default();
        if !self.is_committed() {
            return Ok(removed);
        }
        let lengths = self.lengths()?;
        let ages = age_max_ms.map(|_| self.ages()).transpose()?;
        removed.clock_steps = ages.as_ref().map(|ages| ages.clock_steps);
        let is_old = |at: usize| {
            let age = ages.as_ref().and_then(|ages| ages.of.get(at));
            age.zip(age_max_ms).is_some_and(|(age, age_max)| *age > age_max)
        };
        let count = self.unwanted(&lengths, bytes_max, is_old, keep_from_sequence);
        if count == 0 {
            return Ok(removed);
        }
        let before = self.segments.clone();
        self.keep_from = self.keep_from.max(before[count].first);
        self.begin_anew()?;
        let gone = before.iter().take_while(|identity| !self.segments.contains(identity)).count();
        if gone < count {
            let name = before[gone].file_name();
            return Err(io::Error::other(format!("{name} is still there")).into());
        }
        removed.segments = before[..gone].to_vec();
        removed.bytes = lengths[..gone].iter().sum();
        Ok(removed)
    }

    fn lengths(&self) -> io::Result<Vec<u64>> {
        let length = |identity: &SegmentId| match self.disk.open(&identity.file_name()) {
            // It is gone already; the sweep will find that too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            opened => opened?.len(),
        };
        self.segments.iter().map(length).collect()
    }

    /// How many of the oldest segments may and should be removed.
    fn unwanted(
        &self,
        lengths: &[u64],
        bytes_max: Option<u64>,
        is_old: impl Fn(usize) -> bool,
        keep_from_sequence: u64,
    ) -> usize {
        let mut total: u64 = lengths.iter().sum();
        for (at, second) in self.segments.iter().skip(1).enumerate() {
            let wanted = second.first > keep_from_sequence;
            let too_long = bytes_max.is_some_and(|bytes_max| total > bytes_max);
            if wanted || !too_long && !is_old(at) {
                return at;
            }
            total -= lengths[at];
        }
        self.segments.len().saturating_sub(1)
    }

    /// The age of all segments, from their indexes or, without one, their records.
    fn ages(&self) -> io::Result<SegmentAges> {
        self.times.borrow_mut().retain(|identity, _| self.segments.contains(identity));
        let (mut clock, mut clock_steps, mut before) = (0_u64, 0, None::<u64>);
        let mut of = Vec::with_capacity(self.segments.len());
        for (at, identity) in self.segments.iter().enumerate() {
            let end = self.segments.get(at + 1).map_or(self.durable + 1, |next| next.first);
            if let Some(SegmentTimes { first_ms, max_ms }) = self.times_of(*identity, end)? {
                let steps = |before: u64| first_ms > before.saturating_add(CLOCK_STEP_MAX_MS);
                clock_steps += usize::from(before.is_some_and(steps));
                let from = before.filter(|before| !steps(*before)).unwrap_or(first_ms);
                clock += max_ms.saturating_sub(from);
                before = Some(max_ms);
            }
            of.push(clock);
        }
        of.iter_mut().for_each(|at| *at = clock - *at);
        Ok(SegmentAges { of, clock_steps })
    }

    /// Times of a segment's records before `end`. None without such records.
    fn times_of(&self, identity: SegmentId, end: u64) -> io::Result<Option<SegmentTimes>> {
        if self.active.as_ref().is_some_and(|active| active.identity == identity) {
            let times = self.index.as_ref().and_then(IndexBuilder::times);
            return Ok(times.map(|(first_ms, max_ms)| SegmentTimes { first_ms, max_ms }));
        }
        if let Some(known) = self.times.borrow().get(&identity) {
            return Ok(*known);
        }
        let read = || -> Result<Option<(u64, u64)>, LogReadError> {
            let mut source = SegmentSource::open(&self.disk, identity, self.options.window_bytes)?;
            match trusted_index(&self.disk, &source, end) {
                Some(SegmentIndex { first_time_ms, max_time_ms, .. }) => {
                    Ok(Some((first_time_ms, max_time_ms)))
                }
                None => times_ms(&mut source, end),
            }
        };
        let times = match read() {
            Ok(times) => times.map(|(first_ms, max_ms)| SegmentTimes { first_ms, max_ms }),
            // It is gone.
            Err(LogReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                None
            }
            Err(LogReadError::Io { source, .. }) => return Err(source),
            Err(other) => return Err(io::Error::other(other)),
        };
        self.times.borrow_mut().insert(identity, times);
        Ok(times)
    }

    /// Begins a segment whose header states what is wanted now, and removes the rest.
    fn begin_anew(&mut self) -> io::Result<()> {
        if self.active.as_ref().is_some_and(|active| active.identity.first > self.durable) {
            // It is empty, and its name is taken.
            self.epoch += 1;
        }
        let declared = self.spare.as_ref().and_then(|spare| spare.durable_header);
        if declared.is_some_and(|header| header.keep_from < self.keep_from) {
            // It does not state what is wanted now. It stays, without records.
            self.spare = None;
            self.epoch += 1;
        }
        self.seal();
        match self.create() {
            Ok(active) => {
                self.active = Some(active);
                Ok(())
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }
}
