//! `vickrey simulate` as a user meets it: a stream made, a budget spent on it, and what is said of
//! wrong files and flags.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn vickrey(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vickrey"));
    command.arg("simulate").args(args).stdin(Stdio::null());
    command
}

#[track_caller]
fn check(args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) -> String {
    let output = vickrey(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (code, out, err) = (output.status.code(), text(output.stdout), text(output.stderr));
    assert_eq!(code, Some(exit), "{args:?}\n{out}\n{err}");
    for want in stdout {
        assert!(out.contains(want), "{args:?}: no `{want}` in stdout:\n{out}");
    }
    for want in stderr {
        assert!(err.contains(want), "{args:?}: no `{want}` in stderr:\n{err}");
    }
    out
}

fn generated(folder: &Path, name: &str, more: &[&str]) -> String {
    let path = folder.join(name).to_str().unwrap().to_owned();
    let args = [&["generate", "--auctions", "20000", "--out", &path][..], more].concat();
    assert_eq!(check(&args, 0, &[], &[]), "", "a file is asked for");
    path
}

const STRATEGIES: [&str; 6] = ["asap", "even", "throttle", "pid", "adaptive", "slot_dual"];

#[test]
fn a_budget_is_spent_by_every_strategy_and_never_overspent() {
    let folder = tempfile::tempdir().unwrap();
    let stream = generated(folder.path(), "a.tsv", &["--profile", "diurnal"]);
    let plot = folder.path().join("spend.svg");
    let budget = ["pacing", "--auctions", &stream, "--budget-share", "1/8"];
    let drawn = ["--plot", plot.to_str().unwrap(), "--chart"];
    check(&[&budget[..], &drawn].concat(), 0, &STRATEGIES, &[]);
    let svg = fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let json = check(&[&budget[..], &["--json"]].concat(), 0, &[], &[]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let budget = report["budget_nanos"].as_u64().unwrap();
    let strategies = report["strategies"].as_array().unwrap();
    assert_eq!(strategies.len(), STRATEGIES.len());
    for strategy in strategies {
        let spent = strategy["spent_nanos"].as_u64().unwrap();
        assert!(0 < spent && spent <= budget, "{strategy}");
        assert_eq!(strategy["overspent_nanos"], 0, "{strategy}");
    }
}

#[test]
fn the_same_seed_makes_the_same_stream() {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: String| fs::read(path).unwrap();
    let one = read(generated(folder.path(), "one.tsv", &[]));
    assert_eq!(one, read(generated(folder.path(), "same.tsv", &["--seed", "1"])));
    assert_ne!(one, read(generated(folder.path(), "other.tsv", &["--seed", "2"])));
    let piped = vickrey(&["generate", "--auctions", "20000"]).output().unwrap();
    assert_eq!(piped.stdout, one, "without a file it is printed");
}

#[test]
fn a_stream_may_be_piped_in() {
    let mut command =
        vickrey(&["pacing", "--auctions", "-", "--budget", "1", "--strategy", "asap"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stream = "time_ms\tmarket_price_cpm\tvalue_cpm\n0\t1.5\t2\n1000\t1.5\t2\n";
    child.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && out.contains("asap"), "{out}");
}

#[test]
fn wrong_streams_and_flags_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.tsv");
    let path = path.to_str().unwrap();
    let pacing = ["pacing", "--auctions", path, "--budget", "1"];
    check(&pacing, 64, &[], &["wrong.tsv", "No such file"]);
    fs::write(path, "time_ms\tmarket_price_cpm\n1\t1\n").unwrap();
    check(&pacing, 64, &[], &["wrong.tsv", "value_cpm"]);
    fs::write(path, "time_ms\tmarket_price_cpm\tvalue_cpm\n5\t1\t1\n6\t-1\t1\n").unwrap();
    check(&pacing, 64, &[], &["wrong.tsv", "line 3", "market_price_cpm", "-1"]);
    fs::write(path, "time_ms\tmarket_price_cpm\tvalue_cpm\n5\t1\t1\n4\t1\t1\n").unwrap();
    check(&pacing, 64, &[], &["line 3", "time_ms"]);
    //     flags                                                    what is said of them
    let wrong: &[(&[&str], &[&str])] = &[
        (&["pacing", "--auctions", path], &["--budget"]),
        (&["pacing", "--auctions", path, "--budget", "-1"], &["budget"]),
        (&["pacing", "--auctions", path, "--budget", "x"], &["25.50"]),
        (&["pacing", "--auctions", path, "--budget-share", "2"], &["1/32"]),
        (&["pacing", "--auctions", path, "--budget", "1", "--strategy", "fast"], &["slot_dual"]),
        (&["generate", "--profile", "lunar"], &["lunar", "diurnal"]),
        (&["generate", "--auctions", "0"], &["auctions"]),
        (&["generate", "--duration", "9"], &["needs a unit"]),
    ];
    for (args, said) in wrong {
        check(args, 64, &[], said);
    }
}

#[test]
fn help_teaches_the_form_of_a_stream() {
    check(&["--help"], 0, &["pacing", "generate", "quality"], &[]);
    let form = ["time_ms", "market_price_cpm", "value_cpm", "--budget-share", "Examples"];
    check(&["pacing", "--help"], 0, &form, &[]);
    check(&["generate", "--list"], 0, &["diurnal", "bursty", "drift-up"], &[]);
}

/// On streams as long as the targets are of.
#[test]
fn the_default_strategy_meets_its_targets() {
    let table = check(&["quality", "--auctions", "50000"], 0, &["met"], &[]);
    assert!(!table.contains("missed"), "{table}");
}
