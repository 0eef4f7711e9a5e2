//! What an export reads: the records of a log that make rows, and those that make none.

use serde::{Deserialize, Serialize};

/// The place of a record in a node's log. Epochs never fall along a log, and within one sequences
/// grow. A new epoch may count from before the end of the last: what was not yet synced when the
/// machine went down is gone from the log, and its numbers are given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Which start of the node wrote it.
    pub epoch: u64,
    /// The number of the record.
    pub sequence: u64,
}

/// What stands at a place of the log.
#[derive(Clone, Debug)]
pub enum Item<R> {
    /// A record that makes a row.
    Row {
        /// Where it stands.
        place: Position,
        /// When it was, in microseconds of Unix time: it goes to the files of that hour.
        time_us: u64,
        /// How long the record is.
        bytes: usize,
        /// What is written.
        row: R,
    },
    /// A record that makes none.
    Passed(Position),
    /// Records that were never written.
    Gap {
        /// Where the log says so.
        place: Position,
        /// How many.
        records: u64,
    },
}
