//! Threads that read something in loops of their own, each on a core of its own, until time is up.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::Say;

/// Reads between two looks at the clock.
const BATCH: u64 = 64;
/// Longest write that is told apart.
const WRITE_NS_MAX: u64 = 10_000_000_000;

#[derive(Args)]
pub struct LoopOptions {
    /// Most threads; each power of two up to it is measured.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long each measurement takes, in milliseconds.
    #[arg(long, default_value_t = 100)]
    milliseconds: u64,
    /// The kinds to measure; all, where none is named.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
}

/// A way to share something, by its name: makes it, as each of so many threads sees it.
pub type Kind<C> = (&'static str, fn(usize, &C) -> Vec<Box<dyn Shared>>);

/// Something shared, as one thread sees it.
pub trait Shared: Send {
    /// Reads so many times, each time into the buffer.
    fn read(&mut self, times: u64, copy: &mut [u8]);
    /// Replaces what is read.
    fn write(&mut self);
}

/// What one thread does.
#[derive(Clone, Copy)]
pub struct Work {
    /// Copied by each read; 0 looks at one word.
    pub bytes: usize,
    /// Of the same thread; 0 for reads alone.
    pub reads_per_write: u64,
}

/// What one thread has done.
pub struct Done {
    reads: u64,
    seconds: f64,
    write_ns: Histogram<u64>,
}

impl LoopOptions {
    /// Measures each kind, by each number of threads. Lines also have what `label` says.
    pub fn measure<C>(
        &self,
        kinds: &[Kind<C>],
        of: &C,
        (work, label): (Work, &Value),
        say: Say<'_>,
    ) -> Result<()> {
        let cores = usable_cores()?;
        ensure!(self.threads > 0, "--threads is 0: needs at least one");
        ensure!(
            self.threads <= cores.len(),
            "--threads is {}, but this process may use {} cores: each thread has one of its own",
            self.threads,
            cores.len()
        );
        let known: Vec<_> = kinds.iter().map(|(name, _)| *name).collect();
        for name in &self.kinds {
            ensure!(known.contains(&name.as_str()), "there is no kind {name}: one of {known:?}");
        }
        let is_wanted = |name| self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == name);
        for (name, make) in kinds.iter().filter(|(name, _)| is_wanted(name)) {
            for threads in (0..).map(|power| 1 << power).take_while(|n| *n <= self.threads) {
                let time = Duration::from_millis(self.milliseconds);
                let done = on_threads(make(threads, of), &cores[..threads], work, time);
                let mut line = json!({
                    "kind": name, "threads": threads,
                    "reads_per_second": done.iter().map(Done::rate).sum::<f64>(),
                    "write_ns_p99": quantile(&done, 0.99), "write_ns_max": quantile(&done, 1.0),
                });
                if let (Value::Object(line), Value::Object(label)) = (&mut line, label) {
                    line.extend(label.clone());
                }
                say(&line)?;
            }
        }
        Ok(())
    }
}

impl Done {
    #[expect(clippy::cast_precision_loss, reason = "a measured rate")]
    fn rate(&self) -> f64 {
        self.reads as f64 / self.seconds
    }
}

/// Quantile over the writes of all threads. None without writes.
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

fn on_threads(
    shared: Vec<Box<dyn Shared>>,
    cores: &[usize],
    work: Work,
    time: Duration,
) -> Vec<Done> {
    let barrier = Barrier::new(shared.len());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = shared
            .into_iter()
            .zip(cores)
            .map(|(mut shared, core)| {
                let (barrier, is_over) = (&barrier, &is_over);
                scope.spawn(move || {
                    let mut set = CpuSet::new();
                    set.set(*core);
                    sched_setaffinity(None, &set).expect("the core is usable");
                    barrier.wait();
                    let done = one_thread(&mut *shared, work, time, is_over);
                    is_over.store(true, Ordering::Relaxed);
                    done
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Until its time is over, or the time of the first thread is.
fn one_thread(shared: &mut dyn Shared, work: Work, time: Duration, is_over: &AtomicBool) -> Done {
    let mut copy = vec![0_u8; work.bytes.max(8)];
    let (mut reads, mut write_ns) = (0, new_histogram());
    let mut until_write = work.reads_per_write;
    let begin = Instant::now();
    while begin.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        shared.read(BATCH, &mut copy);
        black_box(&copy);
        reads += BATCH;
        until_write = until_write.saturating_sub(BATCH);
        if work.reads_per_write > 0 && until_write == 0 {
            until_write = work.reads_per_write;
            let begin = Instant::now();
            shared.write();
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
