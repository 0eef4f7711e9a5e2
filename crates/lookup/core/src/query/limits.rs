//! How large queries may be.

/// How large queries may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Bytes of a query.
    pub bytes_max: usize,
    /// Values of a list, items of a `grep`, and aggregates.
    pub values_max: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self { bytes_max: 256 << 10, values_max: 1000 }
    }
}
