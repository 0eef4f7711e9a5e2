//! One hot value, read by several threads at once and sometimes replaced.
//!
//! Owns the loops and what they count. The kinds of locks are in `kinds`.

mod kinds;

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::Say;
use kinds::{Hot, KINDS};

/// Reads between two looks at the clock.
const BATCH: u64 = 64;
/// Longest write that is told apart.
const WRITE_NS_MAX: u64 = 10_000_000_000;

#[derive(Args)]
pub struct Options {
    /// Most threads; each power of two up to it is measured.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long each measurement takes, in milliseconds.
    #[arg(long, default_value_t = 100)]
    milliseconds: u64,
    /// Bytes that each read copies; 0 looks at one word.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024])]
    bytes: Vec<usize>,
    /// Reads of a thread per write of its own; 0 for reads alone.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000_000, 10_000, 100])]
    reads_per_write: Vec<u64>,
    /// The kinds of locks; all, where none is named.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
}

/// What one thread does.
#[derive(Clone, Copy)]
struct Work {
    bytes: usize,
    reads_per_write: u64,
}

/// What one thread has done.
struct Done {
    reads: u64,
    seconds: f64,
    write_ns: Histogram<u64>,
}

pub fn run(options: &Options, say: Say<'_>) -> Result<()> {
    let cores = usable_cores()?;
    ensure!(options.threads > 0, "--threads is 0: needs at least one");
    ensure!(
        options.threads <= cores.len(),
        "--threads is {}, but this process may use {} cores: each thread has one of its own",
        options.threads,
        cores.len()
    );
    let known = KINDS.map(|(name, _)| name);
    for name in &options.kinds {
        ensure!(known.contains(&name.as_str()), "there is no kind {name}: one of {known:?}");
    }
    for &bytes in &options.bytes {
        for &reads_per_write in &options.reads_per_write {
            for (name, make) in KINDS {
                if !options.kinds.is_empty() && !options.kinds.iter().any(|kind| kind == name) {
                    continue;
                }
                let counts = (0..).map(|power| 1 << power).take_while(|n| *n <= options.threads);
                for threads in counts {
                    let work = Work { bytes, reads_per_write };
                    let hot = make(threads, bytes.max(8));
                    let time = Duration::from_millis(options.milliseconds);
                    let done = on_threads(hot, &cores[..threads], work, time);
                    say(&json!({
                        "kind": name, "bytes": bytes, "reads_per_write": reads_per_write,
                        "threads": threads,
                        "reads_per_second": done.iter().map(Done::rate).sum::<f64>(),
                        "write_ns_p99": quantile(&done, 0.99), "write_ns_max": quantile(&done, 1.0),
                    }))?;
                }
            }
        }
    }
    Ok(())
}

impl Done {
    #[expect(clippy::cast_precision_loss, reason = "a measured rate")]
    fn rate(&self) -> f64 {
        self.reads as f64 / self.seconds
    }
}

/// Of the writes of all threads. None if there are none.
fn quantile(done: &[Done], quantile: f64) -> Option<u64> {
    let mut all = new_histogram();
    for one in done {
        all += &one.write_ns;
    }
    (!all.is_empty()).then(|| all.value_at_quantile(quantile))
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(WRITE_NS_MAX, 3).expect("the bounds are valid")
}

fn on_threads(hot: Vec<Box<dyn Hot>>, cores: &[usize], work: Work, time: Duration) -> Vec<Done> {
    let barrier = Barrier::new(hot.len());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = hot
            .into_iter()
            .zip(cores)
            .map(|(mut hot, core)| {
                let (barrier, is_over) = (&barrier, &is_over);
                scope.spawn(move || {
                    let mut set = CpuSet::new();
                    set.set(*core);
                    sched_setaffinity(None, &set).expect("the core is usable");
                    barrier.wait();
                    let done = one_thread(&mut *hot, work, time, is_over);
                    is_over.store(true, Ordering::Relaxed);
                    done
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Until its time is over, or the time of the first thread is.
fn one_thread(hot: &mut dyn Hot, work: Work, time: Duration, is_over: &AtomicBool) -> Done {
    let mut copy = vec![0_u8; work.bytes.max(8)];
    let (mut reads, mut write_ns) = (0, new_histogram());
    let mut until_write = work.reads_per_write;
    let begin = Instant::now();
    while begin.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        hot.read(BATCH, &mut copy);
        black_box(&copy);
        reads += BATCH;
        until_write = until_write.saturating_sub(BATCH);
        if work.reads_per_write > 0 && until_write == 0 {
            until_write = work.reads_per_write;
            let begin = Instant::now();
            hot.write();
            let ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(WRITE_NS_MAX);
            write_ns.saturating_record(ns);
        }
    }
    Done { reads, seconds: begin.elapsed().as_secs_f64(), write_ns }
}

fn usable_cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("asking which cores this process may use")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}
