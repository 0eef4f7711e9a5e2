//! What the durable lane says of the firehose: how far it was durable. After a crash that bounds what
//! may be missing.
//!
//! Owns when that is due. Its bytes are its owner's, who knows what records are.

use std::time::Duration;

use super::GapFormat;
use super::keeper::Next;

/// How soon after one the next may follow.
pub(super) const WATERMARK_EVERY: Duration = Duration::from_secs(1);

/// Every sequence of the firehose up to here was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// Of the last record.
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
    /// From its payload. None if that is none.
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
    /// What the last durable watermark says.
    told: u64,
    /// What that in the batch says.
    taken: u64,
    due_at: Duration,
}

impl Watermarks {
    /// Of a firehose that is so far.
    pub fn new(format: WatermarkFormat, reached: Watermark) -> Self {
        Self { format, reached, told: reached.sequence, taken: 0, due_at: Duration::ZERO }
    }

    pub fn reach(&mut self, reached: Watermark) {
        self.reached = reached;
    }

    /// Whether the firehose has grown since the last.
    pub fn is_owed(&self) -> bool {
        self.reached.sequence > self.told
    }

    /// When the next is due.
    pub fn due(&self) -> Next {
        if self.is_owed() { Next::At(self.due_at) } else { Next::Woken }
    }

    /// What to write now, in a commit that is due anyway or is due for this.
    pub fn due_now(&self, now: Duration, is_closing: bool) -> Option<Watermark> {
        let is_due = self.is_owed() && (is_closing || now >= self.due_at);
        is_due.then_some(self.reached)
    }

    /// What was taken stands in the batch.
    pub fn taken(&mut self, watermark: Watermark) {
        self.taken = watermark.sequence;
    }

    pub fn committed(&mut self, now: Duration) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            (self.told, self.due_at) = (taken, now + WATERMARK_EVERY);
        }
    }

    pub fn lost(&mut self) {
        self.taken = 0;
    }
}
