//! `vickrey log`: what an exchange has recorded, read: shown, followed, counted, verified, replayed
//! and exported. Reads only, beside the exchange that writes.

mod export;
pub(crate) mod line;
mod print;
mod replay;
mod report;
mod settlements;
mod survey;

use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use audit::{
    Corruption, Directory, Filter, Lane, OpenError, Place, Problems, ReadError, Room, Segment,
    Walked,
};
use clap::{Args, Subcommand};
use exchange_serve::Exchange;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::config::load_tracked;

use crate::config::read_config;
use crate::exit::{Exit, Failure};

const FILTERS: &str = "\
FILTER is made of terms, all of which must hold; quote it, so that the shell leaves it alone:
  time        a day, a minute or a moment (RFC 3339, by default UTC), or before now: s, m, h, d
  publisher   publisher.id
  format      banner, video, audio or native: an impression takes it
  id          ours, or the caller's
  outcome     how the auction ended (filled, no_bid, refused, abandoned), or a bid's fate (won, …)
  seat dsp deal campaign     of a bid
One of several values is enough, `!=` is none of them, \"\" is where there is none. What is asked of
bids must hold for one and the same bid.
  'time>=-15m publisher=news'    'seat=acme outcome=won'    'time=2026-11-22 deal!=\"\"'
  'format=video,audio dsp=a,b'   'id=5f0e1d2c3b4a596877869504a3b2c1d0'";

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show the last auctions, and with -f those that come
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log tail -f --config vickrey.toml\n  vickrey log tail -n 100 --dir /var/lib/vickrey/record outcome=won")
    )]
    Tail(print::TailArgs),
    /// Show auctions, a line for each, or as JSON
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log cat --dir record 'time>=-1h seat=acme outcome=won'\n  vickrey log cat --json --dir record | jq -r '.sales[] | [.dsp, .price_micros] | @tsv'")
    )]
    Cat(print::CatArgs),
    /// Show what there is: segments, records, times, gaps
    Stat(survey::StatArgs),
    /// Check every frame of both lanes; prints what is damaged and where, and then exits 1
    Verify(survey::VerifyArgs),
    /// Replay every auction from its record; prints what differs, and then exits 1
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log replay --dir record\n  vickrey log replay --dir record 'time=2026-11-22 publisher=news'")
    )]
    Replay(replay::ReplayArgs),
    /// Add up auctions, bids, wins, spend, fill and latency, grouped by the columns you choose
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log report --by seat,hour --dir record 'time>=-24h'\n  vickrey log report --by publisher --json --dir record")
    )]
    Report(report::ReportArgs),
    /// Write rows to files by hour, for DuckDB, pandas and the like; goes on where it ended
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log export --format parquet --out rows --dir record\n  duckdb -c \"select publisher, count(*) from 'rows/**/*.parquet' group by 1\"")
    )]
    Export(export::ExportArgs),
}

fn concat_examples(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{FILTERS}")
}

/// Where the record is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// The record's directory, in which are `durable` and `firehose`
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Configuration file of the exchange that writes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Source {
    fn path(&self) -> anyhow::Result<PathBuf> {
        match (&self.dir, &self.config) {
            (Some(dir), _) => Ok(dir.clone()),
            (None, Some(config)) => directory_of(config),
            (None, None) => Err(Failure::usage("name the record by --dir or --config")),
        }
    }

    /// The record, in which there is something.
    fn open(&self) -> anyhow::Result<Directory> {
        Directory::open_written(&self.path()?).map_err(cannot_open)
    }

    /// The record, which may be empty yet.
    fn open_growing(&self) -> anyhow::Result<Directory> {
        Directory::open(&self.path()?).map_err(cannot_open)
    }
}

/// Replays every auction of the record at `path`.
pub(crate) fn replay_all(path: &Path, is_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let directory = Directory::open_written(path).map_err(cannot_open)?;
    replay::replay(&directory, (&Filter::default(), is_json), out)
}

/// Where the exchange of a configuration records.
fn directory_of(config: &Path) -> anyhow::Result<PathBuf> {
    let (loaded, _) = load_tracked(config, read_config);
    let exchange = loaded.map_err(Failure::usage)?.value.take_service::<Exchange>();
    exchange.and_then(|exchange| exchange.record).map(|record| record.directory).ok_or_else(|| {
        let file = config.display();
        Failure::usage(format!("{file} has no [record]: nothing is recorded by it"))
    })
}

