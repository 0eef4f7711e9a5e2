//! `vickrey log` as a user meets it, on records that are written here.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use audit::RecordKind;
use audit::testing::{START_MS, SampleAuction, SampleBid, SampleLog, gap, generation, samples};

use crate::program::{self, Running, vickrey};

/// `vickrey log`.
fn vickrey_log(args: &[&str]) -> Command {
    vickrey(&[&["log"], args].concat())
}

/// Exit code, stdout and stderr.
fn run(args: &[&str], dir: &Path) -> (i32, String, String) {
    let (code, out, err) = program::run(vickrey_log(args).arg("--dir").arg(dir));
    (code.expect("it ends by itself"), out, err)
}

#[track_caller]
fn check(args: &[&str], dir: &Path, exit: i32, stdout: &[&str], stderr: &[&str]) -> String {
    let (out, err) = program::check(vickrey_log(args).arg("--dir").arg(dir), exit, stdout, stderr);
    assert_eq!(err.is_empty(), stderr.is_empty(), "{args:?}: {err}");
    out
}

/// The sample auctions, followed by a gap.
pub fn record() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples());
    log.firehose(RecordKind::Gap.code(), START_MS + 3_700_000, &gap(5));
    folder
}

pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("firehose")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "segment"));
    files.sort();
    files
}

pub fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

#[test]
fn help_teaches() {
    let help = |args: &[&str]| {
        let output = vickrey_log(args).arg("--help").output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&[]);
    for command in ["tail", "cat", "stat", "verify", "replay", "report", "export"] {
        assert!(all.contains(command), "{all}");
    }
    let cat = help(&["cat"]);
    assert!(cat.contains("'time>=-15m publisher=news'") && cat.contains("jq"), "{cat}");
    assert!(help(&["report"]).contains("--by seat,hour"));
    assert!(help(&["export"]).contains("--format parquet"));
}

#[test]
fn cat_shows_a_line_for_each_auction() {
    let folder = record();
    let out = check(&["cat"], folder.path(), 0, &[], &[]);
    let want = "\
2026-11-22T08:00:00.000Z  generation 1 of the configuration, 3 DSPs
2026-11-22T08:00:01.000Z  00000000000000000000000000000001  news  filled     asked  3  bids  2    42.2 ms  won alpha/a1 1.51 USD
2026-11-22T08:00:02.000Z  00000000000000000000000000000002  news  filled     asked  3  bids  2    43.2 ms  won beta/b1 1.21 USD
2026-11-22T08:00:03.000Z  00000000000000000000000000000003  news  filled     asked  3  bids  2    44.2 ms  won alpha/a1 1.51 USD
2026-11-22T08:00:04.000Z  00000000000000000000000000000004  news  no_bid     asked  3  bids  0    45.2 ms
2026-11-22T08:00:05.000Z  00000000000000000000000000000005  news  filled     asked  3  bids  1    46.2 ms  won alpha/a1 0.555556 USD  test
2026-11-22T09:00:00.000Z  00000000000000000000000000000006  films  filled     asked  3  bids  2    47.2 ms  won alpha/a2 0.555556 USD
2026-11-22T09:01:40.000Z  gap: 5 auctions were not recorded
";
    assert_eq!(out, want);
}

#[test]
fn filters_choose() {
    let folder = record();
    let ids = |args: &[&str]| {
        let out = check(&[&["cat", "--json"], args].concat(), folder.path(), 0, &[], &[]);
        let id = |line: &str| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["caller_id"].as_str().unwrap().to_owned()
        };
        out.lines().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["time<2026-11-22T08:30", "seat=b1", "outcome=won"]), ["caller-2"]);
    assert_eq!(ids(&["time<2026-11-22T08:30 campaign=summer"]), ["caller-2", "caller-3"]);
}

#[test]
fn json_is_rows_and_nothing_else() {
    let folder = record();
    let (code, out, err) = run(&["cat", "--json", "publisher=films"], folder.path());
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    let row: audit::AuctionRow = serde_json::from_str(&out).unwrap();
    assert_eq!((row.publisher.as_deref(), row.sequence), (Some("films"), 6));
    // The gap is reported on stderr.
    assert_eq!(err, "2026-11-22T09:01:40.000Z  gap: 5 auctions were not recorded\n");
}

