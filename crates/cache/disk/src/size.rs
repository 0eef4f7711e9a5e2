//! How large the log may be, and its segments.

use crate::format::{
    RECORD_HEADER_BYTES, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES, SUMMARY_LINE_BYTES, TRAILER_BYTES,
};

/// Segments of a full log, at least.
const SEGMENTS_MIN: u64 = 16;

/// Segments beside those that a full log has.
const SEGMENTS_PARTLY_FULL: usize = 16;

/// How large the log may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSize {
    /// All segments together.
    pub bytes_max: u64,
    /// One of them.
    pub segment_bytes: u64,
    /// How many there may be. Those that a killed process or a failing disk left are not full.
    pub segments_max: usize,
}

impl LogSize {
    pub(crate) fn of(bytes_max: u64) -> Self {
        let segment_bytes = (bytes_max / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
        let full = usize::try_from(bytes_max / segment_bytes).unwrap_or(usize::MAX);
        Self { bytes_max, segment_bytes, segments_max: full.saturating_add(SEGMENTS_PARTLY_FULL) }
    }

    /// The longest payload.
    pub(crate) const fn payload_max(self) -> u64 {
        let overhead =
            SEGMENT_HEADER_BYTES + 2 * RECORD_HEADER_BYTES + SUMMARY_LINE_BYTES + TRAILER_BYTES;
        self.segment_bytes - overhead as u64
    }
}
