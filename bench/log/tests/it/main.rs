//! The tool's output matches the log that it leaves.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The tool's output.
fn run(arguments: &[&str], directory: &Path) -> Vec<Value> {
    let (command, options) = arguments.split_first().expect("a command");
    let output = Command::new(env!("CARGO_BIN_EXE_bench-log"))
        .arg(command)
        .arg(directory)
        .args(options)
        .output()
        .expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn texts(lines: &[Value], name: &str) -> Vec<String> {
    lines.iter().map(|line| line[name].as_str().expect("text").to_owned()).collect()
}

fn numbers(lines: &[Value], name: &str) -> Vec<u64> {
    lines.iter().map(|line| line[name].as_u64().expect("a number")).collect()
}

#[test]
fn raw_rounds_write_what_the_log_did_in_its_groups() {
    let temporary = tempfile::tempdir().unwrap();
    let options = ["--records", "300", "--in-flight", "10", "--rounds", "1", "--payload", "100"];
    let lines = run(&[&["commit"], &options[..]].concat(), temporary.path());
    let raw = ["raw, set aside", "raw, written before"];
    assert_eq!(texts(&lines, "who"), ["log", raw[0], raw[1], raw[0], raw[1], "log"]);
    assert_eq!(numbers(&lines, "records"), [300; 6], "all were acknowledged");
    // A frame consists of its header and its payload.
    assert_eq!(numbers(&lines, "bytes"), [300 * 136; 6]);
    let groups = numbers(&lines, "groups");
    assert!(groups[0] >= 300 / 20, "so many may wait together: {groups:?}");
    assert_eq!(groups[1..5], [groups[0]; 4]);
    assert_eq!(numbers(&lines, "syncs")[1], groups[0]);
    assert!(numbers(&lines, "syncs")[0] > groups[0], "segments are begun, too");
    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "it removes what it wrote");
}

#[test]
fn a_log_is_filled_torn_opened_and_read() {
    let temporary = tempfile::tempdir().unwrap();
    let log = temporary.path().join("log");
    let filled = run(&["fill", "--mebibytes", "160", "--payload", "65536"], &log);
    assert_eq!(texts(&filled, "who"), ["durable", "firehose"]);
    // 20 and 140 MiB in segments of 64 MiB.
    let segments = numbers(&filled, "segments");
    assert!(segments[0] >= 1 && segments[1] >= 3, "{segments:?}");
    for name in ["durable", "firehose"] {
        let names = std::fs::read_dir(log.join(name)).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
        let of = |kind| names.iter().filter(|path| path.extension() == Some(kind)).count();
        assert_eq!(of("index".as_ref()) + 1, of("segment".as_ref()), "of all but the newest");
    }
    let total = numbers(&run(&["scan", "--rounds", "1"], &log)[..1], "records")[0];
    let is_torn = |log: &Path| run(&["open"], log)[0]["is_torn"].as_bool().expect("it is said");
    assert!(!is_torn(&log));
    for _ in 0..2 {
        run(&["tear"], &log);
        assert!(is_torn(&log), "each time anew");
        assert!(!is_torn(&log), "and once");
    }
    run(&["forget"], &log);
    let lines = run(&["scan", "--rounds", "2", "--cache", "cold"], &log);
    assert_eq!(texts(&lines, "who"), ["log", "raw", "raw", "log"].repeat(2));
    // Both lanes lost the end of one record, twice.
    let left = lines[0]["records"].as_u64().expect("a number");
    assert!(left < total && left + 4 >= total, "{left} of {total}");
    assert_eq!(numbers(&run(&["read"], &log), "bytes"), [numbers(&lines, "bytes")[0]]);

    let again = temporary.path().join("again");
    let from = log.to_str().expect("text").to_owned();
    run(&["fill", "--mebibytes", "200", "--from", &from], &again);
    let more = numbers(&run(&["scan", "--rounds", "1"], &again)[..1], "records")[0];
    assert!(more > left, "the firehose's records were written again: {more} of {left}");
}
