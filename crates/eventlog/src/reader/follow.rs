//! A reader that goes on where it ended, while another process writes.
//!
//! Owns where it goes on. What is found there is found as by any reader; what is no record yet may
//! become one, so the end is never called torn.

use std::io;

use super::{Current, Place, Reader, keep_from, segments};
use crate::disk::Disk;
use crate::item::ReadError;
use crate::scan::Scan;
use crate::segment::Identity;
use crate::source::Source;

impl<D: Disk> Reader<'_, D> {
    /// Makes a reader that can go on once more is written, also in later segments: after its last
    /// item call [`Self::refresh`], and iterate again. To be called before the first item.
    ///
    /// It tells what stands in the files, durable or not. Where a commit failed after that, records
    /// of the same sequences come once more, in a later epoch: the first ones never were.
    #[must_use]
    pub fn follow(mut self) -> Self {
        self.place = Some(Place::default());
        // What it is known to hold now says nothing of what comes.
        self.known = 0;
        self
    }

    /// Looks for more behind the last item; does nothing before that, nor when this reader does
    /// not follow. After an error it is over: begin anew, from the sequence that comes next.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn refresh(&mut self) -> Result<(), ReadError> {
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
        // What was given away meanwhile is not missing.
        self.keep_from = self.keep_from.max(keep_from(self.disk, &names)?.0);
        names.retain(|name| Some(*name) > place.passed);
        self.names = names.into();
        self.resume()
    }

    /// Goes on in the last segment. Those behind it were listed before: what stands in it when the
    /// next one is there is all that ever will.
    pub(super) fn resume(&mut self) -> Result<(), ReadError> {
        let Some(Place { identity: Some(identity), offset, .. }) = self.place else {
            return Ok(());
        };
        while !self.listed.iter().any(|listed| listed.trusted) && self.list()? {}
        let limit =
            self.listed.iter().find(|later| later.trusted).map(|later| later.identity.first);
        match Source::open(self.disk, identity, self.window_bytes) {
            Err(error) if error.is_not_found() => self.next = None,
            source => {
                let source = source?;
                // A file that was gone may be there again, begun anew under the same name.
                let start = (offset, *self.next.get_or_insert(identity.first));
                let scan = Scan::starting_at(identity, source.length(), start);
                self.current = Some(Current { source, scan, limit, proven: None });
            }
        }
        Ok(())
    }

    /// Whether a file was cut while it was read, as a failed commit does, and reading goes on.
    pub(super) fn was_cut(&self, error: &ReadError) -> bool {
        let eof = io::ErrorKind::UnexpectedEof;
        self.place.is_some()
            && matches!(error, ReadError::Io { source, .. } if source.kind() == eof)
    }

    pub(super) fn passed(&mut self, identity: Identity) {
        if let Some(place) = &mut self.place {
            place.passed = place.passed.max(Some(identity));
        }
    }

    pub(super) fn came_to(&mut self, identity: Identity, offset: usize) {
        if let Some(place) = &mut self.place {
            (place.identity, place.offset) = (Some(identity), offset);
        }
    }
}
