//! `vickrey log report`: sums over auctions, as a table or as JSON.

use std::io::Write;

use audit::{
    AuctionReport, ReportColumn, ReportColumns, ReportError, ReportExclusions, ReportGroup,
};
use clap::Args;
use serde_json::{Value, json};

use super::damage_report::{DamageReport, SegmentProgress};
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read};
use crate::command::exit::{CommandFailure, Exit};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Columns to group by: hour, day, publisher, format, dsp, seat, deal, campaign
    #[arg(long, value_name = "COLUMNS", value_parser = columns)]
    by: Option<ReportColumns>,
    /// Print JSON; money in nanos of the currency, latency in microseconds
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: FilterArgs,
}

fn columns(text: &str) -> Result<ReportColumns, String> {
    text.parse().map_err(|error: audit::ColumnError| error.to_string())
}

pub(crate) fn run(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let Some(by) = &args.by else { return Err(CommandFailure::usage(without_columns())) };
    let filter = args.selection.filter()?;
    let directory = args.source.open()?;
    let progress = SegmentProgress::new();
    let report = audit::report(&directory, &filter, by, |done, of| progress.show(done, of));
    let report = report.map_err(|error| match error {
        ReportError::Read(error) => cannot_read(error),
        ReportError::Groups | ReportError::Billed | ReportError::Sum => {
            CommandFailure::usage(error)
        }
    })?;
    drop(progress);
    let damage = DamageReport::of(&report.damage, &report.generations);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&report))?)?;
    } else {
        out.write_all(as_text(&report).as_bytes())?;
    }
    let is_whole = report.apart.unreadable == 0;
    Ok(if is_whole { damage.exit() } else { Exit::Missed })
}

/// Usage text for a report without `--by`.
fn without_columns() -> String {
    let columns: Vec<_> = ReportColumn::ALL.iter().map(|column| column.label()).collect();
    format!(
        "by what should auctions be grouped? Name one column or several: {}\n\n  \
         vickrey log report --by day --dir record                       # each day\n  \
         vickrey log report --by seat,hour --dir record 'time>=-24h'    # each seat by the hour",
        columns.join(", ")
    )
}

fn as_text(report: &AuctionReport) -> String {
    let currencies = currencies(report);
    let is_mixed = currencies.len() > 1;
    let mut head: Vec<_> = report.columns.iter().map(|column| column.label().to_owned()).collect();
    head.extend(is_mixed.then(|| "currency".to_owned()));
    let texts = head.len();
    let money = match currencies.as_slice() {
        [one] if !one.is_empty() => format!(" {one}"),
        _ => String::new(),
    };
    head.extend(["auctions", "bids", "wins", "fill %"].map(str::to_owned));
    head.extend(["spend", "fee", "billed"].map(|what| format!("{what}{money}")));
    head.extend(["p50 ms", "p99 ms"].map(str::to_owned));
    let mut rows = vec![head];
    let form = ReportForm { is_mixed, places: places(report) };
    rows.extend(report.groups.iter().map(|group| row(group, &group.key, &form)));
    for total in &report.totals {
        let mut key = vec![String::new(); report.columns.iter().count()];
        key[0] = "total".to_owned();
        rows.push(row(total, &key, &form));
    }
    let mut text = line::table(&rows, texts);
    text.push_str(
        "\nspend: what DSPs owe for cleared impressions. fee: our part of it. billed: what they owe for\n\
         impressions whose beacon was called. ",
    );
    text.push_str(if report.columns.are_of_bids() {
        "Latency is of DSPs' answers, in the total of auctions."
    } else {
        "Latency is of auctions."
    });
    text.push_str(
        "\nAn auction counts once in every group that it is in, and once in the total.\n",
    );
    for note in billing_notes(report).into_iter().chain(notes(&report.apart)) {
        text.push_str(&note);
        text.push('\n');
    }
    text
}

fn currencies(report: &AuctionReport) -> Vec<&str> {
    report.totals.iter().map(|total| total.currency.as_str()).collect()
}

struct ReportForm {
    is_mixed: bool,
    /// Decimal places of money.
    places: usize,
}

/// Cents, unless the amounts are below one unit.
fn places(report: &AuctionReport) -> usize {
    let spend = report.totals.iter().map(|total| total.sums.counts.spend_nanos).max();
    if spend < Some(1_000_000_000) { 6 } else { 2 }
}

