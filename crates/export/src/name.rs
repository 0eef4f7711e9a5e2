//! Names of files: by hour, node, epoch and the sequence of the first row, so that files of
//! different nodes and successive exports never collide.
//!
//! | path below the folder | what |
//! |---|---|
//! | `hour=2026-11-22T08/node-007-epoch-000003-from-000000001234.parquet` | complete rows |
//! | `_export-node-007/state.json` | how far node 7 is exported |
//! | `_export-node-007/lock` | held while an export of node 7 runs |
//! | `_export-node-007/*.tmp` | files being written |
//!
//! Readers of partitioned folders ignore names that begin with `_`.

use serde::{Deserialize, Serialize};

use crate::hour::HourPartition;
use crate::item::LogPosition;
use crate::options::FileFormat;

/// The version of the state that is written, and the only one that is read.
pub const STATE_VERSION: u32 = 1;

const STATE_FOLDER_PREFIX: &str = "_export-node-";
/// Suffix of a file until it is complete.
pub(crate) const UNFINISHED: &str = ".tmp";

/// One file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileId {
    /// Hour of all its rows.
    pub hour: HourPartition,
    /// Epoch of its first row.
    pub epoch: u64,
    /// Sequence of its first row.
    pub first: u64,
}

impl FileId {
    /// Path of the complete file.
    pub(crate) fn path(self, node: u32, format: FileFormat) -> String {
        format!("{}/{}", self.hour.folder(), file_name(node, self.epoch, self.first, format))
    }

    /// Path of the file before that.
    pub(crate) fn unfinished(self, node: u32, format: FileFormat) -> String {
        let name = file_name(node, self.epoch, self.first, format);
        format!("{}/{name}{UNFINISHED}", state_folder(node))
    }
}

fn file_name(node: u32, epoch: u64, first: u64, format: FileFormat) -> String {
    format!("node-{node:03}-epoch-{epoch:06}-from-{first:012}.{}", format.extension())
}

/// The node that wrote a file, and the position of its first row. None if the name is not an
/// export's.
pub(crate) fn written_by(name: &str) -> Option<(u32, LogPosition)> {
    let (stem, extension) = name.split_once('.')?;
    let format = FileFormat::ALL.into_iter().find(|format| format.extension() == extension)?;
    let (node, rest) = stem.strip_prefix("node-")?.split_once("-epoch-")?;
    let (epoch, first) = rest.split_once("-from-")?;
    let (node, epoch, first) = (node.parse().ok()?, epoch.parse().ok()?, first.parse().ok()?);
    let place = LogPosition { epoch, sequence: first };
    (file_name(node, epoch, first, format) == name).then_some((node, place))
}

/// Folder of an export's state, lock and unfinished files.
pub(crate) fn state_folder(node: u32) -> String {
    format!("{STATE_FOLDER_PREFIX}{node:03}")
}

/// The node of a state folder.
pub(crate) fn node_of_state_folder(name: &str) -> Option<u32> {
    let node = name.strip_prefix(STATE_FOLDER_PREFIX)?.parse().ok()?;
    (state_folder(node) == name).then_some(node)
}

/// Path of a node's state file.
pub(crate) fn state(node: u32) -> String {
    format!("{}/state.json", state_folder(node))
}

/// Path of a node's lock.
pub(crate) fn lock(node: u32) -> String {
    format!("{}/lock", state_folder(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_wrote_them_and_from_where() {
        let id = FileId {
            hour: HourPartition::of_unix_us(1_795_334_400_000_000),
            epoch: 3,
            first: 1234,
        };
        let path = id.path(7, FileFormat::Parquet);
        assert_eq!(path, "hour=2026-11-22T08/node-007-epoch-000003-from-000000001234.parquet");
        let unfinished = id.unfinished(7, FileFormat::Parquet);
        assert_eq!(
            unfinished,
            "_export-node-007/node-007-epoch-000003-from-000000001234.parquet.tmp"
        );
        let name = |path: &str| path.rsplit_once('/').map(|(_, name)| name.to_owned()).unwrap();
        assert_eq!(written_by(&name(&path)), Some((7, LogPosition { epoch: 3, sequence: 1234 })));
        assert_eq!(written_by(&name(&unfinished)), None);

        let largest = FileId { hour: id.hour, epoch: u64::MAX, first: u64::MAX };
        let path = largest.path(u32::MAX, FileFormat::Jsonl);
        assert_eq!(
            written_by(&name(&path)),
            Some((u32::MAX, LogPosition { epoch: u64::MAX, sequence: u64::MAX }))
        );

        for foreign in [
            "notes.txt",
            "node-7-epoch-000003-from-000000001234.parquet",
            "node-007-epoch-000003-from-000000001234.csv",
            "node-007-epoch-000003.parquet",
            "node--07-epoch-000003-from-000000001234.parquet",
            "part-0.parquet",
        ] {
            assert_eq!(written_by(foreign), None, "{foreign}");
        }
        assert_eq!(node_of_state_folder("_export-node-007"), Some(7));
        assert_eq!(node_of_state_folder("_export-node-7"), None);
        assert_eq!(node_of_state_folder("hour=2026-11-22T08"), None);
    }
}
