//! How much an answer may contain.

/// How much an answer may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Records.
    pub records_max: usize,
    /// Fields, those that the map does not name included.
    pub fields_max: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { records_max: 1_000_000, fields_max: 1_000 }
    }
}
