//! Reads a log back and checks every record, compared with reading its files alone; and measures
//! the time to open both lanes.
//!
//! Owns the state of the page cache, all files or none of them, for both readers alike.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use eventlog::disk::DiskFolder;
use eventlog::lane::{GapFormat, LogBuilder, LogOptions};
use eventlog::{LogEntry, LogReader};
use rustix::fs::{Advice, fadvise};
use serde_json::json;

use crate::commit::per_second;
use crate::{Say, lanes};

/// Bytes per read of the raw reader.
const READ_BYTES: usize = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The log's directory.
    pub directory: PathBuf,
    /// Rounds of log, raw, raw, log.
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
    /// The files in the page cache before each reading.
    #[arg(long, value_enum, default_value_t = Cache::Warm)]
    pub cache: Cache,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cache {
    /// As many as fit.
    Warm,
    /// Nothing.
    Cold,
}

pub(crate) fn scan(options: &Options, say: Say<'_>) -> Result<()> {
    let Files { paths, bytes } = Files::of(&options.directory)?;
    if options.cache == Cache::Warm {
        read(&paths)?;
    }
    for round in 1..=options.rounds {
        for who in ["log", "raw", "raw", "log"] {
            if options.cache == Cache::Cold {
                forget(&options.directory)?;
            }
            let begun = Instant::now();
            let records = match who {
                "log" => Some(checked(&options.directory)?),
                _ => read(&paths).map(|()| None)?,
            };
            let took = begun.elapsed();
            say(&json!({
                "round": round,
                "who": who,
                "records": records,
                "bytes": bytes,
                "seconds": took.as_secs_f64(),
                "bytes_per_s": per_second(bytes, took),
            }))?;
        }
    }
    Ok(())
}

/// The segments of both lanes, and their total length.
struct Files {
    paths: Vec<PathBuf>,
    bytes: usize,
}

impl Files {
    fn of(directory: &Path) -> Result<Self> {
        let mut files = Self { paths: Vec::new(), bytes: 0 };
        for lane in lanes(directory) {
            for identity in eventlog::segments(&DiskFolder::read_only(&lane))? {
                let path = lane.join(identity.file_name());
                files.bytes += usize::try_from(fs::metadata(&path)?.len())?;
                files.paths.push(path);
            }
        }
        Ok(files)
    }
}

/// Reads and checks every record. Returns their number.
fn checked(directory: &Path) -> Result<u64> {
    let mut records = 0;
    for lane in lanes(directory) {
        for item in LogReader::new(&DiskFolder::read_only(&lane))? {
            records += u64::from(matches!(item?, LogEntry::Record(_)));
        }
    }
    Ok(records)
}

fn read(paths: &[PathBuf]) -> Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    for path in paths {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

pub(crate) fn raw(directory: &Path, say: Say<'_>) -> Result<()> {
    let Files { paths, bytes } = Files::of(directory)?;
    let begun = Instant::now();
    read(&paths)?;
    let took = begun.elapsed();
    say(&json!({ "who": "raw", "bytes": bytes, "seconds": took.as_secs_f64() }))
}

pub(crate) fn forget(directory: &Path) -> Result<()> {
    for lane in lanes(directory) {
        for entry in fs::read_dir(lane)? {
            let path = entry?.path();
            let file = File::open(&path)?;
            // Dirty pages would stay in the cache.
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

pub(crate) fn open(directory: &Path, say: Say<'_>) -> Result<()> {
    let gaps = GapFormat { kind: u8::MAX, encode: |_, _| () };
    let begun = Instant::now();
    let (log, found) =
        LogBuilder::open(directory, &LogOptions::DEFAULT, gaps, Box::new(|_, _| ()), |_, _| ())?;
    let took = begun.elapsed();
    drop(log);
    say(&json!({
        "who": "open",
        "seconds": took.as_secs_f64(),
        "records_read": found.durable.records + found.firehose.records,
        "is_torn": found.durable.torn && found.firehose.torn,
    }))
}
