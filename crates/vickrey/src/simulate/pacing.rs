//! `vickrey simulate pacing`: spends a budget on a stream with each strategy.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use pacer_core::strategy::{AuctionPricing, StrategySettings};
use serde::Serialize;
use serde_json::Value;
use whatif::simulate::{
    SimulateOptions, SimulatedBudget, SimulatedForecast, SimulationReport, simulate, strategies,
};
use whatif::stream::StreamAuction;
use whatif::{chart, plot, table};

use super::input::read;
use super::recorded::{RecordedArgs, RecordedStream};
use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{millis, parse_duration};

const CHART: (usize, usize) = (72, 16);

const FORM: &str = "\
FILE is tab-separated, with a header: time_ms, market_price_cpm (the price to beat), value_cpm
(what the impression is worth), and perhaps user. Auctions stand in order of time.

With --log the stream is what a campaign or a seat bid on, and FILTER says in which auctions (terms as
in `vickrey log cat --help`). All other bids are taken as they were: nobody answers to another bid.
Where nothing was bid, as in auctions that a strategy passed by, the log does not tell what might have
been won.

Examples:
  vickrey simulate generate --profile bursty --out bursty.tsv
  vickrey simulate pacing --auctions bursty.tsv --budget-share 1/8
  vickrey simulate pacing --auctions bursty.tsv --budget 25 --strategy slot_dual,asap --plot spend.svg
  vickrey simulate pacing --log record --campaign summer --value 2.50 --budget 100 'time>=-24h'";

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
    group = ArgGroup::new("source").args(["auctions", "log"]).required(true),
    after_help = FORM
)]
pub(crate) struct PacingArgs {
    /// The stream; - reads stdin
    #[arg(long, value_name = "FILE")]
    auctions: Option<PathBuf>,
    #[command(flatten)]
    recorded: RecordedArgs,
    /// Budget in currency, such as 25.50
    #[arg(long, value_name = "AMOUNT", value_parser = amount, required_unless_present = "budget_share")]
    budget: Option<SimulatedBudget>,
    /// Budget as a share of the cost of bidding the value without a budget: 1/32, 0.03, 3%
    #[arg(long, value_name = "X", value_parser = share, conflicts_with = "budget")]
    budget_share: Option<SimulatedBudget>,
    /// Strategies, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all", value_parser = named)]
    strategy: Strategies,
    /// Cost of a win [default: second; with --log, as recorded]
    #[arg(long, value_enum)]
    auction: Option<AuctionKind>,
    /// Traffic that the target expects: `own` (the stream's hours, known in advance), `uniform`, or
    /// a file with another stream, whose hours of the week are learned
    #[arg(long, value_name = "WHAT", default_value = "own")]
    forecast: String,
    /// How far the target runs ahead of the traffic, from 0 to 1: with 1, three quarters of the
    /// budget are spent when half of the traffic has passed
    #[arg(long, value_name = "X", default_value = "0", value_parser = ahead)]
    ahead: f64,
    /// Length of a slot; strategies decide anew at the end of each, such as 30s [default: a 1440th of the
    /// flight, from 1s to 1m]
    #[arg(long, value_name = "TIME", value_parser = slot)]
    slot: Option<Duration>,
    /// Delay from an auction to its win notice, such as 30s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    notice_delay: Duration,
    /// Plot spend and target to an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Plot them in the terminal
    #[arg(long, conflicts_with = "json")]
    chart: bool,
    /// Print JSON; money in nanos of the currency, shares from 0 to 1
    #[arg(long)]
    json: bool,
}

/// Some strategies: a list by itself would be an argument that may be repeated.
#[derive(Clone, Debug)]
struct Strategies(Vec<StrategySettings>);

fn named(names: &str) -> Result<Strategies, String> {
    strategies(names).map(Strategies).map_err(|error| error.to_string())
}

fn amount(text: &str) -> Result<SimulatedBudget, String> {
    SimulatedBudget::amount(text)
        .ok_or_else(|| "not an amount of currency: write it like 25.50".into())
}

fn share(text: &str) -> Result<SimulatedBudget, String> {
    SimulatedBudget::share(text)
        .ok_or_else(|| "not a share above 0 and up to 1: write it like 1/32, 0.03 or 3%".into())
}

fn ahead(text: &str) -> Result<f64, String> {
    let ahead = text.parse().ok().filter(|ahead| (0.0..=1.0).contains(ahead));
    ahead.ok_or_else(|| "not a number from 0 to 1: write it like 0.5".into())
}

fn slot(text: &str) -> Result<Duration, String> {
    let slot = parse_duration(text)?;
    if slot < Duration::from_millis(1) {
        return Err("shorter than 1ms: write it like 30s".into());
    }
    Ok(slot)
}

/// A report for programs.
#[derive(Serialize)]
struct PacingReport<'r> {
    #[serde(flatten)]
    report: &'r SimulationReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Value>,
}

struct AuctionSource {
    auctions: Vec<StreamAuction>,
    recorded: Option<RecordedStream>,
    pricing: AuctionPricing,
}

impl AuctionSource {
    fn read(args: &PacingArgs) -> anyhow::Result<Self> {
        let wanted = args.auction.map(|kind| match kind {
            AuctionKind::Second => AuctionPricing::SecondPrice,
            AuctionKind::First => AuctionPricing::FirstPrice,
        });
        let Some(log) = &args.recorded.log else {
            let path = args.auctions.as_ref().expect("the command line asks for one");
            args.recorded.check_unfiltered()?;
            let pricing = wanted.unwrap_or(AuctionPricing::SecondPrice);
            return Ok(Self { auctions: read(path)?, recorded: None, pricing });
        };
        let mut recorded = args.recorded.read(log)?;
        let pricing = match wanted {
            Some(pricing) => pricing,
            None => recorded.pricing()?,
        };
        let auctions = std::mem::take(&mut recorded.auctions);
        Ok(Self { auctions, recorded: Some(recorded), pricing })
    }
}

pub(crate) fn run(args: &PacingArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let budget = args.budget.or(args.budget_share).expect("the command line asks for one");
    let AuctionSource { auctions, recorded, pricing } = AuctionSource::read(args)?;
    let forecast = match args.forecast.as_str() {
        "own" => SimulatedForecast::Own,
        "uniform" => SimulatedForecast::Uniform,
        path => SimulatedForecast::learned(&read(path.as_ref())?),
    };
    let options = SimulateOptions {
        strategies: args.strategy.0.clone(),
        pricing,
        forecast,
        ahead: args.ahead,
        slot_ms: args.slot.map(millis),
        notice_delay_ms: millis(args.notice_delay),
        ..SimulateOptions::new(budget)
    };
    let report = simulate(&auctions, &options).map_err(CommandFailure::usage)?;
    let exit = recorded.as_ref().map_or(Exit::Done, |recorded| recorded.exit);
    if let Some(path) = &args.plot {
        output_file::write_text(path, &plot::svg(&report.curves))?;
    }
    if args.json {
        let told =
            PacingReport { report: &report, log: recorded.as_ref().map(RecordedStream::as_json) };
        writeln!(out, "{}", serde_json::to_string_pretty(&told)?)?;
        return Ok(exit);
    }
    if let Some(recorded) = &recorded {
        recorded.write_heading(out)?;
    }
    out.write_all(table::report(&report).as_bytes())?;
    if args.chart {
        let (width, height) = CHART;
        write!(out, "\n{}", chart::draw(&report.curves, width, height))?;
    }
    Ok(exit)
}
