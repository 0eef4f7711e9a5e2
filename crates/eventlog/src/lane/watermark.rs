//! What the durable lane says of the firehose: how far it was durable. After a crash that bounds what
//! may be missing.
//!
//! Owns when that is due. Its bytes are its owner's, who knows what records are.

use std::time::Duration;

use super::GapFormat;
use super::schedule::Next;

/// How soon after one the next may follow.
pub(super) const WATERMARK_EVERY: Duration = Duration::from_secs(1);

/// Every sequence of the firehose up to here was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// The epoch in which the firehose is written.
    pub epoch: u64,
    /// The last record; 0 before the first.
    pub sequence: u64,
}

/// How a watermark stands in the log.
#[derive(Clone, Copy, Debug)]
pub struct WatermarkFormat {
    /// The kind of its record, which is no other's.
    pub kind: u8,
    /// Appends its payload.
    pub encode: fn(&Watermark, &mut Vec<u8>),
    /// Decodes a payload. None if it is not a watermark.
    pub decode: fn(&[u8]) -> Option<Watermark>,
}

/// How the log's own records stand in it.
#[derive(Clone, Copy, Debug)]
pub struct LaneFormats {
    /// Of the firehose.
    pub gaps: GapFormat,
    /// In the durable lane. None: it says nothing of the firehose.
    pub watermarks: Option<WatermarkFormat>,
}

impl From<GapFormat> for LaneFormats {
    fn from(gaps: GapFormat) -> Self {
        Self { gaps, watermarks: None }
    }
}

/// When the durable lane says how far the firehose is.
pub(super) struct Watermarks {
    pub format: WatermarkFormat,
    /// How far the firehose is.
    reached: Watermark,
    /// The sequence of the last durable watermark.
    durable_mark: u64,
    /// The sequence of the watermark in the batch; 0 if the batch has no watermark.
    pending_mark: u64,
    due_at: Duration,
}

impl Watermarks {
    /// Of a firehose that is so far.
    pub fn new(format: WatermarkFormat, reached: Watermark) -> Self {
        Self {
            format,
            reached,
            durable_mark: reached.sequence,
            pending_mark: 0,
            due_at: Duration::ZERO,
        }
    }

    pub fn reach(&mut self, reached: Watermark) {
        self.reached = reached;
    }

    /// Whether the firehose has grown since the last.
    pub fn has_news(&self) -> bool {
        self.reached.sequence > self.durable_mark
    }

    /// When the next is due.
    pub fn due(&self) -> Next {
        if self.has_news() { Next::At(self.due_at) } else { Next::Woken }
    }

    /// What to write now, in a commit that is due anyway or is due for this.
    pub fn due_now(&self, now: Duration, is_closing: bool) -> Option<Watermark> {
        let is_due = self.has_news() && (is_closing || now >= self.due_at);
        is_due.then_some(self.reached)
    }

    /// The watermark is in the batch.
    pub fn set_pending(&mut self, watermark: Watermark) {
        self.pending_mark = watermark.sequence;
    }

    pub fn committed(&mut self, now: Duration) {
        let pending = std::mem::take(&mut self.pending_mark);
        if pending > 0 {
            (self.durable_mark, self.due_at) = (pending, now + WATERMARK_EVERY);
        }
    }

    pub fn lost(&mut self) {
        self.pending_mark = 0;
    }
}
