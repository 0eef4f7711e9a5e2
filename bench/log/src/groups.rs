//! The bytes in a lane's segments, in the groups in which they were committed.
//!
//! A frame states how far the log was durable when it was appended, so frames of one group state
//! the same. Owns only that observation.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use eventlog::disk::DiskFolder;
use eventlog::{FrameScan, ScanItem, segments};

/// Bytes, and the bounds of their groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub bytes: Vec<u8>,
    pub groups: Vec<Range<usize>>,
    pub records: usize,
}

/// The records of the lane in `directory`, without the headers of its segments.
pub(crate) fn groups(directory: &Path) -> Result<Groups> {
    let mut all = Groups::default();
    for identity in segments(&DiskFolder::read_only(directory))? {
        let path = directory.join(identity.file_name());
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let mut of = None;
        for found in FrameScan::whole(identity, &bytes) {
            let ScanItem::Record(frame) = found else { continue };
            let frame_bytes = &bytes[frame.offset..frame.payload.end.next_multiple_of(4)];
            let begins = all.bytes.len();
            all.bytes.extend_from_slice(frame_bytes);
            all.records += 1;
            match all.groups.last_mut() {
                Some(group) if of == Some(frame.durable) => group.end = all.bytes.len(),
                _ => all.groups.push(begins..all.bytes.len()),
            }
            of = Some(frame.durable);
        }
    }
    Ok(all)
}