#[test]
fn tail_shows_the_last() {
    let folder = record();
    let out = check(&["tail", "-n", "2"], folder.path(), 0, &[], &[]);
    let starts: Vec<_> = out.lines().map(|line| &line[..19]).collect();
    assert_eq!(starts, ["2026-11-22T09:00:00", "2026-11-22T09:01:40"]);
    let out = check(&["tail", "-n", "1", "seat=b1"], folder.path(), 0, &["caller"; 0], &[]);
    assert!(out.contains("gap"), "a gap is told whatever is asked: {out}");
    let out = check(&["tail", "-n", "100"], folder.path(), 0, &[], &[]);
    assert_eq!(out.lines().count(), 7);
}

#[test]
fn a_wrong_filter_is_shown_with_its_place() {
    let folder = record();
    let (code, out, err) = run(&["cat", "publisher=news", "sate=a1"], folder.path());
    assert_eq!((code, out.as_str()), (64, ""));
    let want = "\
error: the filter is wrong: there is no field `sate`
  publisher=news sate=a1
                 ^^^^
did you mean `seat`? fields are time, publisher, seat, dsp, deal, campaign, format, outcome, sample and id
";
    assert_eq!(err, want);
    for command in [&["tail"][..], &["replay"], &["report", "--by", "hour"]] {
        check(
            &[command, &["seat"]].concat(),
            folder.path(),
            64,
            &[],
            &["nothing is asked of `seat`"],
        );
    }
}

#[test]
fn replay_holds_auctions_again() {
    let folder = record();
    let want = ["6 auctions: 6 identical", "5 auctions were not recorded", "read "];
    check(&["replay"], folder.path(), 0, &want, &[]);
    check(&["replay", "seat=b1"], folder.path(), 0, &["3 auctions: 3 identical"], &[]);
}

/// One price is changed by a millionth, with valid checksums.
#[test]
fn one_changed_price_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples()[..2]);
    let third = &samples()[2];
    let mut bytes = third.record();
    let price: Vec<u8> = varint(1_510_000);
    let at = bytes.windows(price.len()).position(|window| window == price).unwrap();
    bytes[at] ^= 1;
    log.firehose(RecordKind::Auction.code(), third.time_ms(), &bytes);
    let want = [
        "DIFFERENT 00000000000000000000000000000003 (node 7, epoch 1, record 3, 2026-11-22T08:00:03.000Z)\n  sales[0] (alpha, seat a1, id \"a1-0\") ",
        ": recorded 1.510001, recomputed 1.51\n",
        "3 auctions: 2 identical, 1 DIFFERENT",
    ];
    check(&["replay"], folder.path(), 1, &want, &[]);
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

