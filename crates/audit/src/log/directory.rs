//! A record's directory: a lane of what must not be lost beside one of auctions. Owns which
//! directories are none, and what is said then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use eventlog::ReadError;
use eventlog::disk::Folder;
use eventlog::lane::{KnownReach, LaneKind, Watermark};
use events::Kind;

use crate::log::lane::Lane;

/// A record's directory, opened for reading.
#[derive(Clone, Debug)]
pub struct Directory {
    durable: Folder,
    firehose: Folder,
    path: PathBuf,
    /// How far the durable lane says that the firehose was, once that was looked for.
    reach: OnceLock<Option<KnownReach>>,
}

/// Why nothing can be read there.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such directory, or it cannot be listed.
    #[error("{} cannot be read: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the file system says.
        source: io::Error,
    },
    /// It is of something else.
    #[error("{} holds no record: the folders `durable` and `firehose` are not in it", .0.display())]
    Foreign(PathBuf),
    /// It is one of the lanes.
    #[error("{} is one lane of a record: name the directory that it is in, {}", .0.display(), .1.display())]
    OneLane(PathBuf, PathBuf),
    /// Nothing has been recorded there.
    #[error("{} is empty: nothing has been recorded there yet", .0.display())]
    Empty(PathBuf),
    /// What is there cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl OpenError {
    /// Whether another directory should have been named.
    pub const fn is_wrong_directory(&self) -> bool {
        matches!(self, Self::Foreign(_) | Self::OneLane(..))
    }
}

impl Directory {
    /// The record at `path`, which may be empty.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        let [durable, firehose] =
            [LaneKind::Durable, LaneKind::Firehose].map(|kind| path.join(kind.name()));
        if !durable.is_dir() && !firehose.is_dir() {
            let mut names = std::fs::read_dir(path).map_err(failed)?.filter_map(Result::ok);
            let is_lane = names.any(|entry| {
                let name = entry.file_name();
                name.to_str().is_some_and(|name| eventlog::Identity::from_file_name(name).is_some())
            });
            let path = path.to_owned();
            return Err(match path.parent() {
                Some(above) if is_lane => OpenError::OneLane(path.clone(), above.to_owned()),
                _ => OpenError::Foreign(path),
            });
        }
        let [durable, firehose] = [durable, firehose].map(Folder::read_only);
        Ok(Self { durable, firehose, path: path.to_owned(), reach: OnceLock::new() })
    }

    /// The record at `path`, in which something has been recorded.
    ///
    /// # Errors
    ///
    /// When there is none, or nothing is in it.
    pub fn open_written(path: &Path) -> Result<Self, OpenError> {
        let directory = Self::open(path)?;
        let mut has_segments = false;
        for kind in [LaneKind::Durable, LaneKind::Firehose] {
            let lane = directory.lane(kind)?;
            has_segments |= lane.segments_len() > 0 || lane.known() > 0;
        }
        if has_segments { Ok(directory) } else { Err(OpenError::Empty(path.to_owned())) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How far the durable lane says that the firehose was, when this was first asked. None if it does
    /// not say.
    ///
    /// # Errors
    ///
    /// When the durable lane cannot be read, or is of a later release.
    pub fn reach(&self) -> Result<Option<KnownReach>, ReadError> {
        if let Some(known) = self.reach.get() {
            return Ok(*known);
        }
        let decode = |payload: &[u8]| {
            let events::Watermark { epoch, sequence } = events::Watermark::decode(payload).ok()?;
            Some(Watermark { epoch, sequence })
        };
        let known = match KnownReach::read(&self.durable, Kind::Watermark.code(), decode) {
            // A lane that was never written.
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            known => known?,
        };
        Ok(*self.reach.get_or_init(|| known))
    }

    /// The files of a lane.
    pub(crate) const fn folder(&self, kind: LaneKind) -> &Folder {
        match kind {
            LaneKind::Durable => &self.durable,
            LaneKind::Firehose => &self.firehose,
        }
    }

    /// A lane as it stands now.
    ///
    /// # Errors
    ///
    /// When its files cannot be listed, or are of a later release.
    pub fn lane(&self, kind: LaneKind) -> Result<Lane<'_>, ReadError> {
        match kind {
            LaneKind::Durable => Lane::list(kind, &self.durable),
            LaneKind::Firehose => {
                // In this order, so that a writer meanwhile only adds to what is known.
                let known = self.reach()?.map_or(0, |known| known.watermark.sequence);
                Ok(Lane::list(kind, &self.firehose)?.proven_through(known))
            }
        }
    }
}
