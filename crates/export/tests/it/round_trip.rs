//! Both formats contain exactly the exported rows.

use std::convert::Infallible;
use std::fs::{self, File};
use std::path::Path;

use audit::AuctionRow;
use export::{ExportError, ExportLimits, ExportOptions, FileFormat, LogPosition};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::fixtures::{auctions, export, files};

fn read_parquet(out: &Path) -> Vec<AuctionRow> {
    let mut rows = Vec::new();
    for path in files(out) {
        let file = File::open(path).expect("a file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a footer");
        for batch in reader.build().expect("a reader") {
            let batch = batch.expect("a batch");
            rows.extend(serde_arrow::from_record_batch::<Vec<AuctionRow>>(&batch).expect("rows"));
        }
    }
    rows
}

fn read_jsonl(out: &Path) -> Vec<AuctionRow> {
    let texts = files(out).into_iter().map(|path| fs::read_to_string(path).expect("text"));
    texts.flat_map(|text| text.lines().map(parse).collect::<Vec<_>>()).collect()
}

fn parse(line: &str) -> AuctionRow {
    serde_json::from_str(line).expect("a row")
}

#[test]
fn rows_are_what_was_exported_in_either_format() {
    let rows = auctions();
    let (parquet, jsonl) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let summary = export(&rows, parquet.path(), FileFormat::Parquet);
    assert_eq!((summary.rows, summary.records), (80, 80), "of the second run");
    assert_eq!(summary.position, Some(LogPosition { epoch: 3, sequence: 100 }));
    export(&rows, jsonl.path(), FileFormat::Jsonl);
    assert_eq!(read_parquet(parquet.path()), rows);
    assert_eq!(read_jsonl(jsonl.path()), rows);

    let names: Vec<_> = files(parquet.path())
        .iter()
        .map(|path| path.strip_prefix(parquet.path()).unwrap().display().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "hour=2026-11-22T08/node-007-epoch-000001-from-000000000001.parquet",
            "hour=2026-11-22T08/node-007-epoch-000001-from-000000000021.parquet",
            "hour=2026-11-22T09/node-007-epoch-000001-from-000000000038.parquet",
            "hour=2026-11-22T10/node-007-epoch-000002-from-000000000075.parquet",
        ]
    );
}

/// File system errors reach the operator with path and remedy.
#[test]
fn a_folder_that_cannot_be_is_told() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let check = |out: &Path, want: &str| {
        let (node, format, limits) = (7, FileFormat::Jsonl, ExportLimits::default());
        let options =
            ExportOptions { out: out.to_owned(), node, format, filter: String::new(), limits };
        let nothing = std::iter::empty::<Result<export::ExportItem<AuctionRow>, Infallible>>();
        let error = export::export(nothing, &options, || false).unwrap_err().to_string();
        assert!(error.starts_with(&out.display().to_string()), "{error}");
        assert!(error.contains(want), "{error}");
        error
    };
    check(&file, "a file stands where a folder should; name another folder");
    check(&file.join("below"), "a file stands where a folder should; name another folder");
    check(Path::new("/proc/export"), "once that is mended, export again");

    // A missing folder has no state, and a query does not create it.
    let out = place.path().join("none");
    assert_eq!(export::resume_point(&out, 7).unwrap(), None);
    assert!(!out.exists());
}

#[test]
fn two_exports_at_once_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let (node, format, limits) = (7, FileFormat::Jsonl, ExportLimits::default());
    let options =
        ExportOptions { out: out.path().to_owned(), node, format, filter: String::new(), limits };
    let nothing = || std::iter::empty::<Result<export::ExportItem<AuctionRow>, Infallible>>();
    let summary = export::export(nothing(), &options, || {
        let error = export::export(nothing(), &options, || false).unwrap_err();
        assert!(matches!(error, ExportError::InUse { node: 7, .. }), "{error}");
        let other = ExportOptions { node: 8, ..options.clone() };
        export::export(nothing(), &other, || false).expect("another node is no matter");
        false
    });
    assert_eq!(summary.unwrap().position, None);
}