#[test]
fn reports_add_up() {
    let folder = record();
    let out = check(&["report", "--by", "hour,publisher"], folder.path(), 0, &[], &[]);
    let want = "\
hour           publisher  auctions  bids  wins  fill %  spend USD   fee USD  billed USD  p50 ms  p99 ms
2026-11-22T08  news              4     6     3    75.0   0.004230  0.000423    0.000000    43.2    45.3
2026-11-22T09  films             1     2     1   100.0   0.000556  0.000056    0.000000    47.3    47.3
total                            5     8     4    80.0   0.004786  0.000479    0.000000    44.2    47.3

spend: what DSPs owe for cleared impressions. fee: our part of it. billed: what they owe for
impressions whose beacon was called. Latency is of auctions.
An auction counts once in every group that it is in, and once in the total.
1 test auction, which is not counted
5 auctions were not recorded (gaps)
";
    assert_eq!(out, want);
    let out = check(&["report", "--by", "seat", "--json", "dsp=beta"], folder.path(), 0, &[], &[]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let group = &json["groups"][0];
    assert_eq!(
        (group["seat"].as_str(), group["spend_nanos"].as_u64()),
        (Some("b1"), Some(1_210_000))
    );
    assert_eq!((json["not_recorded"].as_u64(), json["tests"].as_u64()), (Some(5), Some(0)));
    let mut refused = vickrey_log(&["report", "--by", "hours", "--dir", "."]);
    program::check(&mut refused, 64, &[], &["Did you mean `hour`?"]);
}

/// Billed amounts appear beside cleared ones. Billing without a recorded auction is reported.
#[test]
fn what_is_billed_is_reported_listed_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut log = SampleLog::of(dir, &samples());
    log.settle(START_MS + 9_000, 1, 0, 1_510_000);
    log.settle(START_MS + 3_700_000, 77, 3, 2_000_000);
    drop(log);
    let short = "1 beacon was billed for auctions that are not in the record, and not included here \
                 (0.002000 USD to accounts)";
    let out = check(&["report", "--by", "day"], dir, 0, &["billed USD", short], &[]);
    assert!(out.contains("0.004786  0.000479    0.001510"), "{out}");
    let out = check(&["report", "--by", "day", "--json"], dir, 0, &[], &[]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let total = &json["totals"][0];
    assert_eq!((&total["billed"], &total["billed_nanos"]), (&1.into(), &1_510_000.into()));
    assert_eq!(json["billed_not_recorded_nanos"]["USD"], 2_000_000);

    let out = check(&["cat", "--settlements"], dir, 0, &[], &[]);
    let want = "\
2026-11-22T08:00:09.000Z  00000000000000000000000000000001  bid 0  0.001510 USD
2026-11-22T09:01:40.000Z  0000000000000000000000000000004d  bid 3  0.002000 USD
";
    assert_eq!(out, want);
    let rows =
        check(&["cat", "--settlements", "--json", "time>=2026-11-22T09:00"], dir, 0, &[], &[]);
    let row: serde_json::Value = serde_json::from_str(rows.trim()).unwrap();
    assert_eq!((&row["amount_nanos"], &row["currency"]), (&2_000_000.into(), &"USD".into()));
    check(&["cat", "--settlements", "seat=a1"], dir, 64, &[], &["chosen by `time` alone"]);

    let rows = dir.join("settled");
    let args = ["export", "--settlements", "--format", "jsonl", "--out", rows.to_str().unwrap()];
    check(&args, dir, 0, &["2 rows of 3 records in 2 files"], &[]);
    check(&args, dir, 0, &["0 rows"], &[]);
    let out = check(&[&args[..], &["--json"]].concat(), dir, 0, &[], &[]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["rows"], &json["resumed_behind"]["sequence"]), (&0.into(), &3.into()));
    let auctions = ["export", "--format", "jsonl", "--out", rows.to_str().unwrap()];
    check(&auctions, dir, 64, &[], &["settlements"]);
    let parquet = dir.join("parquet");
    let args =
        ["export", "--settlements", "--format", "parquet", "--out", parquet.to_str().unwrap()];
    check(&args, dir, 0, &["2 rows of 3 records in 2 files"], &[]);
}

#[test]
fn a_report_by_nothing_says_what_to_ask() {
    let folder = record();
    let want =
        ["hour, day, publisher, format, dsp, seat, deal, campaign", "vickrey log report --by day"];
    check(&["report"], folder.path(), 64, &[], &want);
}

/// Auctions with the same missing generation make one line.
#[test]
fn auctions_without_their_generation_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let bids = [SampleBid::new(0, "a1", "2")];
    let samples =
        (1..=60).map(|number| SampleAuction { generation: 9, ..SampleAuction::new(number, &bids) });
    SampleLog::of(folder.path(), &samples.collect::<Vec<_>>());
    let out = check(&["replay"], folder.path(), 1, &[], &[]);
    let want = "NO GENERATION 9: 60 auctions not replayed, the first is 00000000000000000000000000000001 (node 7, \
                epoch 1, record 1, 2026-11-22T08:00:01.000Z)\n";
    assert!(out.starts_with(want) && out.matches("NO GENERATION").count() == 1, "{out}");
    let out = check(&["replay", "--json"], folder.path(), 1, &[], &[]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["without_generation"][0]["auctions"], 60);
    assert_eq!((&json["exact"], &json["auctions"]), (&false.into(), &60.into()));
}