pub(crate) fn cannot_open(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
            Failure::with_exit(Exit::NotFound, error)
        }
        error if error.is_wrong_directory() => Failure::usage(error),
        error => Failure::unavailable(error),
    }
}

pub(crate) fn cannot_read(error: ReadError) -> anyhow::Error {
    Failure::unavailable(error)
}

/// Which auctions are wanted.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Which auctions, for example 'time>=-15m seat=acme outcome=won' [default: all]
    #[arg(value_name = "FILTER", allow_hyphen_values = false)]
    filter: Vec<String>,
}

impl Wanted {
    /// Whether all are.
    pub(crate) const fn is_all(&self) -> bool {
        self.filter.is_empty()
    }

    pub(crate) fn filter(&self) -> anyhow::Result<Filter> {
        Filter::parse(&self.filter.join(" "), now_us())
            .map_err(|error| Failure::usage(format!("the filter is wrong: {error}")))
    }

    /// One that means the same whenever it is used.
    fn lasting_filter(&self) -> anyhow::Result<Filter> {
        const HOUR_US: u64 = 3_600_000_000;
        let filter = self.filter()?;
        if Filter::parse(filter.text(), now_us() + HOUR_US).ok() != Some(filter.clone()) {
            return Err(Failure::usage(
                "this goes on by the same filter later, so its times must not count from now: \
                 give them in full, as time>=2026-11-22T08:00",
            ));
        }
        Ok(filter)
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn run(command: &LogCommand) -> anyhow::Result<Exit> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let exit = match command {
        LogCommand::Tail(args) => print::tail(args, &mut out),
        LogCommand::Cat(args) => print::cat(args, &mut out),
        LogCommand::Stat(args) => survey::stat(args, &mut out),
        LogCommand::Verify(args) => survey::verify(args, &mut out),
        LogCommand::Replay(args) => replay::run(args, &mut out),
        LogCommand::Report(args) => report::run(args, &mut out),
        LogCommand::Export(args) => export::run(args, &mut out),
    };
    // What was written before an error is shown before it.
    let flushed = out.flush();
    let exit = exit?;
    flushed?;
    Ok(exit)
}

/// Shows a record of some kind.
type Show<'s> = dyn FnMut(&Place, u8, &[u8]) -> anyhow::Result<()> + 's;

/// Shows every record of a segment, until one cannot be shown.
fn walk(
    lane: &Lane<'_>,
    (segment, room): (&Segment, &mut Room),
    show: &mut Show<'_>,
) -> anyhow::Result<Walked> {
    let mut failed = None;
    let mut visit = |place: &Place, kind: u8, payload: &[u8]| {
        failed = show(place, kind, payload).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let walked = lane.walk(segment, (0, room), &mut visit).map_err(cannot_read)?;
    failed.map_or(Ok(walked), Err)
}

/// Says on stderr what is wrong with the record, as it is come upon.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    any: bool,
}

impl Complaints {
    pub(crate) fn corrupt(&mut self, corruption: &Corruption) {
        self.say(&format!("damaged: {corruption}"));
    }

    fn unreadable(&mut self, place: &Place, why: &dyn std::fmt::Display) {
        self.say(&format!("unreadable: {place}: {why}"));
    }

    pub(crate) fn generations(&mut self, problems: &Problems) {
        problems.corruptions.iter().for_each(|corruption| self.corrupt(corruption));
        for (place, why) in &problems.unreadable {
            self.unreadable(place, why);
        }
    }

    fn say(&mut self, text: &str) {
        self.any = true;
        drop(writeln!(std::io::stderr(), "{text}"));
    }

    pub(crate) const fn exit(&self) -> Exit {
        if self.any { Exit::Missed } else { Exit::Done }
    }
}

/// Progress on stderr, when that is a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}% of {len} segments, {eta}");
        bar.set_style(style.expect("the template is one"));
        Self(bar)
    }

    pub(crate) fn show(&self, done: usize, of: usize) -> ControlFlow<()> {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
        ControlFlow::Continue(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
