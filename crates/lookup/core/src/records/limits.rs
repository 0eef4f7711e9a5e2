//! How much an answer may contain.

/// How much an answer may contain, and all answers of a query together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Records.
    pub records_max: usize,
    /// Fields, those that the map does not name included.
    pub fields_max: usize,
    /// Values of all records together, those included that a record does not have.
    pub values_max: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { records_max: 1_000_000, fields_max: 1_000, values_max: 20_000_000 }
    }
}