#[test]
fn stat_and_verify_tell_what_is_there() {
    let folder = record();
    let want = [
        "durable (",
        ", node 7)",
        "records    1: generation 1",
        "records    7: auction 6, gap 1",
        "times      2026-11-22T08:00:01.000Z to 2026-11-22T09:01:40.000Z",
        "epochs     1",
        "missing    5 auctions in gaps",
    ];
    check(&["stat"], folder.path(), 0, &want, &[]);
    let verified = [&want[..], &["sound: "]].concat();
    check(&["verify"], folder.path(), 0, &verified, &[]);
    check(&["verify", "--deep"], folder.path(), 0, &verified, &[]);
}

/// Loss or change after a clean stop is damage, and a noted hash reveals it.
#[test]
fn a_sealed_end_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let bids = [SampleBid::new(0, "a1", "2")];
    let samples: Vec<_> = (1..30).map(|number| SampleAuction::new(number, &bids)).collect();
    SampleLog::of(dir, &samples).seal(START_MS);
    let sealed =
        ["chain      29 records through 29, hash ", "end        sealed 2026-11-22T08:00:00.000Z"];
    check(&["verify"], dir, 0, &sealed, &[]);
    let json = |exit| {
        let out = check(&["verify", "--json"], dir, exit, &[], &[]);
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    let whole = json(0);
    let chain = &whole["lanes"][1]["chain"];
    assert_eq!((&whole["sound"], &chain["end"]), (&true.into(), &"sealed".into()), "{whole}");
    let hash = chain["hash"].as_str().unwrap().to_owned();
    check(&["verify", "--expect", &hash], dir, 0, &["sound: "], &[]);
    let other = "0".repeat(64);
    check(&["verify", "--expect", &other], dir, 1, &["NOT IN THE CHAIN 0000"], &[]);
    check(&["verify", "--expect", "12"], dir, 64, &[], &["a hash has 64 hexadecimal digits"]);
    // The log continues, and the hash stays in the chain.
    drop(SampleLog::of(dir, &[SampleAuction::new(31, &bids)]));
    check(&["verify", "--expect", &hash], dir, 0, &["end        open: it is being written"], &[]);
    let newest = segments(dir).pop().unwrap();
    fs::remove_file(newest).unwrap();
    check(&["verify"], dir, 1, &["which had begun, is missing", "DAMAGED: "], &[]);
    assert_eq!(json(1)["lanes"][1]["chain"]["end"], "segment_missing");
}

/// A firehose without records that the durable lane names, after an unclean stop.
#[test]
fn records_lost_in_a_crash_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples());
    log.watermark(START_MS + 5000, 9);
    drop(log);
    let want = [
        "records 7 to 9 are missing",
        "known      through record 9, by the durable lane at 2026-11-22T08:00:05.000Z",
    ];
    check(&["verify"], folder.path(), 1, &want, &[]);
    check(&["report", "--by", "hour"], folder.path(), 1, &[], &["records 7 to 9 are missing"]);
}

#[test]
fn a_record_cut_to_nothing_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &[SampleAuction::new(1, &[])]).seal(START_MS);
    fs::remove_file(&segments(folder.path())[0]).unwrap();
    check(&["verify"], folder.path(), 1, &["records 1 to 1 are missing", "DAMAGED: "], &[]);
}

