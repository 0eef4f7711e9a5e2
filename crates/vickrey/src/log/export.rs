//! `vickrey log export`: writes rows to files, from where the previous export ended.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use audit::{
    AuctionRecord, AuctionRow, Filter, Gap, GenerationIndex, GenerationLookup, LaneKind,
    LaneSegment, LogItem, LogReadError, LogRecords, RecordKind, RecordPosition, RecordedLane,
    SettlementRow,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use export::{
    ExportError, ExportItem, ExportLimits, ExportOptions, ExportSummary, FileFormat, LogPosition,
};

use super::damage_report::DamageReport;
use super::durable_rows;
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read};
use crate::command::exit::{CommandFailure, Exit};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RowFormat {
    /// One JSON object per line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Format of the rows
    #[arg(long, value_enum)]
    format: RowFormat,
    /// Export settlements (what was billed to accounts) instead of auctions, to a folder of their
    /// own; the filter may only use `time`
    #[arg(long)]
    settlements: bool,
    /// Print a summary of the export as JSON (its rows are in the files)
    #[arg(long)]
    json: bool,
    /// The output folder; an earlier export in it continues, if its format and filter are the same
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    selection: FilterArgs,
}

pub(crate) fn run(args: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let filter = args.selection.lasting_filter()?;
    let (kind, filter) = match args.settlements {
        true => (LaneKind::Durable, durable_rows::by_time(filter)?),
        false => (LaneKind::Firehose, filter),
    };
    let directory = args.source.open()?;
    let lane = directory.lane(kind).map_err(cannot_read)?;
    let node = lane.node().unwrap_or(0);
    let resumed = export::resume_point(&args.out, node).map_err(cannot_export)?;
    let from = resumed.map_or(0, |resumed| start(&lane, resumed));
    let generations = GenerationIndex::find(&directory).map_err(cannot_read)?;
    let (damage, last) = (RefCell::new(DamageReport::default()), Cell::new(None));
    damage.borrow_mut().generations(&generations.problems());
    lane.foreign().iter().for_each(|corruption| damage.borrow_mut().corrupt(corruption));
    let rows = RowExport {
        records: LogRecords::open(&directory, kind, from).map_err(cannot_read)?,
        filter: &filter,
        lookup: GenerationLookup::new(&generations),
        damage: &damage,
        last: &last,
    };
    let format = match args.format {
        RowFormat::Jsonl => FileFormat::Jsonl,
        RowFormat::Parquet => FileFormat::Parquet,
    };
    let text = match args.settlements {
        true => format!("settlements {}", filter.text()).trim_end().to_owned(),
        false => filter.text().to_owned(),
    };
    let (out_dir, limits) = (args.out.clone(), ExportLimits::default());
    let options = ExportOptions { out: out_dir, node, format, filter: text, limits };
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = crate::peers::long_run::stop_on_signal(Arc::clone(&stop))?;
    let is_stopped = || stop.load(Ordering::Relaxed);
    let summary = match args.settlements {
        true => export::export(SettlementExport(rows), &options, is_stopped),
        false => export::export(rows, &options, is_stopped),
    };
    let summary = summary.map_err(cannot_export)?;
    let is_later =
        |segment: &LaneSegment| Some(segment.identity().epoch) > resumed.map(|it| it.epoch);
    let may_come = summary.is_stopped || lane.segments().iter().any(is_later);
    if let Some(resumed) = resumed.filter(|resumed| !may_come && last.get() < Some(*resumed)) {
        let (LogPosition { epoch, sequence }, out) = (resumed, args.out.display());
        return Err(CommandFailure::usage(format!(
            "{} ends before record {sequence} of epoch {epoch}, through which {out} has been exported: \
             it is not the log that it was; export it to another folder",
            directory.path().display()
        )));
    }
    let exit = damage.into_inner().exit();
    let gone = missed(&summary);
    if args.json {
        writeln!(out, "{:#}", as_json(&summary, gone.as_ref()))?;
    } else {
        write_summary(&summary, args, out)?;
    }
    let Some(gone) = gone else { return Ok(exit) };
    if !args.json {
        let (from, through) = (gone.start(), gone.end());
        writeln!(out, "records {from} to {through} were gone before they were exported")?;
    }
    Ok(Exit::Missed)
}

/// Records that no export has seen: after the exported ones and before the first of this run.
fn missed(summary: &ExportSummary) -> Option<RangeInclusive<u64>> {
    let (resumed, first) = summary.resumed.zip(summary.first)?;
    let gone = resumed.sequence + 1..=first.sequence.checked_sub(1)?;
    (!gone.is_empty()).then_some(gone)
}

/// The sequence to continue from: records that were not durable when the log failed may have had
/// numbers that a later epoch reuses.
fn start(lane: &RecordedLane<'_>, resumed: LogPosition) -> u64 {
    let mut segments = lane.segments().iter().map(LaneSegment::identity);
    let later = segments.find(|identity| identity.epoch > resumed.epoch);
    later.map_or(resumed.sequence, |identity| identity.first.min(resumed.sequence))
}

