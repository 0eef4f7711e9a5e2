//! What the firehose says about records that are not there.
//!
//! Owns which records a gap is about. Its bytes are its owner's, who knows what records are.

/// Records of one ring that were offered and are not in the log, at the place where they are
/// missing: as many as came since the record of that ring before this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The ring's number, as its owner gave it.
    pub shard: u32,
    /// How many.
    pub lost: u64,
    /// The earliest time of any of them, in Unix milliseconds; it may be somewhat earlier where a
    /// gap before this one told of the same shortage.
    pub since_ms: u64,
    /// The latest.
    pub through_ms: u64,
}

/// How a gap stands in the log.
#[derive(Clone, Copy, Debug)]
pub struct GapFormat {
    /// The kind of its record, which is no other's.
    pub kind: u8,
    /// Appends its payload.
    pub encode: fn(&Gap, &mut Vec<u8>),
}

/// Some records, and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub records: u64,
    pub since_ms: u64,
    pub through_ms: u64,
}

impl Span {
    /// A single record.
    pub const fn one(time_ms: u64) -> Self {
        Self { records: 1, since_ms: time_ms, through_ms: time_ms }
    }

    /// These and others.
    pub fn add(&mut self, more: Self) {
        if self.records == 0 {
            *self = more;
        } else if more.records > 0 {
            self.records += more.records;
            self.since_ms = self.since_ms.min(more.since_ms);
            self.through_ms = self.through_ms.max(more.through_ms);
        }
    }

    pub const fn gap(self, shard: u32) -> Gap {
        let Self { records: lost, since_ms, through_ms } = self;
        Gap { shard, lost, since_ms, through_ms }
    }
}
