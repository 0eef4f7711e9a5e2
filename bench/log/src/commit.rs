//! Group commit: threads that wait for durable records, compared with raw writes.
//!
//! Owns both loads. The raw one writes the log's own bytes in the same groups, so that only the
//! surrounding work differs.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use eventlog::lane::{
    DurableRing, GapFormat, LaneEvent, LaneKind, LogBuilder, LogOptions, LogRings, PushError,
    RingPosition,
};
use rustix::fs::FallocateFlags;
use serde_json::json;

use crate::Say;
use crate::groups::{Groups, groups};

/// Timeout of a record: a failing disk ends the run.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The output directory, on the disk to be measured; its files are removed afterwards.
    pub directory: PathBuf,
    /// Threads that write records.
    #[arg(long, default_value_t = 2)]
    pub producers: usize,
    /// Unacknowledged records per thread.
    #[arg(long, default_value_t = 1024)]
    pub in_flight: usize,
    /// Records per round, of all threads.
    #[arg(long, default_value_t = 200_000)]
    pub records: usize,
    /// Bytes of a record.
    #[arg(long, default_value_t = 1024)]
    pub payload: usize,
    /// Rounds of log, raw, raw, log.
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
}

pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<()> {
    ensure!(options.producers > 0 && options.in_flight > 0, "nobody hands over records");
    fs::create_dir_all(&options.directory)?;
    let place = |name: &str| options.directory.join(format!("{name}-{}", std::process::id()));
    let (log, raw) = (place("log"), place("raw"));
    for round in 1..=options.rounds {
        let first = of_log(options, &log, round, say)?;
        for _ in 0..2 {
            for preallocated in [Preallocated::SetAside, Preallocated::Written] {
                of_raw(&first, &raw, preallocated, round, say)?;
            }
        }
        of_log(options, &log, round, say)?;
    }
    Ok(())
}

/// A round of the log. Returns the written bytes and their groups.
fn of_log(options: &Options, directory: &Path, round: usize, say: Say<'_>) -> Result<Groups> {
    settle();
    let gaps = GapFormat { kind: u8::MAX, encode: |_, _| () };
    let (log, _) =
        LogBuilder::open(directory, &LogOptions::DEFAULT, gaps, Box::new(|_, _| ()), |_, _| ())?;
    let records = options.records / options.producers;
    let lane = log.lane(LaneKind::Durable);
    let thread = log.start().context("the log thread does not start")?;
    let producers: Vec<_> =
        (0..options.producers).map(|_| Producer::new(thread.rings(), options, records)).collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            producers.into_iter().map(|producer| scope.spawn(move || producer.run())).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a producer panicked"))?)
    })?;
    let took = begun.elapsed();
    thread.close(PATIENCE)?;
    let counters = lane.counters();
    let written = groups(&directory.join(LaneKind::Durable.name()))?;
    fs::remove_dir_all(directory)?;
    let total = records * options.producers;
    ensure!(counters.records == total as u64, "{} of {total} are durable", counters.records);
    say(&json!({
        "round": round,
        "who": "log",
        "records": total,
        "seconds": took.as_secs_f64(),
        "records_per_s": per_second(total, took),
        "groups": counters.commits,
        "bytes": written.bytes.len(),
        "syncs": counters.syncs,
        "sync_seconds": counters.sync_time.as_secs_f64(),
    }))?;
    Ok(written)
}

/// A thread that keeps several records in flight.
struct Producer {
    ring: DurableRing,
    thread: Arc<OnceLock<Thread>>,
    payload: Vec<u8>,
    in_flight: u64,
    records: u64,
}

impl Producer {
    fn new(log: &LogRings, options: &Options, records: usize) -> Self {
        let thread = Arc::<OnceLock<Thread>>::default();
        let waiting = Arc::clone(&thread);
        let tell = move |told| {
            if let (LaneEvent::Durable { .. }, Some(thread)) = (told, waiting.get()) {
                thread.unpark();
            }
        };
        // A record takes a few more bytes in the ring than its own.
        let bytes = options.in_flight * (options.payload + 64);
        let ring = log.durable_ring(bytes, Some(Box::new(tell)));
        // A disk with compression would store compressible data too cheaply.
        let payload = (0..options.payload).map(noise).collect();
        Self { ring, thread, payload, in_flight: options.in_flight as u64, records: records as u64 }
    }

    /// Ends once all of its records are acknowledged.
    fn run(mut self) -> Result<()> {
        // Only this thread sets it.
        let _first = self.thread.set(std::thread::current());
        let (mut pushed, mut last) = (0, Instant::now());
        loop {
            let RingPosition(durable) = self.ring.durable();
            if durable == self.records {
                return Ok(());
            }
            while pushed < self.records && pushed - durable < self.in_flight {
                self.payload[..8].copy_from_slice(&pushed.to_le_bytes());
                match self.ring.push(1, pushed, &self.payload) {
                    Ok(_) => pushed += 1,
                    Err(PushError::Full) => break,
                    Err(refused) => return Err(refused.into()),
                }
                last = Instant::now();
            }
            ensure!(last.elapsed() < PATIENCE, "nothing was acknowledged for {PATIENCE:?}");
            std::thread::park_timeout(PATIENCE);
        }
    }
}

/// A pseudo-random byte (SplitMix64).
fn noise(at: usize) -> u8 {
    let mut bits = (at as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (bits ^ (bits >> 27)).to_le_bytes()[7]
}

/// The preallocation of the raw file.
#[derive(Clone, Copy)]
enum Preallocated {
    /// As the log does: reserved, so a sync also waits for the first write of a block and the
    /// file's length.
    SetAside,
    /// Written and synced in advance: a sync waits only for data.
    Written,
}

/// Writes and syncs the same bytes in the same groups, one after another.
fn of_raw(
    written: &Groups,
    path: &Path,
    preallocated: Preallocated,
    round: usize,
    say: Say<'_>,
) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    preallocate(&file, written.bytes.len(), preallocated)?;
    settle();
    let begun = Instant::now();
    for group in &written.groups {
        file.write_all_at(&written.bytes[group.clone()], group.start as u64)?;
        file.sync_data()?;
    }
    let took = begun.elapsed();
    drop(file);
    fs::remove_file(path)?;
    let who = match preallocated {
        Preallocated::SetAside => "raw, set aside",
        Preallocated::Written => "raw, written before",
    };
    say(&json!({
        "round": round,
        "who": who,
        "records": written.records,
        "seconds": took.as_secs_f64(),
        "records_per_s": per_second(written.records, took),
        "groups": written.groups.len(),
        "bytes": written.bytes.len(),
        "syncs": written.groups.len(),
        "sync_seconds": null,
    }))
}

/// Waits until the disk has finished earlier work: flushed others' writes, and freed the blocks of
/// removed files.
fn settle() {
    rustix::fs::sync();
}

fn preallocate(file: &File, bytes: usize, how: Preallocated) -> Result<()> {
    match how {
        Preallocated::SetAside => {
            rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes as u64)?;
        }
        Preallocated::Written => {
            let zeros = vec![0; 1 << 20];
            for at in (0..bytes).step_by(zeros.len()) {
                let piece = zeros.len().min(bytes - at);
                file.write_all_at(&zeros[..piece], at as u64)?;
            }
        }
    }
    Ok(file.sync_all()?)
}

#[expect(clippy::cast_precision_loss, reason = "a report, far below 2^53")]
pub(crate) fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
