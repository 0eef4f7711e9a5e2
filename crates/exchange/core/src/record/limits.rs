//! Limits of a record.

/// Longest id in a record, in bytes; longer ones are truncated.
pub const ID_BYTES_MAX: usize = 256;

/// Most bids in a record that can be recomputed.
pub const BIDS_MAX: usize = 1 << 16;
