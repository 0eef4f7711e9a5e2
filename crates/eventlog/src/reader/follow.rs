//! Following a log while another process writes it. What is not a record yet may become one, so the
//! end is never reported as torn.

use std::io;

use super::{CurrentSegment, FollowPosition, LogReader, keep_from, segments};
use crate::disk::Disk;
use crate::item::LogReadError;
use crate::scan::FrameScan;
use crate::segment::SegmentId;
use crate::source::SegmentSource;

impl<D: Disk> LogReader<'_, D> {
    /// Makes this a following reader: after its last entry call [`Self::refresh`] and iterate
    /// again. Call this before the first entry.
    ///
    /// It yields what is in the files, durable or not. If a commit failed after that, records with
    /// the same sequences come again in a later epoch; the earlier ones never existed.
    #[must_use]
    pub fn follow(mut self) -> Self {
        self.place = Some(FollowPosition::default());
        // The present durable end says nothing about later records.
        self.known = 0;
        self
    }

    /// Looks for more after the last entry. Does nothing before that, or if this reader does not
    /// follow. After an error start a new reader from the next sequence.
    pub fn refresh(&mut self) -> Result<(), LogReadError> {
        let Some(place) = self.place else { return Ok(()) };
        let more = !self.ready.is_empty() || !self.listed.is_empty() || !self.names.is_empty();
        if self.current.is_some() || more {
            return Ok(());
        }
        self.tail = None;
        self.unborn.clear();
        let mut names = segments(self.disk)?;
        let node = place.identity.or(names.last().copied()).map(|identity| identity.node);
        names.retain(|name| Some(name.node) == node);
        // What was declared unwanted meanwhile is not missing.
        self.keep_from = self.keep_from.max(keep_from(self.disk, &names)?.0);
        names.retain(|name| Some(*name) > place.passed);
        self.names = names.into();
        self.resume()
    }

    /// Continues in the last segment. The segments after it were listed before: once the next one
    /// exists, this one is complete.
    pub(super) fn resume(&mut self) -> Result<(), LogReadError> {
        let Some(FollowPosition { identity: Some(identity), offset, .. }) = self.place else {
            return Ok(());
        };
        while !self.listed.iter().any(|listed| listed.trusted) && self.list()? {}
        let limit =
            self.listed.iter().find(|later| later.trusted).map(|later| later.identity.first);
        match SegmentSource::open(self.disk, identity, self.window_bytes) {
            Err(error) if error.is_not_found() => self.next = None,
            source => {
                let source = source?;
                // A file that was gone may exist again, begun anew under the same name.
                let sequence = *self.next.get_or_insert(identity.first);
                let scan = FrameScan::starting_at(identity, source.length(), offset, sequence);
                self.current = Some(CurrentSegment { source, scan, limit, proven: None });
            }
        }
        Ok(())
    }

    /// Whether a failed commit truncated the file while it was read.
    pub(super) fn was_cut(&self, error: &LogReadError) -> bool {
        let eof = io::ErrorKind::UnexpectedEof;
        self.place.is_some()
            && matches!(error, LogReadError::Io { source, .. } if source.kind() == eof)
    }

    pub(super) fn passed(&mut self, identity: SegmentId) {
        if let Some(place) = &mut self.place {
            place.passed = place.passed.max(Some(identity));
        }
    }

    pub(super) fn came_to(&mut self, identity: SegmentId, offset: usize) {
        if let Some(place) = &mut self.place {
            (place.identity, place.offset) = (Some(identity), offset);
        }
    }
}
