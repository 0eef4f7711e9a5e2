//! DuckDB, pandas and PyArrow read from an export's folders what was exported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use audit::AuctionRow;
use export::FileFormat;
use serde_json::{Value, json};

use crate::fixtures::{auctions, export};

/// The Python for which `scripts/tools` installs these packages. None without it.
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of builds");
    let python = target.join("python/bin/python");
    if python.exists() {
        return Some(python);
    }
    eprintln!("SKIPPED: no {}: `make tools` makes it where Python is", python.display());
    None
}

/// The totals of each hour, by our own count.
fn totals(rows: &[AuctionRow]) -> Value {
    let mut hours: BTreeMap<String, [u64; 6]> = BTreeMap::new();
    for row in rows {
        let hour = format!("2026-11-22T{:02}", row.time_us / 3_600_000_000 % 24);
        let [auctions, bids, price_micros, wins, tie_max, revenue_nanos] =
            hours.entry(hour).or_default();
        *auctions += 1;
        *bids += row.bids.len() as u64;
        *price_micros += row.bids.iter().filter_map(|bid| bid.price_micros).sum::<u64>();
        *wins += row.bids.iter().filter(|bid| bid.fate == "won").count() as u64;
        *tie_max = row.bids.iter().map(|bid| bid.tie).fold(*tie_max, u64::max);
        *revenue_nanos += row.sales.iter().map(|sale| sale.revenue_nanos).sum::<u64>();
    }
    let names = ["auctions", "bids", "price_micros", "wins", "tie_max", "revenue_nanos"];
    let named = |values: [u64; 6]| names.into_iter().zip(values).collect::<BTreeMap<_, _>>();
    json!(hours.into_iter().map(|(hour, values)| (hour, named(values))).collect::<BTreeMap<_, _>>())
}

#[test]
fn clients_read_what_was_exported() {
    let Some(python) = python() else { return };
    let rows = auctions();
    let (parquet, jsonl) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    export(&rows, parquet.path(), FileFormat::Parquet);
    export(&rows, jsonl.path(), FileFormat::Jsonl);
    for folder in [parquet.path(), jsonl.path()] {
        // As left by a running or killed export.
        let aside = "_export-node-007/node-007-epoch-000003-from-000000000101.parquet.tmp";
        std::fs::write(folder.join(aside), b"PAR1 half of a file").unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients.py");
    let output = Command::new(python)
        .arg(script)
        .args([parquet.path(), jsonl.path()])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let want = totals(&rows);
    assert_eq!(want.as_object().map(serde_json::Map::len), Some(3), "hours");
    for client in ["duckdb, parquet", "duckdb, jsonl", "pandas, parquet", "pandas, jsonl"] {
        assert_eq!(found[client], want, "{client}, of {}", found["versions"]);
    }
    assert_eq!((&found["rows"], &found["rows differ"]), (&json!(100), &json!(0)));
}
