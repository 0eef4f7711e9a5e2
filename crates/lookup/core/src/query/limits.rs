//! How large queries may be.

/// How large queries may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Bytes of a query.
    pub bytes_max: usize,
    /// Values of a list.
    pub values_max: usize,
    /// Fields, conditions, stages, and items of a stage.
    pub items_max: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self { bytes_max: 256 << 10, values_max: 1_000, items_max: 64 }
    }
}
