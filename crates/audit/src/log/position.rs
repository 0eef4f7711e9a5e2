//! Positions of records in a log, and the visitor of records.

use std::fmt;
use std::ops::ControlFlow;

/// Identifies a record in a cluster, with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPosition {
    /// The node that wrote it.
    pub node: u32,
    /// The writer's epoch.
    pub epoch: u64,
    /// Its number: one more than that of the previous record.
    pub sequence: u64,
    /// The record's time in Unix milliseconds; for an auction, the arrival of its request.
    pub time_ms: u64,
}

impl fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, epoch, sequence, .. } = self;
        write!(f, "node {node}, epoch {epoch}, record {sequence}")
    }
}

/// Gets position, kind and payload of each record; may stop the walk.
pub type RecordVisitor<'v> = dyn FnMut(&RecordPosition, u8, &[u8]) -> ControlFlow<()> + 'v;
