//! Walks the frames of a segment, from whatever part of it is in memory.
//!
//! Pure: it says which bytes it needs next and is shown them. Knows no file.

use std::ops::Range;

use crate::segment::{
    ALIGN, FRAME_BYTES, Frame, Identity, aligned, decode_frame, frames_at, payload_is_sound,
};

/// What a scan comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A sound record.
    Record(Frame),
    /// A record that is what its header says, but for its payload.
    BadPayload {
        /// The bytes it takes.
        bytes: Range<usize>,
        /// Which record is lost.
        sequence: u64,
    },
    /// Bytes that are no frame.
    Garbage {
        /// Which.
        bytes: Range<usize>,
    },
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Where it begins in the file.
    pub base: usize,
    /// What stands there.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    fn slice(self, range: &Range<usize>) -> Option<&'a [u8]> {
        self.bytes.get(range.start.checked_sub(self.base)?..range.end.checked_sub(self.base)?)
    }
}

/// How far a scan came with what it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next thing. The window holds all of a record.
    Found(Found),
    /// It goes on once it is shown these bytes, at most a frame of them, all within the segment.
    Need(Range<usize>),
    /// The segment is over.
    End,
}

/// Walks the frames of a segment: linear in its length whatever it holds.
#[derive(Clone, Debug)]
pub struct Scan {
    identity: Identity,
    /// Bytes of the whole segment.
    length: usize,
    /// What was not told yet begins here.
    start: usize,
    /// No frame begins between `start` and here.
    position: usize,
    /// Last sequence that was told by a sound header.
    last: u64,
    /// Where `last` ended.
    last_end: usize,
}

impl Scan {
    /// Over the frames of a segment of `length` bytes, of which the first stands at `frames_at`: see
    /// [`frames_at`].
    pub fn new(identity: Identity, length: usize, frames_at: usize) -> Self {
        Self::starting_at(identity, length, (frames_at, identity.first))
    }

    /// From the frame at an offset on, which should be that of `sequence`.
    pub(crate) fn starting_at(
        identity: Identity,
        length: usize,
        (offset, sequence): (usize, u64),
    ) -> Self {
        let last = sequence.saturating_sub(1);
        Self { identity, length, start: offset, position: offset, last, last_end: offset }
    }

    /// Everything in a segment that is in memory as a whole.
    pub fn whole(identity: Identity, bytes: &[u8]) -> impl Iterator<Item = Found> {
        let mut scan = Self::new(identity, bytes.len(), frames_at(bytes, identity));
        std::iter::from_fn(move || match scan.next(Window { base: 0, bytes }) {
            Step::Found(found) => Some(found),
            Step::Need(_) | Step::End => None,
        })
    }

    /// The next thing, looked for in `window`.
    pub fn next(&mut self, window: Window<'_>) -> Step {
        while self.position < self.length {
            let header = self.position..self.position + FRAME_BYTES;
            if header.end > self.length {
                self.position = self.length;
                break;
            }
            let Some(bytes) = window.slice(&header) else { return Step::Need(header) };
            let bytes = bytes.first_chunk().expect("as long as a frame's header");
            let Some(frame) = self.frame(bytes) else {
                self.position = (self.position + ALIGN).min(self.length);
                continue;
            };
            if self.start < self.position {
                return self.garbage();
            }
            let whole = frame.offset..frame.payload.end;
            let Some(whole) = window.slice(&whole) else { return Step::Need(whole) };
            return Step::Found(
                self.step_over(frame, payload_is_sound(bytes, &whole[FRAME_BYTES..])),
            );
        }
        if self.start < self.position { self.garbage() } else { Step::End }
    }

    fn garbage(&mut self) -> Step {
        let bytes = self.start..self.position;
        self.start = self.position;
        Step::Found(Found::Garbage { bytes })
    }

    fn step_over(&mut self, frame: Frame, sound: bool) -> Found {
        let end = aligned(frame.payload.end).min(self.length);
        (self.start, self.position, self.last_end) = (end, end, end);
        self.last = frame.sequence;
        if sound {
            Found::Record(frame)
        } else {
            Found::BadPayload { bytes: frame.offset..end, sequence: frame.sequence }
        }
    }

    /// The frame at the position, when its header is sound and it can stand there.
    fn frame(&self, header: &[u8; FRAME_BYTES]) -> Option<Frame> {
        let frame = decode_frame((self.identity, self.position), self.length, header)?;
        // As many records may be missing as could have stood in the bytes that were skipped.
        let skipped = (self.position - self.last_end) / FRAME_BYTES;
        let ahead = frame.sequence.checked_sub(self.last)?;
        (ahead >= 1 && ahead - 1 <= skipped as u64).then_some(frame)
    }
}