/// Every command reports the damage with its position, and reads the rest.
#[test]
fn damage_is_told_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let bids = [SampleBid::new(0, "a1", "2")];
    let samples: Vec<_> = (1..30).map(|number| SampleAuction::new(number, &bids)).collect();
    SampleLog::of(folder.path(), &samples);
    let dir = folder.path();
    let files = segments(dir);
    assert!(files.len() > 1, "{files:?}");
    let name = files[0].file_name().unwrap().to_str().unwrap();
    edit(&files[0], |bytes| bytes[200] ^= 1);
    let place = format!("{name}, byte 88: the payload of record 1 is damaged (");
    let damaged = format!("damaged: {place}");
    check(&["verify"], dir, 1, &["DAMAGED", &place, "auction 28"], &[]);
    // The index is valid: only reading shows the damage.
    check(&["stat"], dir, 0, &["auction 29"], &[]);
    let out = check(&["cat"], dir, 1, &[], &[&damaged]);
    assert_eq!(out.lines().count(), 29, "a generation and 28 auctions");
    check(&["tail", "-n", "100"], dir, 1, &[], &[&damaged]);
    check(&["replay"], dir, 1, &["28 auctions: 28 identical"], &[&damaged]);
    check(&["report", "--by", "hour"], dir, 1, &["2026-11-22T08"], &[&damaged]);
    let rows = tempfile::tempdir().unwrap();
    let rows = rows.path().join("rows");
    let export = ["export", "--format", "jsonl", "--out", rows.to_str().unwrap()];
    check(&export, dir, 1, &["28 rows"], &[&damaged]);
    // Valid frames with unreadable content.
    let mut log = SampleLog::open(dir, 4096);
    log.firehose(RecordKind::Auction.code(), START_MS, b"no record");
    check(
        &["verify", "--deep"],
        dir,
        1,
        &["UNREADABLE node 7, epoch 2, record 30, auction: "],
        &[],
    );
    check(&["cat"], dir, 1, &[], &["unreadable: node 7, epoch 2, record 30: "]);
}

#[test]
fn directories_that_are_no_record_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let all = [
        &["cat"][..],
        &["tail"],
        &["stat"],
        &["verify"],
        &["replay"],
        &["report", "--by", "hour"],
        &["export", "--format", "jsonl", "--out", "/nowhere/rows"],
    ];
    for command in all {
        check(command, &dir.join("nowhere"), 66, &[], &["nowhere cannot be read: No such file"]);
        check(command, dir, 64, &[], &["holds no record: the folders `durable` and `firehose`"]);
    }
    fs::create_dir(dir.join("firehose")).unwrap();
    for command in all {
        check(command, dir, 69, &[], &["is empty: nothing has been recorded there yet"]);
    }
    let record = record();
    check(&["stat"], &record.path().join("firehose"), 64, &[], &["is one lane of a record: name"]);
    // A valid header of version 9.
    for file in segments(record.path()) {
        edit(&file, |bytes| {
            bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
            let check = crc32c(&[&bytes[..12], &bytes[16..44]].concat());
            bytes[12..16].copy_from_slice(&check.to_le_bytes());
        });
    }
    for command in all {
        let want = "has format version 9, known is 3: use the release that wrote it";
        check(command, record.path(), 69, &[], &[want]);
    }
}

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn where_the_record_is_must_be_said() {
    program::check(&mut vickrey_log(&["stat"]), 64, &[], &["<--dir <DIR>|--config <FILE>>"]);
}

