//! Which segments go, by size and by age.
//!
//! Owns the choice. Removal is the writer's, which first makes durable that the records are not
//! wanted.

use std::io;

use super::Writer;
use crate::bug::{Bug, planted};
use crate::disk::{Disk, DiskFile};
use crate::index::Index;
use crate::item::ReadError;
use crate::reader::{latest_ms, trusted_index};
use crate::segment::Identity;
use crate::source::Source;

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Segments, oldest first.
    pub segments: Vec<Identity>,
    /// Bytes in them.
    pub bytes: u64,
}

/// Segments could not be removed, or not all of them. Nothing that is wanted is lost, and it is
/// tried again when the next segment begins.
#[derive(Debug, thiserror::Error)]
#[error("old segments were not removed: {source}")]
pub struct RetainError {
    /// What the file system said.
    #[from]
    pub source: io::Error,
}

impl<D: Disk> Writer<D> {
    /// Removes whole segments, oldest first, while all of them together are longer than
    /// `bytes_max`, or while every record of the oldest is older than `older_than_ms` (Unix
    /// milliseconds). One that holds a record from `keep_from_sequence` on stays, and so do the
    /// one that is written and the newest.
    ///
    /// Before they go, a header that declares them unwanted is durable: where something is to be
    /// removed a new segment begins. To be called between commits; with a batch begun it removes
    /// nothing.
    ///
    /// # Errors
    /// A file cannot be read, removed or begun: see [`RetainError`].
    pub fn retain(
        &mut self,
        bytes_max: Option<u64>,
        older_than_ms: Option<u64>,
        keep_from_sequence: u64,
    ) -> Result<Removed, RetainError> {
        let mut removed = Removed::default();
        if !self.is_committed() {
            return Ok(removed);
        }
        let lengths = self.lengths()?;
        let count = self.unwanted(&lengths, (bytes_max, older_than_ms), keep_from_sequence)?;
        if count == 0 {
            return Ok(removed);
        }
        let before = self.segments.clone();
        self.keep_from = self.keep_from.max(before[count].first);
        if planted(Bug::RemoveUndeclared) {
            self.sweep();
        } else {
            self.begin_anew()?;
        }
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
        let length = |identity: &Identity| match self.disk.open(&identity.file_name()) {
            // Somebody removed it; so will the sweep.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            opened => opened?.len(),
        };
        self.segments.iter().map(length).collect()
    }

    /// How many of the oldest segments may go and should.
    fn unwanted(
        &self,
        lengths: &[u64],
        (bytes_max, older_than_ms): (Option<u64>, Option<u64>),
        keep_from_sequence: u64,
    ) -> io::Result<usize> {
        let mut total: u64 = lengths.iter().sum();
        for (at, pair) in self.segments.windows(2).enumerate() {
            let [oldest, second] = [pair[0], pair[1]];
            let wanted = second.first > keep_from_sequence && !planted(Bug::RemoveWanted);
            let too_long = bytes_max.is_some_and(|bytes_max| total > bytes_max);
            if wanted || !too_long && !self.is_older(oldest, second.first, older_than_ms)? {
                return Ok(at);
            }
            total -= lengths[at];
        }
        Ok(self.segments.len().saturating_sub(1))
    }

    /// Whether all of a sealed segment is older, by its index or else by itself.
    fn is_older(
        &self,
        identity: Identity,
        end: u64,
        older_than_ms: Option<u64>,
    ) -> io::Result<bool> {
        let Some(older_than_ms) = older_than_ms else { return Ok(false) };
        let latest = || -> Result<Option<u64>, ReadError> {
            let mut source = Source::open(&self.disk, identity, self.options.window_bytes)?;
            match trusted_index(&self.disk, &source, end) {
                Some(Index { max_time_ms, .. }) => Ok(Some(max_time_ms)),
                None => self.scanned(&mut source, end),
            }
        };
        match latest() {
            Ok(latest) => Ok(latest.is_none_or(|latest| latest < older_than_ms)),
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(true)
            }
            Err(ReadError::Io { source, .. }) => Err(source),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    /// The latest time in a sealed segment without an index, of which all is read once: it is asked
    /// again and again until that is long ago.
    fn scanned(&self, source: &mut Source<D::File>, end: u64) -> Result<Option<u64>, ReadError> {
        match self.scanned.get() {
            Some((identity, latest)) if identity == source.identity() => Ok(latest),
            _ => {
                let latest = latest_ms(source, end)?;
                self.scanned.set(Some((source.identity(), latest)));
                Ok(latest)
            }
        }
    }

    /// Begins a segment whose header says what is wanted now, and removes what is not.
    fn begin_anew(&mut self) -> io::Result<()> {
        if self.active.as_ref().is_some_and(|active| active.identity.first > self.durable) {
            // It holds nothing yet, and its name is taken.
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
