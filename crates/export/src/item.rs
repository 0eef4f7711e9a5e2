//! What an export reads from a log: records with and without a row.

use serde::{Deserialize, Serialize};

/// Position of a record in a node's log. Epochs never decrease along a log, and sequences increase
/// within one. A new epoch may begin before the end of the previous one: records that were not
/// synced before a crash are lost, and their sequences reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPosition {
    /// Epoch of the node.
    pub epoch: u64,
    /// Sequence of the record.
    pub sequence: u64,
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub enum ExportItem<R> {
    /// A record with a row.
    Row {
        /// Its position.
        place: LogPosition,
        /// Its time in Unix microseconds, which selects the hour.
        time_us: u64,
        /// Length of the record.
        bytes: usize,
        /// The row.
        row: R,
    },
    /// A record without a row.
    Passed(LogPosition),
    /// Records that were never written.
    Gap {
        /// Position of the gap.
        place: LogPosition,
        /// Number of missing records.
        records: u64,
    },
}
