//! The tool's output, and that it removes its files.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str], directory: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-ledger"));
    command.arg(directory).args(arguments).output().expect("it was built")
}

#[test]
fn each_load_is_measured_in_turn() {
    let temporary = tempfile::tempdir().unwrap();
    let options = ["--leases", "1,50", "--filled", "60", "--seconds", "0.05", "--rounds", "1"];
    let output = run(&options, temporary.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            let who = line["who"].as_str().expect("text");
            (who, line["leases"].as_u64().unwrap(), line["in_flight"].as_u64().unwrap())
        })
        .collect();
    let twice = "raw, synced twice";
    let of = |leases| {
        let raw = [("raw", leases, 1), (twice, leases, 1)];
        let store = [("store", leases, 1), ("store", leases, 16)];
        [store[0], store[1], raw[0], raw[1], raw[0], raw[1], store[1], store[0]]
    };
    assert_eq!(said, [of(1), of(50)].concat());
    for line in &lines {
        let (batches, commits) = (line["batches"].as_u64(), line["commits"].as_u64());
        assert!(batches > Some(0) && commits <= batches, "{line}");
        if line["in_flight"] == 1 {
            assert_eq!(commits, batches, "one at a time");
        }
        let ms = |name: &str| line[name].as_f64().expect("a number");
        assert!(ms("ms_p50") <= ms("ms_p99") && ms("ms_p99") <= ms("ms_max"), "{line}");
    }
    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "it removes what it wrote");
}

#[test]
fn more_leases_than_there_are_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let output = run(&["--leases", "61", "--filled", "60"], temporary.path());
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && problem.contains("raise --filled"), "{problem}");
}
