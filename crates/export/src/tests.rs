//! Exports of a test row on a failing file system, and the files afterwards.

mod parts;
mod refusals;
mod stopped;
mod store;

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::hour::HourPartition;
use crate::item::{ExportItem, LogPosition};
use crate::options::{ExportLimits, ExportOptions, FileFormat};
use crate::run::ExportSummary;
use crate::run::run;
use store::Memory;

/// 2026-11-22T08:00 UTC.
const EIGHT_US: u64 = 1_795_334_400_000_000;
const HOUR_US: u64 = 3_600_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    time_us: u64,
    sequence: u64,
    note: Option<String>,
    left_us: i64,
    is_test: bool,
    bids: Vec<Bid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bid {
    price_micros: Option<u64>,
    fate: String,
    imps: Vec<String>,
}

/// The row of a record, whose number is in each column.
fn line(sequence: u64, time_us: u64) -> Line {
    let bid = |n: u64| Bid {
        price_micros: (n != 1).then_some(u64::MAX - sequence - n),
        fate: format!("fate {n}"),
        imps: (0..n).map(|imp| format!("{sequence}/{imp}")).collect(),
    };
    Line {
        time_us,
        sequence,
        note: (!sequence.is_multiple_of(3)).then(|| format!("\"{sequence}\" ü")),
        left_us: -i64::try_from(sequence).expect("small"),
        is_test: sequence.is_multiple_of(2),
        bids: (0..sequence % 4).map(bid).collect(),
    }
}

fn place(sequence: u64) -> LogPosition {
    LogPosition { epoch: 1 + sequence / 10, sequence }
}

/// A record and its row.
fn row(sequence: u64, time_us: u64) -> ExportItem<Line> {
    ExportItem::Row { place: place(sequence), time_us, bytes: 100, row: line(sequence, time_us) }
}

fn options(format: FileFormat, limits: ExportLimits) -> ExportOptions {
    ExportOptions { out: "out".into(), node: 7, format, filter: "all".into(), limits }
}

fn small() -> ExportLimits {
    ExportLimits {
        hours_open: 2,
        batch_rows: 2,
        batch_bytes: 250,
        group_rows: 3,
        group_bytes: 1 << 20,
        commit_rows: 9,
        commit_bytes: 1 << 20,
        commit_files: 3,
    }
}

/// Exports to the end.
fn whole(
    disk: &Memory,
    items: &[ExportItem<Line>],
    options: &ExportOptions,
) -> Result<ExportSummary, ExportError> {
    let items = items.iter().cloned().map(Ok::<_, Infallible>);
    run(disk, items, options, || false)
}

/// Reads a file, which must be complete.
fn rows(path: &str, bytes: Vec<u8>) -> Vec<Line> {
    if path.ends_with(".jsonl") {
        assert!(bytes.ends_with(b"\n"), "{path} ends with a whole line");
        let text = String::from_utf8(bytes).expect("text");
        return text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    }
    assert!(path.ends_with(".parquet"), "{path}");
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).expect("a footer");
    let batches = reader.build().expect("a reader");
    let read = |batch| serde_arrow::from_record_batch::<Vec<Line>>(&batch).expect("rows");
    batches.flat_map(|batch| read(batch.expect("a batch"))).collect()
}

/// All rows by folder; each file's rows ascend.
fn read_back(disk: &Memory) -> BTreeMap<String, Vec<Line>> {
    let mut found: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for (path, bytes) in disk.visible() {
        let (folder, _) = path.split_once('/').expect("a folder");
        let lines = rows(&path, bytes);
        assert!(!lines.is_empty(), "{path}");
        assert!(lines.is_sorted_by_key(|line| line.sequence), "{path}");
        found.entry(folder.to_owned()).or_default().extend(lines);
    }
    for lines in found.values_mut() {
        lines.sort_by_key(|line| line.sequence);
    }
    found
}

/// The expected rows: each once, in its hour.
fn expected(items: &[ExportItem<Line>]) -> BTreeMap<String, Vec<Line>> {
    let mut wanted: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for item in items {
        if let ExportItem::Row { time_us, row, .. } = item {
            let folder = HourPartition::of_unix_us(*time_us).folder();
            wanted.entry(folder).or_default().push(row.clone());
        }
    }
    wanted
}
