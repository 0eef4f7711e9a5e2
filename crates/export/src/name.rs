//! What files are called: within an hour by node, epoch and the sequence of their first row, so
//! that those of several nodes, and of one export after another, never meet.
//!
//! | path below the folder | what |
//! |---|---|
//! | `hour=2026-11-22T08/node-007-epoch-000003-from-000000001234.parquet` | complete rows |
//! | `_export-node-007/state.json` | how far node 7 is exported |
//! | `_export-node-007/lock` | held while an export of node 7 runs |
//! | `_export-node-007/*.tmp` | files under way |
//!
//! What begins with `_` is not looked at by those who read a folder of partitions.

use serde::{Deserialize, Serialize};

use crate::hour::Hour;
use crate::item::Position;
use crate::options::Format;

/// The version of the state that is written, and the only one that is read.
pub const STATE_VERSION: u32 = 1;

const DESK_PREFIX: &str = "_export-node-";
/// What a file is called besides until it is complete.
pub(crate) const UNFINISHED: &str = ".tmp";

/// One file of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileId {
    /// Of all its rows.
    pub hour: Hour,
    /// Of its first row.
    pub epoch: u64,
    /// Of its first row.
    pub first: u64,
}

impl FileId {
    /// Where it stands once it is complete.
    pub(crate) fn path(self, node: u32, format: Format) -> String {
        format!("{}/{}", self.hour.folder(), file_name(node, self.epoch, self.first, format))
    }

    /// Where it stands until then.
    pub(crate) fn unfinished(self, node: u32, format: Format) -> String {
        let name = file_name(node, self.epoch, self.first, format);
        format!("{}/{name}{UNFINISHED}", desk(node))
    }
}

fn file_name(node: u32, epoch: u64, first: u64, format: Format) -> String {
    format!("node-{node:03}-epoch-{epoch:06}-from-{first:012}.{}", format.extension())
}

/// The node that wrote a file and the place of its first row; `None` of one that is not ours.
pub(crate) fn written_by(name: &str) -> Option<(u32, Position)> {
    let (stem, extension) = name.split_once('.')?;
    let format = Format::ALL.into_iter().find(|format| format.extension() == extension)?;
    let (node, rest) = stem.strip_prefix("node-")?.split_once("-epoch-")?;
    let (epoch, first) = rest.split_once("-from-")?;
    let (node, epoch, first) = (node.parse().ok()?, epoch.parse().ok()?, first.parse().ok()?);
    let place = Position { epoch, sequence: first };
    (file_name(node, epoch, first, format) == name).then_some((node, place))
}

/// Where an export of a node keeps what is under way, and what it must remember.
pub(crate) fn desk(node: u32) -> String {
    format!("{DESK_PREFIX}{node:03}")
}

/// The node whose desk it is.
pub(crate) fn desk_of(name: &str) -> Option<u32> {
    let node = name.strip_prefix(DESK_PREFIX)?.parse().ok()?;
    (desk(node) == name).then_some(node)
}

/// Of a node: what its export must remember.
pub(crate) fn state(node: u32) -> String {
    format!("{}/state.json", desk(node))
}

/// Of a node: held while its export runs.
pub(crate) fn lock(node: u32) -> String {
    format!("{}/lock", desk(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_wrote_them_and_from_where() {
        let id = FileId { hour: Hour::of_unix_us(1_795_334_400_000_000), epoch: 3, first: 1234 };
        let path = id.path(7, Format::Parquet);
        assert_eq!(path, "hour=2026-11-22T08/node-007-epoch-000003-from-000000001234.parquet");
        let unfinished = id.unfinished(7, Format::Parquet);
        assert_eq!(
            unfinished,
            "_export-node-007/node-007-epoch-000003-from-000000001234.parquet.tmp"
        );
        let name = |path: &str| path.rsplit_once('/').map(|(_, name)| name.to_owned()).unwrap();
        assert_eq!(written_by(&name(&path)), Some((7, Position { epoch: 3, sequence: 1234 })));
        assert_eq!(written_by(&name(&unfinished)), None);

        let largest = FileId { hour: id.hour, epoch: u64::MAX, first: u64::MAX };
        let path = largest.path(u32::MAX, Format::Jsonl);
        assert_eq!(
            written_by(&name(&path)),
            Some((u32::MAX, Position { epoch: u64::MAX, sequence: u64::MAX }))
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
        assert_eq!(desk_of("_export-node-007"), Some(7));
        assert_eq!(desk_of("_export-node-7"), None);
        assert_eq!(desk_of("hour=2026-11-22T08"), None);
    }
}
