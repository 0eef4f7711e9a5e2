//! Which segments a directory holds, by their names, and which of them are wanted.
//!
//! Knows nothing of what is in them but their headers.

use crate::disk::Disk;
use crate::item::ReadError;
use crate::segment::{Header, Identity};
use crate::source::Source;

/// Every segment in a directory, of whichever node, in order.
///
/// # Errors
/// [`ReadError::Io`] when it cannot be listed.
pub fn segments<D: Disk>(disk: &D) -> Result<Vec<Identity>, ReadError> {
    Ok(sorted(&list(disk)?, Identity::from_file_name))
}

pub(super) fn list<D: Disk>(disk: &D) -> Result<Vec<String>, ReadError> {
    disk.list().map_err(|source| ReadError::Io { name: disk.place(), source })
}

pub(super) fn sorted(listed: &[String], parse: impl Fn(&str) -> Option<Identity>) -> Vec<Identity> {
    let mut names: Vec<_> = listed.iter().filter_map(|name| parse(name)).collect();
    names.sort_unstable();
    names
}

/// What the newest sound header says is still wanted, and how many names there are up to it.
pub(super) fn keep_from<D: Disk>(disk: &D, names: &[Identity]) -> Result<(u64, usize), ReadError> {
    for (at, identity) in names.iter().enumerate().rev() {
        match Source::open(disk, *identity, 0).and_then(|source| source.header()) {
            Ok(Header::Good { keep_from, .. }) => return Ok((keep_from, at + 1)),
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(_) | Err(_) => (),
        }
    }
    Ok((0, 0))
}
