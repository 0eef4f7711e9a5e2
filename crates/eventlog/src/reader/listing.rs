//! The segments of a directory, by name, and which of them are wanted, by header.

use crate::disk::Disk;
use crate::item::LogReadError;
use crate::segment::{Header, SegmentId};
use crate::source::SegmentSource;

/// All segments of a directory, of any node, in order.
pub fn segments<D: Disk>(disk: &D) -> Result<Vec<SegmentId>, LogReadError> {
    Ok(sorted(&list(disk)?, SegmentId::from_file_name))
}

pub(super) fn list<D: Disk>(disk: &D) -> Result<Vec<String>, LogReadError> {
    disk.list().map_err(|source| LogReadError::Io { name: disk.place(), source })
}

pub(super) fn sorted(
    listed: &[String],
    parse: impl Fn(&str) -> Option<SegmentId>,
) -> Vec<SegmentId> {
    let mut names: Vec<_> = listed.iter().filter_map(|name| parse(name)).collect();
    names.sort_unstable();
    names
}

/// What the newest sound header declares as still wanted, and the number of names up to it.
pub(super) fn keep_from<D: Disk>(
    disk: &D,
    names: &[SegmentId],
) -> Result<(u64, usize), LogReadError> {
    for (at, identity) in names.iter().enumerate().rev() {
        match SegmentSource::open(disk, *identity, 0).and_then(|source| source.header()) {
            Ok(Header::Good { keep_from, .. }) => return Ok((keep_from, at + 1)),
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(_) | Err(_) => (),
        }
    }
    Ok((0, 0))
}
