//! `vickrey simulate pacing`: a budget spent on a stream, by each strategy.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pacer_core::strategy::{Pricing, Settings};
use whatif::simulate::{Budget, Forecast, Options, simulate, strategies};
use whatif::{chart, plot, table};

use crate::exit::{Exit, Failure, write_file};
use crate::hammer::parse_duration;
use crate::simulate::read;

/// Characters of a curve that is drawn in the terminal.
const CHART: (usize, usize) = (72, 16);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuctionKind {
    /// A win costs the price to beat
    Second,
    /// A win costs the bid
    First,
}

#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "FILE is tab-separated, with a header: time_ms, market_price_cpm (the price to beat), value_cpm\n(what the impression is worth), and perhaps user. Auctions stand in order of time.\n\nExamples:\n  vickrey simulate generate --profile bursty --out bursty.tsv\n  vickrey simulate pacing --auctions bursty.tsv --budget-share 1/8\n  vickrey simulate pacing --auctions bursty.tsv --budget 25 --strategy slot_dual,asap --plot spend.svg"
)]
pub(crate) struct PacingArgs {
    /// The stream; `-` is standard input
    #[arg(long, value_name = "FILE")]
    auctions: PathBuf,
    /// What may be spent, in currency, such as 25.50
    #[arg(long, value_name = "AMOUNT", value_parser = amount, required_unless_present = "budget_share")]
    budget: Option<Budget>,
    /// What may be spent, as a share of what bidding at value without a budget would: 1/32, 0.03, 3%
    #[arg(long, value_name = "X", value_parser = share, conflicts_with = "budget")]
    budget_share: Option<Budget>,
    /// Strategies, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = named)]
    strategy: Strategies,
    /// What a win costs
    #[arg(long, value_enum, default_value = "second")]
    auction: AuctionKind,
    /// What traffic the target counts on: `own` (the stream's own hours, known beforehand), `uniform`,
    /// or a file of another stream, from which the hours of the week are learned
    #[arg(long, value_name = "WHAT", default_value = "own")]
    forecast: String,
    /// How long after its auction a win is notified, such as 30s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    notice_delay: Duration,
    /// Draw what was spent beside the target, into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Draw it in the terminal
    #[arg(long, conflicts_with = "json")]
    chart: bool,
    /// As JSON; money in nanos of the currency, shares as numbers where 1 is the whole
    #[arg(long)]
    json: bool,
}

/// Some strategies: a list by itself would be an argument that may be repeated.
#[derive(Clone, Debug)]
struct Strategies(Vec<Settings>);

fn named(names: &str) -> Result<Strategies, String> {
    strategies(names).map(Strategies).map_err(|error| error.to_string())
}

fn amount(text: &str) -> Result<Budget, String> {
    Budget::amount(text).ok_or_else(|| "it is no amount of currency: write it like 25.50".into())
}

fn share(text: &str) -> Result<Budget, String> {
    Budget::share(text)
        .ok_or_else(|| "it is no share above 0, up to 1: write it like 1/32, 0.03 or 3%".into())
}

pub(crate) fn run(args: &PacingArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let budget = args.budget.or(args.budget_share).expect("the command line asks for one");
    let forecast = match args.forecast.as_str() {
        "own" => Forecast::Own,
        "uniform" => Forecast::Uniform,
        path => Forecast::learned(&read(path.as_ref())?),
    };
    let options = Options {
        strategies: args.strategy.0.clone(),
        pricing: match args.auction {
            AuctionKind::Second => Pricing::SecondPrice,
            AuctionKind::First => Pricing::FirstPrice,
        },
        forecast,
        notice_delay_ms: u64::try_from(args.notice_delay.as_millis()).unwrap_or(u64::MAX),
        ..Options::new(budget)
    };
    let report = simulate(&read(&args.auctions)?, &options).map_err(Failure::usage)?;
    if let Some(path) = &args.plot {
        write_file(path, &plot::svg(&report.curves))?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(Exit::Done);
    }
    out.write_all(table::report(&report).as_bytes())?;
    if args.chart {
        let (width, height) = CHART;
        write!(out, "\n{}", chart::draw(&report.curves, width, height))?;
    }
    Ok(Exit::Done)
}
