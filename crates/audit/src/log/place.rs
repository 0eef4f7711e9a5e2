//! Where a record stands in its log. Knows nothing of what it says.

use std::fmt;
use std::ops::ControlFlow;

/// A record, by what names it among all that a cluster ever wrote, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Which node wrote it.
    pub node: u32,
    /// Which start of that node.
    pub epoch: u64,
    /// Its number; one more than that of the record before.
    pub sequence: u64,
    /// The record's own time, in milliseconds of Unix time: of an auction, when its request came.
    pub time_ms: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, epoch, sequence, .. } = self;
        write!(f, "node {node}, epoch {epoch}, record {sequence}")
    }
}

/// Who is told of records, one by one; breaking ends the walk.
pub type Visit<'v> = dyn FnMut(&Place, u8, &[u8]) -> ControlFlow<()> + 'v;