fn cannot_export(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::OtherFormat { .. }
        | ExportError::OtherFilter { .. }
        | ExportError::OtherLog { .. } => CommandFailure::usage(error),
        ExportError::Row { .. } => error.into(),
        _ => CommandFailure::unavailable(error),
    }
}

fn write_summary(
    summary: &ExportSummary,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let ExportSummary { rows, files, bytes, records, shed, .. } = *summary;
    let (rows, files) = (line::count(rows, "row", "rows"), line::count(files, "file", "files"));
    let folder = args.out.display();
    let records = line::count(records, "record", "records");
    writeln!(out, "{rows} of {records} in {files}, {}, to {folder}", line::bytes(bytes))?;
    if let Some(LogPosition { epoch, sequence }) = summary.resumed {
        writeln!(out, "continued after record {sequence} of epoch {epoch}")?;
    }
    if shed > 0 {
        writeln!(out, "{} not recorded", line::count(shed, "auction was", "auctions were"))?;
    }
    if summary.is_stopped {
        writeln!(out, "stopped before the end: the same command goes on")?;
    }
    Ok(())
}

fn as_json(summary: &ExportSummary, gone: Option<&RangeInclusive<u64>>) -> Value {
    let ExportSummary { rows, files, bytes, records, shed, is_stopped, resumed, position, .. } =
        *summary;
    let place = |at: LogPosition| json!({ "epoch": at.epoch, "sequence": at.sequence });
    json!({
        "rows": rows,
        "records": records,
        "files": files,
        "bytes": bytes,
        "not_recorded": shed,
        "resumed_behind": resumed.map(place),
        "through": position.map(place),
        "gone_from": gone.map(RangeInclusive::start),
        "gone_through": gone.map(RangeInclusive::end),
        "stopped": is_stopped,
    })
}

/// A record: its place, kind and payload.
type KindRecord = (RecordPosition, u8, Vec<u8>);

struct RowExport<'r, 'd> {
    records: LogRecords<'d>,
    filter: &'r Filter,
    lookup: GenerationLookup<'r, 'd>,
    damage: &'r RefCell<DamageReport>,
    last: &'r Cell<Option<LogPosition>>,
}

impl Iterator for RowExport<'_, '_> {
    type Item = Result<ExportItem<AuctionRow>, LogReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.record()? {
            Err(error) => Some(Err(error)),
            Ok((place, kind, payload)) => Some(self.item(&place, kind, &payload)),
        }
    }
}

struct SettlementExport<'r, 'd>(RowExport<'r, 'd>);

impl Iterator for SettlementExport<'_, '_> {
    type Item = Result<ExportItem<SettlementRow>, LogReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (place, kind, payload) = match self.0.record()? {
            Err(error) => return Some(Err(error)),
            Ok(record) => record,
        };
        let at = LogPosition { epoch: place.epoch, sequence: place.sequence };
        self.0.last.set(Some(at));
        let row = durable_rows::row(self.0.filter, &place, kind, &payload);
        Some(Ok(match row {
            None => ExportItem::Passed(at),
            Some(row) => {
                ExportItem::Row { place: at, time_us: row.time_us, bytes: payload.len(), row }
            }
        }))
    }
}

impl RowExport<'_, '_> {
    /// The next record; reports damage before it.
    fn record(&mut self) -> Option<Result<KindRecord, LogReadError>> {
        loop {
            match self.records.next()? {
                Err(error) => return Some(Err(error)),
                Ok(LogItem::Corruption(corruption)) => {
                    self.damage.borrow_mut().corrupt(&corruption);
                }
                Ok(LogItem::Record(place, kind, payload)) => {
                    return Some(Ok((place, kind, payload)));
                }
            }
        }
    }

    fn item(
        &mut self,
        place: &RecordPosition,
        kind: u8,
        payload: &[u8],
    ) -> Result<ExportItem<AuctionRow>, LogReadError> {
        let at = LogPosition { epoch: place.epoch, sequence: place.sequence };
        self.last.set(Some(at));
        match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => match AuctionRecord::decode(payload) {
                Ok(record) => {
                    let facts = self.lookup.get(record.generation)?;
                    if self.filter.matches(&record, facts) {
                        let row = AuctionRow::of(place, &record, facts);
                        let (time_us, bytes) = (row.time_us, payload.len());
                        return Ok(ExportItem::Row { place: at, time_us, bytes, row });
                    }
                }
                Err(error) => self.damage.borrow_mut().unreadable(place, &error),
            },
            Some(RecordKind::Gap) => match Gap::decode(payload) {
                Ok(gap) => return Ok(ExportItem::Gap { place: at, records: gap.records }),
                Err(error) => self.damage.borrow_mut().unreadable(place, &error),
            },
            _ => (),
        }
        Ok(ExportItem::Passed(at))
    }
}