/// A reader that closes the pipe after the first line is no error.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let bids = [SampleBid::new(0, "a1", "2")];
    let samples: Vec<_> = (1..2000).map(|number| SampleAuction::new(number, &bids)).collect();
    let mut log = SampleLog::of(folder.path(), &[]);
    log.many(&samples);
    let mut child = vickrey_log(&["cat", "--json", "--dir", folder.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

#[test]
fn tail_follows_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples()[..1]);
    let mut child = Running(
        vickrey_log(&["tail", "-f", "--dir", folder.path().to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(child.0.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line
    };
    assert!(next().contains("00000001  news"));
    for sample in &samples()[1..3] {
        log.auction(sample);
    }
    assert!(next().contains("00000002  news") && next().contains("00000003  news"));
    log.durable(RecordKind::Generation.code(), START_MS + 4000, &generation(2, START_MS + 4000));
    assert!(next().contains("generation 2 of the configuration, 3 DSPs"));
    log.auction(&SampleAuction { generation: 2, ..samples()[3].clone() });
    assert!(next().contains("00000004  news"));
    // Ctrl-C ends it with success.
    child.signal("-INT");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!((child.0.wait().unwrap().code(), rest.as_str()), (Some(0), ""));
}

#[test]
fn export_goes_on_where_it_ended() {
    let folder = record();
    let rows = folder.path().join("rows");
    for format in ["jsonl", "parquet"] {
        let out = rows.join(format);
        let args = ["export", "--format", format, "--out", out.to_str().unwrap()];
        let want = ["6 rows of 7 records in 2 files", "5 auctions were not recorded"];
        check(&args, folder.path(), 0, &want, &[]);
        check(&args, folder.path(), 0, &["0 rows", "continued after record 7 of epoch 1"], &[]);
    }
    let mut files = Vec::new();
    find(&rows.join("jsonl"), &mut files);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(text.lines().count(), 6);
    // Another filter is another export.
    let out = rows.join("jsonl");
    let args = ["export", "--format", "jsonl", "--out", out.to_str().unwrap(), "seat=a1"];
    let (code, _, err) = run(&args, folder.path());
    assert_eq!(code, 64, "{err}");
    let args = ["export", "--format", "csv", "--out", "x", "--dir", "."];
    assert_eq!(vickrey_log(&args).output().unwrap().status.code(), Some(64));
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { find(&path, files) } else { files.push(path) }
    }
}

/// End to end: real auctions over real sockets, each replayed from its record.
#[test]
fn a_demo_comes_out_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let args = ["demo", "--duration", "2s", "--rate", "60", "--dsps", "6", "--record"];
    let want = ["replayed from the record", " identical"];
    program::check(vickrey(&args).arg(&record), 0, &want, &[]);
    let again = check(&["replay"], &record, 0, &[" identical"], &[]);
    let (auctions, _) = again.split_once(" auctions: ").unwrap();
    assert!(auctions.parse::<u64>().unwrap() > 60, "{again}");
    check(&["report", "--by", "seat", "outcome=won"], &record, 0, &["northwind"], &[]);
    // Its sales were billed to budgets that are gone, so no other demo may continue the record.
    let mut again = vickrey(&["demo", "--duration", "1s", "--dsps", "1", "--record"]);
    program::check(again.arg(&record), 64, &[], &["holds a record; name an empty directory"]);
}

#[test]
fn a_configuration_says_where_the_record_is() {
    let folder = record();
    let file = folder.path().join("vickrey.toml");
    let stat = |text: &str| {
        fs::write(&file, text).unwrap();
        let (code, _, said) = program::run(vickrey_log(&["stat", "--config"]).arg(&file));
        (code, said)
    };
    let tables = format!("[exchange]\n[record]\ndirectory = {:?}\n", folder.path());
    assert_eq!(stat(&tables), (Some(0), String::new()));
    let (code, said) = stat("[exchange]\n");
    assert!(code == Some(64) && said.contains("has no [record]"), "{said}");
    let (code, said) = stat("[exchange]\nlisten = 1\n");
    assert!(code == Some(64) && said.contains("exchange.listen"), "{said}");
}

/// The export of one log must not be continued with another.
#[test]
fn a_log_that_ends_before_its_export_is_refused() {
    let folder = record();
    let rows = folder.path().join("rows");
    let out = rows.to_str().unwrap();
    let args = ["export", "--format", "jsonl", "--out", out];
    check(&args, folder.path(), 0, &["rows"], &[]);
    fs::remove_dir_all(folder.path().join("firehose")).unwrap();
    SampleLog::of(folder.path(), &samples()[..1]);
    check(&args, folder.path(), 64, &[], &["it is not the log that it was"]);
}

/// Retention does not wait for exports.
#[test]
fn what_was_gone_before_its_export_is_told() {
    let folder = record();
    let rows = folder.path().join("rows");
    let args = ["export", "--format", "jsonl", "--out", rows.to_str().unwrap()];
    check(&args, folder.path(), 0, &["6 rows"], &[]);
    let mut log = SampleLog::open(folder.path(), 4096);
    (0..40).for_each(|_| log.auction(&samples()[0]));
    log.retain_newest();
    drop(log);
    let (code, out, err) = run(&args, folder.path());
    assert!(code == 1 && out.contains("records 8 to "), "{out}{err}");
    assert!(out.contains("were gone before they were exported"), "{out}");
    check(&args, folder.path(), 0, &["0 rows"], &[]);
}

#[test]
fn an_export_goes_by_times_that_stay() {
    let folder = record();
    let rows = folder.path().join("rows");
    let args = ["export", "--format", "jsonl", "--out", rows.to_str().unwrap(), "time>=-1h"];
    check(&args, folder.path(), 64, &[], &["must not count from now"]);
}
