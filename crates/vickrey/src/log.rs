//! `vickrey log`: shows, follows, counts, verifies, replays and exports what an exchange has
//! recorded. Only reads, even while the exchange writes.

pub(crate) mod damage_report;
mod durable_rows;
mod export;
pub(crate) mod filter_args;
pub(crate) mod line;
mod print;
mod replay;
mod report;
pub(crate) mod source;
mod survey;

use std::io::{BufWriter, Write};
use std::path::Path;

use audit::{Filter, RecordDirectory};
use clap::Subcommand;

use crate::command::exit::Exit;
use source::cannot_open;

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
    /// Show the last auctions, and with -f new ones as well
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log tail -f --config vickrey.toml\n  vickrey log tail -n 100 --dir /var/lib/vickrey/record outcome=won")
    )]
    Tail(print::TailArgs),
    /// Show auctions, one per line, or as JSON
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log cat --dir record 'time>=-1h seat=acme outcome=won'\n  vickrey log cat --json --dir record | jq -r '.sales[] | [.dsp, .price_micros] | @tsv'")
    )]
    Cat(print::CatArgs),
    /// Show an overview: segments, records, times, gaps
    Stat(survey::StatArgs),
    /// Check every frame of both lanes; if any is damaged, print what and where, and exit 1
    Verify(survey::VerifyArgs),
    /// Replay every auction from its record; if any differs, print the differences and exit 1
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log replay --dir record\n  vickrey log replay --dir record 'time=2026-11-22 publisher=news'")
    )]
    Replay(replay::ReplayArgs),
    /// Sum up auctions, bids, wins, spend, fill and latency, grouped by columns of your choice
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log report --by seat,hour --dir record 'time>=-24h'\n  vickrey log report --by publisher --json --dir record")
    )]
    Report(report::ReportArgs),
    /// Write rows to hourly files, for DuckDB, pandas and the like; continues where it stopped
    #[command(
        after_help = FILTERS,
        after_long_help = concat_examples("vickrey log export --format parquet --out rows --dir record\n  duckdb -c \"select publisher, count(*) from 'rows/**/*.parquet' group by 1\"")
    )]
    Export(export::ExportArgs),
}

fn concat_examples(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{FILTERS}")
}

pub(crate) fn replay_all(path: &Path, is_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let directory = RecordDirectory::open_written(path).map_err(cannot_open)?;
    replay::replay(&directory, &Filter::default(), is_json, out)
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
    // Output from before an error is shown before it.
    let flushed = out.flush();
    let exit = exit?;
    flushed?;
    Ok(exit)
}
