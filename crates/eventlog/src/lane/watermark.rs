//! Watermarks: records in the durable lane that state how far the firehose was durable. After a
//! crash they bound what may be missing. Their encoding is the caller's.

use std::time::Duration;

use super::GapFormat;
use super::schedule::NextStep;

/// Shortest time between two watermarks.
pub(super) const WATERMARK_EVERY: Duration = Duration::from_secs(1);

/// A point up to which every sequence of the firehose was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneWatermark {
    /// The firehose's epoch.
    pub epoch: u64,
    /// The last durable record; 0 before the first.
    pub sequence: u64,
}

/// How a watermark is encoded.
#[derive(Clone, Copy, Debug)]
pub struct WatermarkFormat {
    /// The record kind reserved for watermarks.
    pub kind: u8,
    /// Appends its payload.
    pub encode: fn(&LaneWatermark, &mut Vec<u8>),
    /// Decodes a payload. None if it is not a watermark.
    pub decode: fn(&[u8]) -> Option<LaneWatermark>,
}

/// How the log's own records are encoded.
#[derive(Clone, Copy, Debug)]
pub struct LaneFormats {
    /// Gaps of the firehose.
    pub gaps: GapFormat,
    /// Watermarks in the durable lane. None writes no watermarks.
    pub watermarks: Option<WatermarkFormat>,
}

impl From<GapFormat> for LaneFormats {
    fn from(gaps: GapFormat) -> Self {
        Self { gaps, watermarks: None }
    }
}

/// Decides when the durable lane writes a watermark.
pub(super) struct WatermarkSchedule {
    pub format: WatermarkFormat,
    reached: LaneWatermark,
    /// Sequence of the last durable watermark.
    durable_mark: u64,
    /// Sequence of the watermark in the batch; 0 if the batch has no watermark.
    pending_mark: u64,
    due_at: Duration,
}

impl WatermarkSchedule {
    pub fn new(format: WatermarkFormat, reached: LaneWatermark) -> Self {
        Self {
            format,
            reached,
            durable_mark: reached.sequence,
            pending_mark: 0,
            due_at: Duration::ZERO,
        }
    }

    pub fn update(&mut self, reached: LaneWatermark) {
        self.reached = reached;
    }

    /// Whether the firehose has grown since the last watermark.
    pub fn has_grown(&self) -> bool {
        self.reached.sequence > self.durable_mark
    }

    pub fn due(&self) -> NextStep {
        if self.has_grown() { NextStep::At(self.due_at) } else { NextStep::Woken }
    }

    /// The watermark to write now, if one is due.
    pub fn due_now(&self, now: Duration, is_closing: bool) -> Option<LaneWatermark> {
        let is_due = self.has_grown() && (is_closing || now >= self.due_at);
        is_due.then_some(self.reached)
    }

    /// The watermark is in the batch.
    pub fn set_pending(&mut self, watermark: LaneWatermark) {
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
