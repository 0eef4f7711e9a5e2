//! `vickrey simulate pacing --log` and `extract` as a user sees them: a budget is tried on the
//! record of an exchange, on handwritten records and on real ones.

use std::fs;
use std::path::Path;

use audit::RecordKind;
use audit::testing::{START_MS, SampleAuction, SampleBid, SampleLog, samples};
use events::v1;
use prost::Message as _;
use serde_json::Value;

use crate::log::{edit, record, segments};
use crate::program::{self, vickrey};

/// Exit code, stdout and stderr.
fn run(args: &[&str]) -> (i32, String, String) {
    let (code, out, err) = program::run(&mut vickrey(args));
    (code.expect("it ends by itself"), out, err)
}

#[track_caller]
fn check(args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) -> String {
    let (out, err) = program::check(&mut vickrey(args), exit, stdout, stderr);
    assert_eq!(err.is_empty(), stderr.is_empty(), "{args:?}: {err}");
    out
}

/// The arguments for the log at `dir` and an absolute budget.
fn pacing<'a>(dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["simulate", "pacing", "--budget", "0.002", "--log", dir.to_str().unwrap()];
    [&args[..], more].concat()
}

fn extract<'a>(dir: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate", "extract", "--log", dir.to_str().unwrap()][..], more].concat()
}

