//! The ledger's store compared with the minimum cost of its work: the same bytes, written and
//! synced raw, on the same file system.
//!
//! Owns the command line, both loads and their figures, one line of JSON each. Knows only vickrey's
//! store, not what leases mean.

mod raw;
mod store;

use std::fs;
use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use serde_json::{Value, json};

/// Batches per second of the ledger's store, one after another and many at once, and the same bytes
/// written and synced raw, in turn: store, raw, raw, store.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The output directory, on the disk to be measured; its files are removed afterwards.
    directory: PathBuf,
    /// Leases per batch.
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000")]
    leases: Vec<u32>,
    /// Leases stored in advance.
    #[arg(long, default_value_t = 100_000)]
    filled: u32,
    /// Concurrent batches, in rounds with many.
    #[arg(long, default_value_t = 16)]
    in_flight: u64,
    /// Length of each measurement, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds of store, raw, raw, store.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
}

/// The results of a measurement.
struct Measured {
    batches: u64,
    /// Transactions of the store, or groups of writes.
    commits: u64,
    took: Duration,
    /// From request to answer, for each batch.
    latencies: Vec<Duration>,
}

fn main() -> Result<()> {
    run(&Options::parse(), &mut |line| Ok(writeln!(stdout(), "{line}")?))
}

/// The consumer of output lines.
type Say<'a> = &'a mut dyn FnMut(&Value) -> Result<()>;

fn run(options: &Options, say: Say<'_>) -> Result<()> {
    ensure!(options.in_flight > 0, "nothing is on its way");
    ensure!(
        options.leases.iter().all(|leases| (1..=options.filled).contains(leases)),
        "a batch has at least one lease and at most as many as there are: raise --filled"
    );
    fs::create_dir_all(&options.directory)?;
    let place = options.directory.join(format!("ledger-{}", std::process::id()));
    fs::create_dir(&place)?;
    let measured = measure(options, &place, say);
    fs::remove_dir_all(&place)?;
    measured
}

fn measure(options: &Options, place: &std::path::Path, say: Say<'_>) -> Result<()> {
    let time = Duration::try_from_secs_f64(options.seconds)?;
    for round in 1..=options.rounds {
        for leases in options.leases.iter().copied() {
            let line = |who: &str, in_flight: u64, measured: Measured| {
                figures(round, who, (leases, in_flight), measured)
            };
            let of_store = |in_flight| {
                let directory = place.join("store");
                let measured =
                    store::measure(&directory, (leases, options.filled), in_flight, time)?;
                fs::remove_dir_all(directory)?;
                anyhow::Ok(line("store", in_flight, measured))
            };
            for in_flight in [1, options.in_flight] {
                say(&of_store(in_flight)?)?;
            }
            for _ in 0..2 {
                for (who, syncs) in [("raw", 1), ("raw, synced twice", 2)] {
                    let measured = raw::measure(&place.join("raw"), leases, syncs, time)?;
                    say(&line(who, 1, measured))?;
                }
            }
            for in_flight in [options.in_flight, 1] {
                say(&of_store(in_flight)?)?;
            }
        }
    }
    Ok(())
}

fn figures(round: usize, who: &str, load: (u32, u64), mut measured: Measured) -> Value {
    let (leases, in_flight) = load;
    measured.latencies.sort_unstable();
    let at = |share: usize| {
        let index = (measured.latencies.len() * share / 1_000).min(measured.latencies.len() - 1);
        measured.latencies[index].as_secs_f64() * 1e3
    };
    let per_second = |count: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a report, far below 2^53")]
        let count = count as f64;
        count / measured.took.as_secs_f64()
    };
    json!({
        "round": round,
        "who": who,
        "leases": leases,
        "in_flight": in_flight,
        "batches": measured.batches,
        "commits": measured.commits,
        "seconds": measured.took.as_secs_f64(),
        "batches_per_s": per_second(measured.batches),
        "commits_per_s": per_second(measured.commits),
        "leases_per_s": per_second(measured.batches * u64::from(leases)),
        "ms_p50": at(500),
        "ms_p99": at(990),
        "ms_max": at(1_000),
    })
}

/// Waits until the disk has finished earlier work.
fn settle() {
    rustix::fs::sync();
}