fn row(group: &ReportGroup, key: &[String], form: &ReportForm) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { line::visible(text) };
    // A total's row has only its name in the first column.
    let mut cells: Vec<_> = match group.key.is_empty() {
        true => key.to_vec(),
        false => key.iter().map(|value| or_dash(value)).collect(),
    };
    cells.extend(form.is_mixed.then(|| or_dash(&group.currency)));
    let counts = &group.sums.counts;
    cells.extend([counts.auctions, counts.bids, counts.wins].map(|count| count.to_string()));
    let fill = counts.fill_ppm();
    cells.push(fill.map_or_else(
        || "-".to_owned(),
        |ppm| {
            let tenths = (ppm + 500) / 1000;
            format!("{}.{}", tenths / 10, tenths % 10)
        },
    ));
    cells.extend(
        [counts.spend_nanos, counts.fee_nanos, counts.billed_nanos]
            .map(|nanos| line::money(nanos, form.places)),
    );
    for quantile in [0.5, 0.99] {
        let ms = |us: u64| format!("{}.{}", us / 1000, us % 1000 / 100);
        cells.push(group.sums.latency_us(quantile).map_or_else(|| "-".to_owned(), ms));
    }
    cells
}

/// Notes on billed auctions that are not in the record, and on auctions that may be missing.
fn billing_notes(report: &AuctionReport) -> Vec<String> {
    let mut notes = Vec::new();
    let unrecorded = &report.unrecorded;
    if unrecorded.beacons > 0 {
        let beacons = line::count(unrecorded.beacons, "beacon was", "beacons were");
        let amounts = unrecorded.amounts.iter();
        let amounts: Vec<_> = amounts
            .map(|(currency, nanos)| format!("{} {currency}", line::money(*nanos, 6)))
            .collect();
        let amounts = match amounts.is_empty() {
            true => "no account pays for them".to_owned(),
            false => format!("{} to accounts", amounts.join(", ")),
        };
        notes.push(format!(
            "{beacons} billed for auctions that are not in the record, and not included here ({amounts})"
        ));
    }
    if let Some(known) = report.known {
        notes.push(format!(
            "the record is being written, or was not stopped cleanly: auctions after {} may be missing",
            line::time(known.time_ms)
        ));
    }
    notes
}

fn notes(apart: &ReportExclusions) -> Vec<String> {
    let ReportExclusions { tests, shed, unreadable, no_generation, bids_left_out } = *apart;
    line::counts(&[
        (tests, "test auction, which is not counted", "test auctions, which are not counted"),
        (shed, "auction was not recorded (gap)", "auctions were not recorded (gaps)"),
        (unreadable, "record cannot be read", "records cannot be read"),
        (
            no_generation,
            "auction without its generation: names are positions, and its fee is not known",
            "auctions without their generation: names are positions, and their fee is not known",
        ),
        (
            bids_left_out,
            "bid is left out of a record that was too long, and out of groups of bids",
            "bids are left out of records that were too long, and out of groups of bids",
        ),
    ])
}

fn as_json(report: &AuctionReport) -> Value {
    let group = |group: &ReportGroup| {
        let names = report.columns.iter().map(|column| column.label().to_owned());
        let values = group.key.iter().map(|value| Value::from(value.as_str()));
        let mut object: serde_json::Map<String, Value> = names.zip(values).collect();
        let counts = &group.sums.counts;
        let currency = Some(group.currency.as_str()).filter(|currency| !currency.is_empty());
        object.insert("currency".into(), currency.into());
        for (name, count) in [
            ("auctions", counts.auctions),
            ("bids", counts.bids),
            ("wins", counts.wins),
            ("filled", counts.filled),
            ("spend_nanos", counts.spend_nanos),
            ("fee_nanos", counts.fee_nanos),
            ("billed", counts.billed),
            ("billed_nanos", counts.billed_nanos),
        ] {
            object.insert(name.into(), count.into());
        }
        object.insert("fill_ppm".into(), counts.fill_ppm().into());
        object.insert("latency_us_p50".into(), group.sums.latency_us(0.5).into());
        object.insert("latency_us_p99".into(), group.sums.latency_us(0.99).into());
        Value::Object(object)
    };
    let ReportExclusions { tests, shed, unreadable, no_generation, bids_left_out } = report.apart;
    json!({
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
        "totals": report.totals.iter().map(group).collect::<Vec<_>>(),
        "billed_not_recorded": report.unrecorded.beacons,
        "billed_not_recorded_nanos": report.unrecorded.amounts,
        "known_through": report.known.map(|known| known.watermark.sequence),
        "known_at_ms": report.known.map(|known| known.time_ms),
        "tests": tests,
        "not_recorded": shed,
        "unreadable": unreadable,
        "without_generation": no_generation,
        "bids_left_out": bids_left_out,
    })
}
