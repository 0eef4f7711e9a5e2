//! Writes a log of any length through the log itself, and makes its newest segments look as after a
//! crash.
//!
//! Records are noise of an unknown kind, or come from another log: the durable lane's once, and the
//! firehose's repeatedly. Does not know their meaning.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use eventlog::disk::DiskFolder;
use eventlog::lane::{LaneKind, LaneOptions};
use eventlog::{FRAME_BYTES, LogEntry, LogReader, LogRecord, LogWriter, segments};
use serde_json::json;

use crate::{Say, lanes};

/// A kind that no release uses.
const KIND: u8 = 200;
/// Age of the first record: too young for retention.
const AGO_MS: u64 = 3_600_000;
/// Bytes per group, so that syncs cost little.
const GROUP_BYTES: usize = 4 << 20;
/// Bytes of an unfinished write, and their distance from the cut.
const LEFT_BYTES: usize = 3_000;
const LEFT_BEHIND: u64 = 1_000;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The log's directory, which is created.
    pub directory: PathBuf,
    /// Bytes of both lanes in MiB; the durable lane has an eighth of them, unless the records come
    /// from another log.
    #[arg(long, default_value_t = 10 << 10)]
    pub mebibytes: u64,
    /// Bytes of a record.
    #[arg(long, default_value_t = 4096)]
    pub payload: usize,
    /// A log whose records are copied; the firehose's repeatedly.
    #[arg(long, value_name = "DIRECTORY")]
    pub from: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<()> {
    ensure!(!options.directory.exists(), "{} is there", options.directory.display());
    let begun = Instant::now();
    let bytes = options.mebibytes << 20;
    for (kind, lane, share) in [
        (LaneKind::Durable, LaneOptions::DURABLE, bytes / 8),
        (LaneKind::Firehose, LaneOptions::FIREHOSE, bytes - bytes / 8),
    ] {
        let path = options.directory.join(kind.name());
        let (records, share) = match (&options.from, kind) {
            (None, _) => (noise(options.payload)?, share),
            // Each of them is written once.
            (Some(from), LaneKind::Durable) => (records(&from.join(kind.name()))?, 0),
            (Some(from), LaneKind::Firehose) => (records(&from.join(kind.name()))?, bytes),
        };
        ensure!(!records.is_empty(), "the {} lane has no records", kind.name());
        fill(&path, lane, share, &records)?;
        say(&json!({
            "who": kind.name(),
            "segments": segments(&DiskFolder::read_only(&path))?.len(),
            "bytes": length(&path)?,
            "seconds": begun.elapsed().as_secs_f64(),
        }))?;
    }
    Ok(())
}

/// A thousand records of noise.
fn noise(bytes: usize) -> Result<Vec<LogRecord>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let began_ms = u64::try_from(now)?.saturating_sub(AGO_MS);
    let record = |number: u64| LogRecord {
        epoch: 0,
        sequence: number,
        time_ms: began_ms + number,
        kind: KIND,
        payload: (0..bytes as u64).map(|at| (at * number).to_le_bytes()[1]).collect(),
    };
    Ok((1..=1_000).map(record).collect())
}

/// All records of a lane.
fn records(path: &Path) -> Result<Vec<LogRecord>> {
    let mut records = Vec::new();
    for item in LogReader::new(&DiskFolder::read_only(path))? {
        if let LogEntry::Record(record) = item? {
            records.push(record);
        }
    }
    Ok(records)
}

/// Writes `records` repeatedly until `bytes` are reached.
fn fill(path: &Path, lane: LaneOptions, bytes: u64, records: &[LogRecord]) -> Result<()> {
    let options = eventlog::WriterOptions { batch_bytes_max: 2 * GROUP_BYTES, ..lane.writer };
    let (mut writer, _) = LogWriter::open(DiskFolder::new(path)?, options, |_| ())?;
    let (mut written, mut begun) = (0, 0);
    loop {
        for LogRecord { kind, time_ms, payload, .. } in records {
            writer.append(*kind, *time_ms, payload)?;
            begun += FRAME_BYTES + payload.len();
            if begun >= GROUP_BYTES {
                writer.commit()?;
                written += begun as u64;
                begun = 0;
            }
        }
        if written + begun as u64 >= bytes {
            break;
        }
    }
    writer.commit()?;
    // The newest segment has just begun, as a crash may leave it.
    writer.append(records[0].kind, records[0].time_ms, &records[0].payload)?;
    writer.commit()?;
    Ok(())
}

/// Cuts the last record of each lane, and leaves bytes after the cut.
pub(crate) fn tear(directory: &Path) -> Result<()> {
    for path in lanes(directory) {
        let newest =
            segments(&DiskFolder::read_only(&path))?.pop().context("nothing was written")?;
        // It is unsealed, so it has no index.
        match fs::remove_file(path.join(newest.index_name())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => (),
        }
        let file = OpenOptions::new().write(true).open(path.join(newest.file_name()))?;
        let length = file.metadata()?.len();
        file.set_len(length.saturating_sub(FRAME_BYTES as u64 / 2))?;
        file.write_all_at(&[0xA5; LEFT_BYTES], length + LEFT_BEHIND)?;
        file.sync_all()?;
    }
    Ok(())
}

fn length(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
