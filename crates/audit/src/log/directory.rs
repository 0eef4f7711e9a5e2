//! The directory of a record, with its durable lane and its lane of auctions, and the errors of a
//! wrong one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use eventlog::LogReadError;
use eventlog::disk::DiskFolder;
use eventlog::lane::{KnownReach, LaneKind, LaneWatermark};
use events::RecordKind;

use crate::log::lane::RecordedLane;

/// A record's directory, opened for reading.
#[derive(Clone, Debug)]
pub struct RecordDirectory {
    durable: DiskFolder,
    firehose: DiskFolder,
    path: PathBuf,
    /// How far the durable lane says the firehose was durable, once read.
    reach: OnceLock<Option<KnownReach>>,
}

/// Why a directory was not opened.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It does not exist or cannot be listed.
    #[error("{} cannot be read: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{} holds no record: the folders `durable` and `firehose` are not in it", .0.display())]
    Foreign(PathBuf),
    /// It is one of the lanes.
    #[error("{} is one lane of a record: name the directory that it is in, {}", .0.display(), .1.display())]
    OneLane(PathBuf, PathBuf),
    /// Nothing has been recorded there.
    #[error("{} is empty: nothing has been recorded there yet", .0.display())]
    Empty(PathBuf),
    /// Its files cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
}

impl DirectoryError {
    /// Whether the user should name another directory.
    pub const fn is_wrong_directory(&self) -> bool {
        matches!(self, Self::Foreign(_) | Self::OneLane(..))
    }
}

impl RecordDirectory {
    /// Opens the record at `path`, which may be empty.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
        let [durable, firehose] =
            [LaneKind::Durable, LaneKind::Firehose].map(|kind| path.join(kind.name()));
        if !durable.is_dir() && !firehose.is_dir() {
            let mut names = std::fs::read_dir(path).map_err(failed)?.filter_map(Result::ok);
            let is_lane = names.any(|entry| {
                let name = entry.file_name();
                name.to_str()
                    .is_some_and(|name| eventlog::SegmentId::from_file_name(name).is_some())
            });
            let path = path.to_owned();
            return Err(match path.parent() {
                Some(above) if is_lane => DirectoryError::OneLane(path.clone(), above.to_owned()),
                _ => DirectoryError::Foreign(path),
            });
        }
        let [durable, firehose] = [durable, firehose].map(DiskFolder::read_only);
        Ok(Self { durable, firehose, path: path.to_owned(), reach: OnceLock::new() })
    }

    /// Opens the record at `path`, and fails if it is empty.
    pub fn open_written(path: &Path) -> Result<Self, DirectoryError> {
        let directory = Self::open(path)?;
        let mut has_segments = false;
        for kind in [LaneKind::Durable, LaneKind::Firehose] {
            let lane = directory.lane(kind)?;
            has_segments |= lane.segments_len() > 0 || lane.known() > 0;
        }
        if has_segments { Ok(directory) } else { Err(DirectoryError::Empty(path.to_owned())) }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How far the durable lane says the firehose was durable, when first asked. None if it does
    /// not say.
    pub fn reach(&self) -> Result<Option<KnownReach>, LogReadError> {
        if let Some(known) = self.reach.get() {
            return Ok(*known);
        }
        let decode = |payload: &[u8]| {
            let events::Watermark { epoch, sequence } = events::Watermark::decode(payload).ok()?;
            Some(LaneWatermark { epoch, sequence })
        };
        let known = match KnownReach::read(&self.durable, RecordKind::Watermark.code(), decode) {
            // The lane was never written.
            Err(LogReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                None
            }
            known => known?,
        };
        Ok(*self.reach.get_or_init(|| known))
    }

    pub(crate) const fn folder(&self, kind: LaneKind) -> &DiskFolder {
        match kind {
            LaneKind::Durable => &self.durable,
            LaneKind::Firehose => &self.firehose,
        }
    }

    /// Lists a lane as it is now.
    pub fn lane(&self, kind: LaneKind) -> Result<RecordedLane<'_>, LogReadError> {
        match kind {
            LaneKind::Durable => RecordedLane::list(kind, &self.durable),
            LaneKind::Firehose => {
                // In this order, because a concurrent writer only extends the lane.
                let known = self.reach()?.map_or(0, |known| known.watermark.sequence);
                Ok(RecordedLane::list(kind, &self.firehose)?.proven_through(known))
            }
        }
    }
}