/// A record as another writer would produce it: valid and complete.
fn rewritten(sample: &SampleAuction, change: impl FnOnce(&mut v1::Auction)) -> Vec<u8> {
    let mut message = v1::Auction::decode(&*sample.record()).unwrap();
    change(&mut message);
    message.length = 0;
    message.length = u32::try_from(message.encoded_len()).unwrap();
    message.encode_to_vec()
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_campaign_is_tried_on_what_it_met() {
    let folder = record();
    let args = pacing(folder.path(), &["--campaign", "summer", "--strategy", "asap"]);
    let out = check(&args, 0, &[], &[]);
    let head: Vec<_> = out.lines().take(4).collect();
    let want = [
        "log       campaign summer, in USD: won 2 for 0.00272; the value is what was bid",
        "left out  5 auctions that were not recorded",
        "auctions  2 in 1001 ms, second price",
        "budget    0.002; bidding at value would spend 0.00272",
    ];
    assert_eq!(head, want, "{out}");
    // The budget does not suffice for both, so the first one is bought.
    let report = parsed(&check(&[&args[..], &["--json"]].concat(), 0, &[], &[]));
    let asap = &report["strategies"][0];
    assert_eq!((&asap["wins"], &asap["spent_nanos"]), (&1.into(), &1_210_000.into()), "{report}");
    let log = &report["log"];
    assert_eq!(log["buyer"], "campaign summer");
    assert_eq!((&log["currency"], &log["value"]), (&"USD".into(), &"bid".into()));
    assert_eq!((&log["wins"], &log["paid_nanos"]), (&2.into(), &2_720_000.into()));
    assert_eq!(log["left_out"]["not_recorded"], 5);
}

/// Times are the auctions', prices are the prices to beat.
#[test]
fn a_stream_of_what_was_met_is_extracted() {
    let folder = record();
    let said = ["log       campaign summer, in USD", "left out"];
    let header = "time_ms\tmarket_price_cpm\tvalue_cpm\n";
    let row = |seconds: u64, rest: &str| format!("{}\t{rest}\n", START_MS + seconds * 1000);
    let out = check(&extract(folder.path(), &["--campaign", "summer"]), 0, &[], &said);
    assert_eq!(out, format!("{header}{}{}", row(2, "1.21\t1.5"), row(3, "1.51\t3")));
    // A seat, a window of time, another value.
    let more = ["--seat", "alpha/a1", "--value", "1.505", "time<2026-11-22T08:00:02Z"];
    let out = check(&extract(folder.path(), &more), 0, &[], &["seat alpha/a1", "as given"]);
    assert_eq!(out, format!("{header}{}", row(1, "1.505\t1.505")));
    // The same stream gives the same result from the log and from its file.
    let file = folder.path().join("a2.tsv");
    let file = file.to_str().unwrap();
    check(&extract(folder.path(), &["--seat", "a2", "--out", file]), 0, &[], &["seat a2"]);
    let budget = ["--json", "--budget-share", "1/2"];
    let from = |source: &[&str]| {
        let args = [&["simulate", "pacing"][..], &budget, source].concat();
        let mut report = parsed(&check(&args, 0, &[], &[]));
        report.as_object_mut().unwrap().remove("log");
        report
    };
    let dir = folder.path().to_str().unwrap();
    assert_eq!(from(&["--log", dir, "--seat", "a2"]), from(&["--auctions", file]));
}

#[test]
fn who_is_not_there_is_told_beside_who_is() {
    let folder = record();
    let told = |more: &[&str], said: &[&str]| {
        check(&pacing(folder.path(), more), 64, &[], said);
    };
    told(&["--campaign", "sumer"], &["has no bid of campaign sumer", "did you mean `summer`?"]);
    told(&["--campaign", "x"], &["no bid of campaign x", "there are bids of summer"]);
    told(
        &["--seat", "beta/a1"],
        &["no bid of seat beta/a1", "there are bids of a1", "5 auctions that were not"],
    );
    told(&["--account", "acme"], &["no bid of account acme"]);
    let filtered = ["--campaign", "summer", "publisher=films"];
    told(&filtered, &["no bid of campaign summer in the auctions that the filter holds for"]);
    let tests = ["--seat", "a1", "id=caller-5"];
    told(&tests, &["1 bid of seat a1", "not one whose price decided", "1 test auction"]);
    // Outside text is escaped.
    told(&["--campaign", "\u{1b}[31m"], &["campaign \\u{1b}[31m"]);
}

#[test]
fn wrong_flags_are_told_with_their_remedy() {
    let folder = record();
    let dir = folder.path().to_str().unwrap();
    let file = folder.path().join("a.tsv");
    fs::write(&file, "time_ms\tmarket_price_cpm\tvalue_cpm\n5\t1\t2\n").unwrap();
    let stream = ["--auctions", file.to_str().unwrap()];
    let log = ["--log", dir, "--seat", "a1"];
    let told = |args: &[&str], said: &[&str]| {
        let command = ["simulate", "pacing", "--budget", "1"];
        check(&[&command[..], args].concat(), 64, &[], said);
    };
    told(&[], &["--auctions", "--log"]);
    told(&["--log", dir], &["--campaign", "--account", "--seat"]);
    told(&["--campaign", "summer"], &["--log"]);
    told(&[&stream[..], &log].concat(), &["cannot be used with"]);
    told(&[&log[..], &["--campaign", "summer"]].concat(), &["cannot be used with"]);
    told(&[&stream[..], &["--value", "1"]].concat(), &["--log"]);
    told(&[&stream[..], &["publisher=news"]].concat(), &["a filter is of a log's auctions"]);
    told(&[&log[..], &["--value", "-1"]].concat(), &["--value", "-1", "2.50"]);
    told(&[&log[..], &["--currency", "usd"]].concat(), &["--currency", "usd", "USD"]);
    told(&[&log[..], &["sate=b"]].concat(), &["the filter is wrong", "sate"]);
    check(&["simulate", "extract"], 64, &[], &["--log"]);
    check(&extract(folder.path(), &[]), 64, &[], &["--campaign", "--account", "--seat"]);
}

#[test]
fn a_directory_that_is_no_log_is_told() {
    let folder = record();
    let seat = ["--seat", "a1"];
    let lane = folder.path().join("firehose");
    check(&pacing(&lane, &seat), 64, &[], &["is one lane of a record"]);
    let other = tempfile::tempdir().unwrap();
    check(&pacing(other.path(), &seat), 64, &[], &["holds no record"]);
    check(&pacing(&other.path().join("none"), &seat), 66, &[], &["none cannot be read"]);
    fs::create_dir_all(other.path().join("durable")).unwrap();
    fs::create_dir_all(other.path().join("firehose")).unwrap();
    check(&pacing(other.path(), &seat), 69, &[], &["nothing has been recorded there yet"]);
    // Only generations.
    SampleLog::of(other.path(), &[]);
    check(&pacing(other.path(), &seat), 64, &[], &["has no bid of seat a1"]);
}

#[test]
fn a_log_that_was_cut_off_or_damaged_is_read_as_far_as_it_goes() {
    let bids = [SampleBid::new(0, "a1", "2.5"), SampleBid::new(1, "b1", "1.5")];
    let many: Vec<_> = (1..=6).map(|number| SampleAuction::new(number, &bids)).collect();
    let written = || {
        let folder = tempfile::tempdir().unwrap();
        let mut log = SampleLog::open(folder.path(), 1 << 20);
        log.durable(
            RecordKind::Generation.code(),
            START_MS,
            &audit::testing::generation(1, START_MS),
        );
        log.many(&many);
        folder
    };
    let seat = ["--seat", "a1", "--strategy", "asap"];
    // An unfinished write at the end is no damage: the exchange may be writing.
    let torn = written();
    edit(segments(torn.path()).last().unwrap(), |bytes| bytes.truncate(bytes.len() - 20));
    check(&pacing(torn.path(), &seat), 0, &["won 5 for", "auctions  5 in"], &[]);
    // Damage before other records is.
    let damaged = tempfile::tempdir().unwrap();
    let many: Vec<_> = (1..=40).map(|number| SampleAuction::new(number, &bids)).collect();
    SampleLog::of(damaged.path(), &many);
    edit(&segments(damaged.path())[0], |bytes| {
        let middle = bytes.len() / 3;
        bytes[middle] ^= 0xff;
    });
    check(&pacing(damaged.path(), &seat), 1, &["won 39 for", "auctions  39 in"], &["damaged: "]);
    check(&extract(damaged.path(), &seat[..2]), 1, &["time_ms"], &["damaged: ", "won 39 for"]);
    // An unreadable record is counted, and makes the exit code 1.
    let foreign = written();
    let mut log = SampleLog::open(foreign.path(), 1 << 20);
    log.firehose(RecordKind::Auction.code(), START_MS, b"no record");
    drop(log);
    let said = ["won 6 for", "left out  1 record that cannot be read"];
    check(&pacing(foreign.path(), &seat), 1, &said, &[]);
}

#[test]
fn one_currency_and_one_way_to_pay_are_chosen() {
    let folder = record();
    let mut log = SampleLog::open(folder.path(), 1 << 20);
    let sample = &samples()[0];
    let terms = |change: &dyn Fn(&mut v1::Terms)| {
        rewritten(sample, |auction| change(auction.terms.as_mut().unwrap()))
    };
    let put = |log: &mut SampleLog, record: &[u8]| {
        log.firehose(RecordKind::Auction.code(), START_MS, record);
    };
    put(&mut log, &terms(&|terms| terms.currency = "EUR".into()));
    let seat = ["--seat", "a1"];
    let several = ["several currencies (EUR: 1, USD: 3)", "--currency"];
    check(&pacing(folder.path(), &seat), 64, &[], &several);
    let euro = ["in EUR", "auctions  1 in", "3 auctions in other currencies", "second price"];
    check(&pacing(folder.path(), &["--seat", "a1", "--currency", "EUR"]), 0, &euro, &[]);
    put(&mut log, &terms(&|terms| terms.auction_type = v1::AuctionType::FirstPrice.into()));
    let dollars = ["--seat", "a1", "--currency", "USD"];
    let mixed = ["1 of the auctions were held at first price and 3 at second", "--auction"];
    check(&pacing(folder.path(), &dollars), 64, &[], &mixed);
    let chosen = [&dollars[..], &["--auction", "second"]].concat();
    check(&pacing(folder.path(), &chosen), 0, &["auctions  4 in", "second price"], &[]);
    // If all auctions have the same pricing, it applies.
    let first = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(first.path(), &[]);
    put(&mut log, &terms(&|terms| terms.auction_type = v1::AuctionType::FirstPrice.into()));
    check(&pacing(first.path(), &seat), 0, &["first price"], &[]);
}

#[test]
fn nothing_of_the_log_is_changed() {
    let folder = record();
    let all = || {
        let mut files = Vec::new();
        for lane in ["durable", "firehose"] {
            for entry in fs::read_dir(folder.path().join(lane)).unwrap() {
                let path = entry.unwrap().path();
                files.push((path.clone(), fs::read(path).unwrap()));
            }
        }
        files.sort();
        files
    };
    let before = all();
    check(&pacing(folder.path(), &["--seat", "a1"]), 0, &["seat a1"], &[]);
    assert!(before == all(), "a reader writes nothing");
}

#[test]
fn help_says_what_is_counterfactual() {
    let said = ["--log", "--campaign", "--account", "--seat", "--value", "as they were"];
    check(&["simulate", "pacing", "--help"], 0, &said, &[]);
    check(&["simulate", "extract", "--help"], 0, &["--out", "Example"], &[]);
}

/// A decimal, in millionths.
fn micros(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<6}").parse().unwrap()
}

