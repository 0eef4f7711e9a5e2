//! The newest record of a sort, looked for from the end of the log, and where the oldest may stand:
//! for who starts by them.
//!
//! Owns which segments are read for that. What is in them is the reader's to tell.

use super::{Reader, segments};
use crate::disk::Disk;
use crate::index::Index;
use crate::item::{Item, ReadError, Record};
use crate::segment::Identity;

/// Of the records of `kind`, what `pick` makes of the newest one of which it makes anything. Reads
/// segments from the newest back, no more of them than it has to, and passes over those whose index
/// counts no record of the kind; damage is passed over too. To be called by the log's writer before
/// it writes, or by a reader for whom something older does as well.
///
/// # Errors
/// A segment cannot be read, or is of a later release.
pub fn newest<D: Disk, T>(
    disk: &D,
    kind: u8,
    mut pick: impl FnMut(Record) -> Option<T>,
) -> Result<Option<T>, ReadError> {
    // All from here on was looked at.
    let mut end = None;
    for identity in segments(disk)?.into_iter().rev() {
        // One that another overrules from its beginning holds nothing.
        if end.is_some_and(|end| identity.first >= end) {
            continue;
        }
        if !end.is_some_and(|end| lacks(disk, identity, end, kind)) {
            let mut found = None;
            for item in Reader::new(disk)?.seek(identity.first)? {
                let Item::Record(record) = item? else { continue };
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

/// A sequence before which no record of `kind` stands, as indexes of segments say it; 0 of an empty
/// log.
///
/// # Errors
/// The directory cannot be listed.
pub fn begins<D: Disk>(disk: &D, kind: u8) -> Result<u64, ReadError> {
    let names = segments(disk)?;
    let lacks = |pair: &&[Identity]| lacks(disk, pair[0], pair[1].first, kind);
    let passed = names.windows(2).take_while(lacks).count();
    Ok(names.get(passed).map_or(0, |identity| identity.first))
}

/// Whether a sealed segment's index, which counts all of its records, counts none of `kind`.
fn lacks<D: Disk>(disk: &D, identity: Identity, end: u64, kind: u8) -> bool {
    Index::read(disk, identity)
        .is_some_and(|index| index.last + 1 == end && !index.kinds.contains_key(&kind))
}
