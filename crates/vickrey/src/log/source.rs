//! The location of the record, and walks through it.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use audit::{
    DirectoryError, LaneSegment, LogReadError, ReadBuffer, RecordDirectory, RecordPosition,
    RecordedLane, SegmentWalk,
};
use clap::Args;
use record::RecordService;
use runtime::config::load_tracked;

use crate::command::exit::{CommandFailure, Exit};
use crate::config::read_config;

/// The location of the record.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RecordSource {
    /// The record's directory, with `durable` and `firehose`
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Configuration file of the node that writes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RecordSource {
    pub(super) fn path(&self) -> anyhow::Result<PathBuf> {
        match (&self.dir, &self.config) {
            (Some(dir), _) => Ok(dir.clone()),
            (None, Some(config)) => directory_of(config),
            (None, None) => Err(CommandFailure::usage("name the record by --dir or --config")),
        }
    }

    /// Opens the record, which must not be empty.
    pub(super) fn open(&self) -> anyhow::Result<RecordDirectory> {
        RecordDirectory::open_written(&self.path()?).map_err(cannot_open)
    }

    /// Opens the record, which may be empty.
    pub(super) fn open_growing(&self) -> anyhow::Result<RecordDirectory> {
        RecordDirectory::open(&self.path()?).map_err(cannot_open)
    }
}

fn directory_of(config: &Path) -> anyhow::Result<PathBuf> {
    let (loaded, _) = load_tracked(config, read_config);
    let record = loaded.map_err(CommandFailure::usage)?.value.take_service::<RecordService>();
    record.map(|record| record.directory).ok_or_else(|| {
        let file = config.display();
        CommandFailure::usage(format!("{file} has no [record]: nothing is recorded by it"))
    })
}

pub(crate) fn cannot_open(error: DirectoryError) -> anyhow::Error {
    match error {
        DirectoryError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
            CommandFailure::with_exit(Exit::NotFound, error)
        }
        error if error.is_wrong_directory() => CommandFailure::usage(error),
        error => CommandFailure::unavailable(error),
    }
}

pub(crate) fn cannot_read(error: LogReadError) -> anyhow::Error {
    CommandFailure::unavailable(error)
}

pub(super) type Show<'s> = dyn FnMut(&RecordPosition, u8, &[u8]) -> anyhow::Result<()> + 's;

/// Shows every record of a segment, until `show` fails.
pub(super) fn walk(
    lane: &RecordedLane<'_>,
    segment: &LaneSegment,
    room: &mut ReadBuffer,
    show: &mut Show<'_>,
) -> anyhow::Result<SegmentWalk> {
    let mut failed = None;
    let mut visit = |place: &RecordPosition, kind: u8, payload: &[u8]| {
        failed = show(place, kind, payload).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let walked = lane.walk(segment, 0, room, &mut visit).map_err(cannot_read)?;
    failed.map_or(Ok(walked), Err)
}
