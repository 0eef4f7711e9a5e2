//! Reads a segment's file through a window, so that memory does not grow with the segment.

use std::io;
use std::ops::Range;

use crate::chain::{ChainHash, SegmentHasher};
use crate::disk::{Disk, DiskFile};
use crate::item::LogReadError;
use crate::scan::{FrameScan, ScanItem, ScanStep, ScanWindow};
use crate::segment::{
    FORMAT_VERSION, FRAME_BYTES, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX, SEGMENT_BYTES_LIMIT,
    SegmentId, frames_at, read_header,
};

/// Default size of the window.
pub const WINDOW_BYTES: usize = 4 << 20;

const _: () = assert!(FRAME_BYTES + PAYLOAD_BYTES_MAX <= WINDOW_BYTES, "a frame fits the window");

/// A segment that is read. Holds `window_bytes` of it, or one frame if that is longer.
pub(crate) struct SegmentSource<F> {
    file: F,
    identity: SegmentId,
    length: usize,
    window_bytes: usize,
    base: usize,
    /// The first `held` bytes are those of the file at `base`.
    window: Vec<u8>,
    held: usize,
}

impl<F: DiskFile> SegmentSource<F> {
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        identity: SegmentId,
        window_bytes: usize,
    ) -> Result<Self, LogReadError> {
        let opened = disk.open(&identity.file_name()).and_then(|file| Ok((file.len()?, file)));
        let (length, file) = opened.map_err(failed(identity))?;
        let known = usize::try_from(length).ok().filter(|_| length <= SEGMENT_BYTES_LIMIT);
        let length = known.ok_or_else(|| failed(identity)(io::ErrorKind::FileTooLarge.into()))?;
        Ok(Self { file, identity, length, window_bytes, base: 0, window: Vec::new(), held: 0 })
    }

    pub fn identity(&self) -> SegmentId {
        self.identity
    }

    /// Length of the file when it was opened.
    pub fn length(&self) -> usize {
        self.length
    }

    pub fn header(&self) -> Result<Header, LogReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let bytes = &mut bytes[..self.length.min(HEADER_BYTES)];
        self.fill(0, bytes)?;
        match read_header(bytes, self.identity) {
            Header::Version(version) => {
                let (name, known) = (self.identity.file_name(), FORMAT_VERSION);
                Err(LogReadError::Version { name, version, known })
            }
            header => Ok(header),
        }
    }

    /// Offset of the first frame.
    pub fn frames_at(&self) -> Result<usize, LogReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let bytes = &mut bytes[..self.length.min(HEADER_BYTES)];
        self.fill(0, bytes)?;
        Ok(frames_at(bytes, self.identity))
    }

    /// The hash of the segment up to `end`.
    pub fn hash(&mut self, end: usize) -> Result<ChainHash, LogReadError> {
        let (mut hasher, mut header) = (SegmentHasher::default(), [0; HEADER_BYTES]);
        // Read separately: the window may hold everything that follows.
        let mut at = self.frames_at()?.min(end);
        self.fill(0, &mut header[..at])?;
        hasher.update(&header[..at]);
        let step = self.window_bytes.clamp(1, WINDOW_BYTES);
        while at < end {
            let piece = at..end.min(at + step);
            at = piece.end;
            self.hold(piece.clone())?;
            hasher.update(self.held(&piece));
        }
        Ok(hasher.hash())
    }

    /// The bytes at any `offset`, without the window. None beyond the end.
    pub fn exactly<const N: usize>(&self, offset: usize) -> Result<Option<[u8; N]>, LogReadError> {
        if offset.checked_add(N).is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.fill(offset, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// The next thing that `scan` finds.
    pub fn next(&mut self, scan: &mut FrameScan) -> Result<Option<ScanItem>, LogReadError> {
        loop {
            match scan.next(ScanWindow { base: self.base, bytes: &self.window[..self.held] }) {
                ScanStep::Found(found) => return Ok(Some(found)),
                ScanStep::Need(range) => self.hold(range)?,
                ScanStep::End => return Ok(None),
            }
        }
    }

    /// The bytes of a range that the window holds, such as a frame just found.
    pub fn held(&self, range: &Range<usize>) -> &[u8] {
        &self.window[..self.held][range.start - self.base..range.end - self.base]
    }

    /// Moves the window to hold `range`, which lies within the segment.
    pub fn hold(&mut self, range: Range<usize>) -> Result<(), LogReadError> {
        let end = self.base + self.held;
        if self.base <= range.start && range.end <= end {
            return Ok(());
        }
        let kept = if self.base <= range.start && range.start < end {
            self.window.copy_within(range.start - self.base..self.held, 0);
            end - range.start
        } else {
            0
        };
        self.base = range.start;
        let wanted = range.len().max(self.window_bytes).min(self.length - self.base);
        let kept = kept.min(wanted);
        let mut window = std::mem::take(&mut self.window);
        // Not cleared: bytes beyond `held` are never read.
        if window.len() < wanted {
            // The system zeroes it, page by page as it is used.
            let longer = vec![0; wanted];
            let shorter = std::mem::replace(&mut window, longer);
            window[..kept].copy_from_slice(&shorter[..kept]);
        }
        self.held = 0;
        let filled = if kept < wanted {
            self.fill(self.base + kept, &mut window[kept..wanted])
        } else {
            Ok(())
        };
        self.window = window;
        if filled.is_ok() {
            self.held = wanted;
        }
        filled
    }

    /// A copy of a range, from the window if it still holds it.
    pub fn reread(&mut self, range: Range<usize>) -> io::Result<Vec<u8>> {
        match self.hold(range.clone()) {
            Ok(()) => Ok(self.held(&range).to_vec()),
            Err(LogReadError::Io { source, .. }) => Err(source),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    /// Truncates the file to `length`.
    pub fn truncate(&mut self, length: usize) -> io::Result<()> {
        self.file.truncate(length as u64)?;
        self.length = length;
        self.held = self.held.min(length.saturating_sub(self.base));
        Ok(())
    }

    /// The file, to write to it.
    pub fn file(&mut self) -> &mut F {
        &mut self.file
    }

    fn fill(&self, offset: usize, bytes: &mut [u8]) -> Result<(), LogReadError> {
        let mut done = 0;
        while done < bytes.len() {
            let read = self.file.read_at((offset + done) as u64, &mut bytes[done..]);
            match read.map_err(failed(self.identity))? {
                // The file was truncated since it was opened.
                0 => return Err(failed(self.identity)(io::ErrorKind::UnexpectedEof.into())),
                more => done += more,
            }
        }
        Ok(())
    }
}

fn failed(identity: SegmentId) -> impl Fn(io::Error) -> LogReadError {
    move |source| LogReadError::Io { name: identity.file_name(), source }
}
