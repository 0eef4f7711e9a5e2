//! `vickrey simulate` as a user sees it: generating a stream, spending a budget on it, and messages
//! about wrong files and flags.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{self, signal, vickrey};

/// `vickrey simulate`.
fn simulate(args: &[&str]) -> Command {
    vickrey(&[&["simulate"], args].concat())
}

#[track_caller]
fn check(args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) -> String {
    program::check(&mut simulate(args), exit, stdout, stderr).0
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
    let piped = simulate(&["generate", "--auctions", "20000"]).output().unwrap();
    assert_eq!(piped.stdout, one, "without a file it is printed");
}

#[test]
fn a_stream_may_be_piped_in() {
    let mut command =
        simulate(&["pacing", "--auctions", "-", "--budget", "1", "--strategy", "asap"]);
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
        (&["pacing", "--auctions", path, "--budget", "1", "--slot", "0s"], &["0s", "1ms", "30s"]),
        (&["pacing", "--auctions", path, "--budget", "1", "--slot", "9"], &["--slot", "a unit"]),
        (&["pacing", "--auctions", path, "--budget", "1", "--ahead", "1.5"], &["1.5", "0 to 1"]),
        (&["pacing", "--auctions", path, "--budget", "1", "--ahead", "-0.1"], &["-0.1", "0 to 1"]),
        (&["pacing", "--auctions", path, "--budget", "1", "--ahead", "NaN"], &["NaN", "0 to 1"]),
        (&["generate", "--profile", "lunar"], &["lunar", "diurnal"]),
        (&["generate", "--auctions", "0"], &["auctions"]),
        (&["generate", "--duration", "9"], &["needs a unit"]),
    ];
    for (args, said) in wrong {
        check(args, 64, &[], said);
    }
}

/// Slots have the requested length, in samples and in the output; too many are refused with a valid
/// length.
#[test]
fn slots_and_how_far_the_target_runs_ahead_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let stream = generated(folder.path(), "a.tsv", &["--profile", "flat", "--duration", "24h"]);
    let budget = ["pacing", "--auctions", &stream, "--budget-share", "1/8"];
    let default = ["--strategy", "slot_dual"];
    let report = |more: &[&str]| -> serde_json::Value {
        let args = [&budget[..], &default, more, &["--json"]].concat();
        serde_json::from_str(&check(&args, 0, &[], &[])).unwrap()
    };
    let by_default = report(&[])["slot_ms"].as_u64().unwrap();
    assert!((59_000..60_000).contains(&by_default), "a 1440th of nearly a day: {by_default}");
    let (slow, fast) = (report(&["--slot", "2h"]), report(&["--slot", "10s"]));
    assert_eq!((&slow["slot_ms"], &fast["slot_ms"]), (&7_200_000.into(), &10_000.into()));
    let rmse =
        |report: &serde_json::Value| report["strategies"][0]["rmse_target"].as_f64().unwrap();
    assert!(rmse(&fast) < rmse(&slow), "who decides more often is nearer to its curve");
    check(&[&budget[..], &["--slot", "10s"]].concat(), 0, &["at the end of each slot (10 s)"], &[]);
    let many = ["slots of 1 ms", "give slots of 44 ms or more"];
    check(&[&budget[..], &["--slot", "1ms"]].concat(), 64, &[], &many);
    // The traffic is even, and the target is ahead of it.
    let even = |report: &serde_json::Value| report["strategies"][0]["rmse_even"].as_f64().unwrap();
    let (ahead, beside) = (report(&["--ahead", "1"]), report(&["--ahead", "0"]));
    assert_eq!((&ahead["ahead"], &beside["ahead"]), (&1.0.into(), &0.0.into()));
    assert!(even(&ahead) > 0.1 && rmse(&ahead) < 0.05, "{ahead}");
    assert!(even(&beside) < 0.05, "{beside}");
    let said = ["and it runs ahead of that by 0.5"];
    check(&[&budget[..], &["--ahead", "0.5"]].concat(), 0, &said, &[]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_stream_takes_its_place_once_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.tsv");
    generated(folder.path(), "day.tsv", &[]);
    let (first, mode) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().permissions());
    let any = folder.path().join("any");
    fs::write(&any, "").unwrap();
    assert_eq!(mode, fs::metadata(&any).unwrap().permissions(), "as any new file");
    fs::remove_file(any).unwrap();
    // Through a link, with the same permissions.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("day.tsv", folder.path().join("link.tsv")).unwrap();
    generated(folder.path(), "link.tsv", &["--seed", "2"]);
    assert_ne!(fs::read(&path).unwrap(), first);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(folder.path().join("link.tsv").is_symlink());
    assert_eq!(names(folder.path()), ["day.tsv", "link.tsv"]);
    // A non-file is written to directly.
    let said =
        simulate(&["generate", "--auctions", "20000", "--out", "/dev/stdout"]).output().unwrap();
    assert_eq!(said.stdout, first);
    let full = ["generate", "--out", "/dev/full"];
    check(&full, 69, &[], &["cannot write /dev/full", "No space left"]);
    let into = folder.path().join("none/day.tsv");
    check(
        &["generate", "--out", into.to_str().unwrap()],
        69,
        &[],
        &["none/day.tsv", "No such file"],
    );
    let dir = folder.path().to_str().unwrap();
    check(&["generate", "--out", dir], 69, &[], &["cannot write", "directory"]);
    assert_eq!(names(folder.path()), ["day.tsv", "link.tsv"]);
}

/// As on a full disk: no file may grow beyond 64 KiB.
#[test]
fn a_stream_that_does_not_fit_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day.tsv");
    fs::write(&path, "as it was").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\""]);
    shell.args([env!("CARGO_BIN_EXE_vickrey"), "simulate", "generate", "--out"]).arg(&path);
    let output = shell.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("cannot write") && said.contains("day.tsv: File too large"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
    assert_eq!(names(folder.path()), ["day.tsv"]);
}

#[test]
fn ctrl_c_leaves_what_was_there() {
    for name in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("day.tsv");
        fs::write(&path, "as it was").unwrap();
        let mut command = simulate(&["generate", "--auctions", "1000000000", "--out"]);
        let child = command.arg(&path).stderr(Stdio::piped()).spawn().unwrap();
        // It has started once there is a temporary file.
        let began = Instant::now();
        while names(folder.path()).len() < 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", names(folder.path()));
            std::thread::yield_now();
        }
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{said}");
        // Progress is for terminals.
        assert!(said.starts_with("error: stopped: ") && said.contains("as it was"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
        assert_eq!(names(folder.path()), ["day.tsv"]);
    }
}

#[test]
fn help_teaches_the_form_of_a_stream() {
    check(&["--help"], 0, &["pacing", "generate", "quality"], &[]);
    let form = ["time_ms", "market_price_cpm", "value_cpm", "--budget-share", "Examples"];
    check(&["pacing", "--help"], 0, &form, &[]);
    check(&["generate", "--list"], 0, &["diurnal", "bursty", "drift-up"], &[]);
}

/// On streams half as long as those of the targets.
#[test]
fn the_default_strategy_meets_its_targets() {
    let table = check(&["quality", "--auctions", "100000"], 0, &["met"], &[]);
    assert!(!table.contains("missed"), "{table}");
}
