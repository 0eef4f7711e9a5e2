//! Scans the frames of a segment from whatever part of it is in memory. Pure: it states which bytes
//! it needs next and is given them.

use std::ops::Range;

use crate::segment::{
    ALIGN, FRAME_BYTES, LogFrame, SegmentId, aligned, decode_frame, frames_at, payload_is_sound,
};

/// What a scan finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanItem {
    /// A sound record.
    Record(LogFrame),
    /// A record with a sound header and a damaged payload.
    BadPayload {
        /// Where it is.
        bytes: Range<usize>,
        /// Sequence of the record.
        sequence: u64,
    },
    /// Bytes that are not a frame.
    Garbage {
        /// Where they are.
        bytes: Range<usize>,
    },
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub struct ScanWindow<'a> {
    /// Its offset in the file.
    pub base: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> ScanWindow<'a> {
    fn slice(self, range: &Range<usize>) -> Option<&'a [u8]> {
        self.bytes.get(range.start.checked_sub(self.base)?..range.end.checked_sub(self.base)?)
    }
}

/// Result of a step of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// Something was found. The window holds all of a record.
    Found(ScanItem),
    /// The scan needs these bytes, at most a frame, all within the segment.
    Need(Range<usize>),
    /// The segment ends.
    End,
}

/// Scans the frames of a segment in linear time, whatever it contains.
#[derive(Clone, Debug)]
pub struct FrameScan {
    identity: SegmentId,
    /// Length of the segment.
    length: usize,
    /// Start of what has not been reported yet.
    start: usize,
    /// No frame begins between `start` and here.
    position: usize,
    /// Last sequence of a sound header.
    last: u64,
    /// End of that frame.
    last_end: usize,
}

impl FrameScan {
    /// Scans a segment of `length` bytes from `frames_at`, the offset of its first frame: see
    /// [`frames_at`].
    pub fn new(identity: SegmentId, length: usize, frames_at: usize) -> Self {
        Self::starting_at(identity, length, frames_at, identity.first)
    }

    /// Scans from the frame at `offset`, expected to be that of `sequence`.
    pub(crate) fn starting_at(
        identity: SegmentId,
        length: usize,
        offset: usize,
        sequence: u64,
    ) -> Self {
        let last = sequence.saturating_sub(1);
        Self { identity, length, start: offset, position: offset, last, last_end: offset }
    }

    /// Scans a segment that is in memory as a whole.
    pub fn whole(identity: SegmentId, bytes: &[u8]) -> impl Iterator<Item = ScanItem> {
        let mut scan = Self::new(identity, bytes.len(), frames_at(bytes, identity));
        std::iter::from_fn(move || match scan.next(ScanWindow { base: 0, bytes }) {
            ScanStep::Found(found) => Some(found),
            ScanStep::Need(_) | ScanStep::End => None,
        })
    }

    /// The next step, within `window`.
    pub fn next(&mut self, window: ScanWindow<'_>) -> ScanStep {
        while self.position < self.length {
            let header = self.position..self.position + FRAME_BYTES;
            if header.end > self.length {
                self.position = self.length;
                break;
            }
            let Some(bytes) = window.slice(&header) else { return ScanStep::Need(header) };
            let bytes = bytes.first_chunk().expect("as long as a frame's header");
            let Some(frame) = self.frame(bytes) else {
                self.position = (self.position + ALIGN).min(self.length);
                continue;
            };
            if self.start < self.position {
                return self.garbage();
            }
            let whole = frame.offset..frame.payload.end;
            let Some(whole) = window.slice(&whole) else { return ScanStep::Need(whole) };
            return ScanStep::Found(
                self.step_over(frame, payload_is_sound(bytes, &whole[FRAME_BYTES..])),
            );
        }
        if self.start < self.position { self.garbage() } else { ScanStep::End }
    }

    fn garbage(&mut self) -> ScanStep {
        let bytes = self.start..self.position;
        self.start = self.position;
        ScanStep::Found(ScanItem::Garbage { bytes })
    }

    fn step_over(&mut self, frame: LogFrame, sound: bool) -> ScanItem {
        let end = aligned(frame.payload.end).min(self.length);
        (self.start, self.position, self.last_end) = (end, end, end);
        self.last = frame.sequence;
        if sound {
            ScanItem::Record(frame)
        } else {
            ScanItem::BadPayload { bytes: frame.offset..end, sequence: frame.sequence }
        }
    }

    /// The frame at the position, if its header is sound and plausible there.
    fn frame(&self, header: &[u8; FRAME_BYTES]) -> Option<LogFrame> {
        let frame = decode_frame(self.identity, self.position, self.length, header)?;
        // No more records can be missing than fit into the skipped bytes.
        let skipped = (self.position - self.last_end) / FRAME_BYTES;
        let ahead = frame.sequence.checked_sub(self.last)?;
        (ahead >= 1 && ahead - 1 <= skipped as u64).then_some(frame)
    }
}
