//! Every problem of the record's keys, word for word, and the effect of their values.

use std::time::Duration;

use runtime::config::{default_toml, describe, parse};

use super::*;

fn problems_of(text: &str) -> Vec<String> {
    let problems = parse("vickrey.toml", text, RecordConfig::read).err();
    let lines = problems.iter().flat_map(|problems| problems.iter().map(ToString::to_string));
    lines.collect()
}

#[track_caller]
fn check(table: &str, keys: &str, want: &[&str]) {
    let text = format!("[record{table}]\n{keys}");
    assert_eq!(problems_of(&text), want, "{text}");
}

#[test]
fn what_is_kept_has_limits() {
    let age = "line 2: record.durable.keep_for = \"1h\": must not be shorter than that of \
               [record.firehose]: auctions are recomputed by the configuration that they were held by";
    check(".durable", "keep_for = \"1h\"", &[age]);
    check(".durable", "keep_for = \"168h\"", &[]);
    check(".durable", "keep_for = \"0s\"", &[]);
    check(".durable", "keep_for = \"1h\"\n[record.firehose]\nkeep_for = \"1h\"", &[]);
    let forever = "line 2: record.durable.keep_for = \"720h\": must not be shorter than that of \
                   [record.firehose]: auctions are recomputed by the configuration that they were held by";
    check(".durable", "keep_for = \"720h\"\n[record.firehose]\nkeep_for = \"0s\"", &[forever]);
    let bytes = "line 2: record.firehose.keep_bytes = \"268435455B\": must be at least 256MiB, or 0B \
                 for no limit";
    check(".firehose", "keep_bytes = \"268435455B\"", &[bytes]);
    check(".firehose", "keep_bytes = \"256MiB\"", &[]);
    check(".firehose", "keep_bytes = \"0B\"", &[]);
    check(".firehose", "ring = \"1088KiB\"", &[]);
    assert_eq!(problems_of("[record.firehose]\nring = \"1087KiB\"").len(), 1);
    check(".durable", "commit_after = \"10s\"", &[]);
    assert_eq!(problems_of("[record.durable]\ncommit_after = \"11s\"").len(), 1);
    check("", "node = 4294967295", &[]);
    assert_eq!(problems_of("[record]\nnode = 4294967296").len(), 1);
}

#[test]
fn a_former_key_names_its_successor() {
    let moved = "line 1: record.bodies: is now called `exchange.bodies`, rename it";
    check(".bodies", "sample = \"1%\"", &[moved]);
    check(".bodies.masks", "ip = false", &[moved]);
}

#[test]
fn the_default_file_loads_clean() {
    let text = default_toml(&describe(RecordConfig::read));
    assert_eq!(problems_of(&text), Vec::<String>::new());
    let config = parse("default", &text, RecordConfig::read).expect("it is sound");
    assert_eq!(config, None, "nothing is recorded by default");
}

#[test]
fn a_lane_is_kept_as_configured() {
    let text = "[record]\nnode = 3\n[record.firehose]\nkeep_bytes = \"1GiB\"\nkeep_for = \"2h\"\n\
                commit_after = \"2s\"\n[record.durable]\nkeep_bytes = \"0B\"";
    let record = parse("vickrey.toml", text, RecordConfig::read).unwrap().unwrap();
    let options = record.options();
    assert_eq!((options.durable.writer.node, options.firehose.writer.node), (3, 3));
    let kept = |lane: &LaneOptions| {
        (lane.retention.bytes_max, lane.retention.age_max.map(|age| age.as_secs()))
    };
    assert_eq!(kept(&options.firehose), (Some(1 << 30), Some(7200)));
    assert_eq!(kept(&options.durable), (None, Some(720 * 3600)));
    assert_eq!(options.firehose.commit.after, Duration::from_secs(2));
    assert_eq!(options.durable.gather.bytes, 256 << 10);
}