/// Real auctions of a real exchange in which a campaign has bid: the stream matches the rows of the
/// log.
#[test]
fn a_campaign_of_a_real_exchange_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let record = record.to_str().unwrap();
    let demo = ["demo", "--duration", "3s", "--rate", "100", "--dsps", "12", "--record", record];
    let (code, said, _) = run(&demo);
    assert_eq!(code, 0, "{said}");
    let source = ["--log", record, "--campaign", "sprint"];
    let (code, stream, _) = run(&[&["simulate", "extract"][..], &source].concat());
    assert_eq!(code, 0, "{stream}");
    let met: Vec<Vec<u64>> =
        stream.lines().skip(1).map(|line| line.split('\t').map(micros).collect()).collect();
    let rows = check(&["log", "cat", "--json", "--dir", record, "campaign=sprint"], 0, &[], &[]);
    let (mut wins, mut paid) = (0, 0);
    for row in rows.lines().map(parsed).filter(|row| row["is_test"] == false) {
        assert_eq!(row["currency"], "USD");
        let time = row["time_us"].as_u64().unwrap() / 1000 * 1_000_000;
        let sales = row["sales"].as_array().unwrap();
        let is_own = |sale: &&Value| sale["campaign"] == "sprint" && sale["fate"] == "won";
        for sale in sales.iter().filter(is_own) {
            let price = sale["price_micros"].as_u64().unwrap();
            (wins, paid) = (wins + 1, paid + price);
            let is_second = row["auction_type"] == "second_price";
            let told = |line: &Vec<u64>| {
                let is_price = if is_second { line[1] == price } else { line[1] <= price };
                line[0] == time && is_price && line[2] == 6_000_000
            };
            assert!(met.iter().any(told), "{price} of {row} is not in {stream}");
        }
    }
    assert!(wins > 0 && met.len() >= wins, "{wins} of {stream}");
    let budget = ["--budget", "1", "--strategy", "asap", "--auction", "second", "--json"];
    let args = [&["simulate", "pacing"][..], &source, &budget].concat();
    let report = parsed(&check(&args, 0, &[], &[]));
    let log = &report["log"];
    assert_eq!((&log["wins"], &log["paid_nanos"]), (&wins.into(), &paid.into()), "{report}");
    // With a large enough budget it wins what it won, and what it could not afford then.
    let asap = &report["strategies"][0];
    assert!(asap["wins"].as_u64() >= Some(wins as u64), "{report}");
    // All campaigns of the account, this one among them.
    let account = ["simulate", "extract", "--log", record, "--account", "acme"];
    let all = check(&account, 0, &["time_ms"], &["account acme, in USD"]);
    assert!(all.lines().count() > met.len(), "{all}");
}
