//! Finds the newest record of a kind from the end of the log, and where the oldest can be.

use super::{LogReader, segments};
use crate::disk::Disk;
use crate::index::SegmentIndex;
use crate::item::{LogEntry, LogReadError, LogRecord};
use crate::segment::SegmentId;

/// Applies `pick` to records of `kind`, and returns its newest result. Reads as few segments as
/// possible, from the newest back, skipping those whose index counts no such record; damage is
/// skipped too. While another process writes, the result may be out of date.
pub fn newest<D: Disk, T>(
    disk: &D,
    kind: u8,
    mut pick: impl FnMut(LogRecord) -> Option<T>,
) -> Result<Option<T>, LogReadError> {
    // All later sequences have been searched.
    let mut end = None;
    for identity in segments(disk)?.into_iter().rev() {
        // A segment that is overruled from its beginning holds nothing.
        if end.is_some_and(|end| identity.first >= end) {
            continue;
        }
        if !end.is_some_and(|end| lacks(disk, identity, end, kind, 0)) {
            let mut found = None;
            for item in LogReader::new(disk)?.seek(identity.first)? {
                let LogEntry::Record(record) = item? else { continue };
                let sequence = record.sequence;
                if end.is_some_and(|end| sequence >= end) {
                    break;
                }
                if record.kind == kind {
                    found = pick(record).or(found);
                }
                if Some(sequence + 1) == end {
                    break;
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        end = Some(identity.first);
    }
    Ok(None)
}

/// A sequence before which there is no record of `kind`, according to the indexes; 0 if the log is
/// empty.
pub fn begins<D: Disk>(disk: &D, kind: u8) -> Result<u64, LogReadError> {
    begins_since(disk, kind, 0)
}

/// A sequence before which there is no record of `kind` of this time or later, in Unix milliseconds,
/// according to the indexes; 0 if the log is empty.
pub fn begins_since<D: Disk>(disk: &D, kind: u8, since_ms: u64) -> Result<u64, LogReadError> {
    let names = segments(disk)?;
    let lacks = |pair: &&[SegmentId]| lacks(disk, pair[0], pair[1].first, kind, since_ms);
    let passed = names.windows(2).take_while(lacks).count();
    Ok(names.get(passed).map_or(0, |identity| identity.first))
}

/// Whether the complete index of a sealed segment counts no record of `kind` from a time on.
fn lacks<D: Disk>(disk: &D, identity: SegmentId, end: u64, kind: u8, since_ms: u64) -> bool {
    SegmentIndex::read(disk, identity).is_some_and(|index| {
        index.last + 1 == end && (index.max_time_ms < since_ms || !index.kinds.contains_key(&kind))
    })
}
