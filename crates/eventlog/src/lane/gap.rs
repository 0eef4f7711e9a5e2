//! Gaps: the firehose's own records about records that are missing. Their encoding is the caller's.

/// Records of one ring that were offered and are not in the log. It stands where they are missing,
/// and counts those since the previous record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneGap {
    /// Number of the ring, given by its owner.
    pub shard: u32,
    /// Number of missing records.
    pub lost: u64,
    /// Their earliest time in Unix milliseconds. It may be somewhat too early if a previous gap
    /// covers the same shortage.
    pub since_ms: u64,
    /// Their latest time.
    pub through_ms: u64,
}

/// How a gap is encoded.
#[derive(Clone, Copy, Debug)]
pub struct GapFormat {
    /// The record kind reserved for gaps.
    pub kind: u8,
    /// Appends its payload.
    pub encode: fn(&LaneGap, &mut Vec<u8>),
}

/// A number of records and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordSpan {
    pub records: u64,
    pub since_ms: u64,
    pub through_ms: u64,
}

impl RecordSpan {
    pub const fn one(time_ms: u64) -> Self {
        Self { records: 1, since_ms: time_ms, through_ms: time_ms }
    }

    pub fn add(&mut self, more: Self) {
        if self.records == 0 {
            *self = more;
        } else if more.records > 0 {
            self.records += more.records;
            self.since_ms = self.since_ms.min(more.since_ms);
            self.through_ms = self.through_ms.max(more.through_ms);
        }
    }

    pub const fn gap(self, shard: u32) -> LaneGap {
        let Self { records: lost, since_ms, through_ms } = self;
        LaneGap { shard, lost, since_ms, through_ms }
    }
}
