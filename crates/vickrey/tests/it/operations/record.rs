//! The record of an exchange that is killed, and of one whose disk is full.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use eventlog::disk::DiskFolder;
use eventlog::{LogEntry, LogReader, LogRecord};
use events::{Gap, RecordKind};
use exchange_core::record::{AuctionRecord, GenerationRecord, replay};
use serde_json::json;

use super::fixtures::{Server, SmallDisk, dsp, table};
use crate::program::until;

const WRITTEN: &str = "record_written_total{lane=\"firehose\"}";

/// Tables that record to a directory without delay.
fn tables(directory: &Path, rest: &str) -> String {
    format!("[record]\ndirectory = {directory:?}\nfirehose = {{ commit_after = \"1ms\" }}\n{rest}")
}

/// The records of a lane, which must be undamaged.
fn read(directory: &Path, lane: &str) -> Vec<LogRecord> {
    let disk = DiskFolder::read_only(directory.join(lane));
    let mut records = Vec::new();
    for item in LogReader::new(&disk).unwrap() {
        match item.unwrap() {
            LogEntry::Record(record) => records.push(record),
            LogEntry::Torn(_) => (), // An unacknowledged end.
            LogEntry::Corruption(corruption) => panic!("{corruption}"),
        }
    }
    for pair in records.windows(2) {
        assert_eq!(pair[0].sequence + 1, pair[1].sequence, "there is no hole");
    }
    records
}

/// Number of recorded auctions, all of which replay identically.
fn replayed(directory: &Path) -> usize {
    let durable = read(directory, "durable");
    let kind = RecordKind::Generation.code();
    let generations: BTreeMap<u64, _> = durable
        .iter()
        .filter(|record| record.kind == kind)
        .map(|record| GenerationRecord::decode(&record.payload).unwrap())
        .map(|facts| (facts.number, facts))
        .collect();
    let firehose = read(directory, "firehose");
    let auctions = firehose.iter().filter(|record| record.kind == RecordKind::Auction.code());
    auctions
        .map(|record| {
            let auction = AuctionRecord::decode(&record.payload).unwrap();
            replay(&auction, &generations[&auction.generation]).unwrap();
        })
        .count()
}

/// Sends requests on one connection until it breaks.
fn keep_asking(callers: &str, stop: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(callers) else { return };
    let body = r#"{"id":"1","imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#;
    let request = format!(
        "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    while !stop.load(Ordering::Relaxed) {
        let asked = stream.write_all(request.as_bytes());
        if asked.is_err() || !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
            return;
        }
    }
}

/// Stops the senders, even if the test fails: its scope waits for them.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_was_recorded_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(folder.path(), &table("a", &dsp().to_string(), ""));
    let mut written = 0;
    for round in 1..=5 {
        let server = Server::start(&tables);
        assert_eq!(server.get("/v1/config")["generation"], round, "no number is used twice");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stopping = Stopping(&stop);
            for _ in 0..3 {
                scope.spawn(|| keep_asking(server.callers(), &stop));
            }
            let enough = 100 * round;
            until("auctions are recorded", || server.scraped(WRITTEN) >= enough);
            written += server.scraped(WRITTEN);
            server.signal("-KILL");
        });
        drop(server);
        let found = replayed(folder.path());
        assert!(found as u64 >= written, "{written} were written, {found} are there");
        written = found as u64;
    }
}

/// Auctions go on, each is recorded or counted by a gap, and no restart is needed.
#[test]
fn a_disk_that_is_full_heals() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(folder.path()) else { return };
    let directory = folder.path().join("record");
    let one = table("a", &dsp().to_string(), "");
    let server = Server::start_with("watch = \"0s\"", &tables(&directory, &one));
    assert_eq!(server.auction(), 204);
    until("it is recorded", || server.scraped(WRITTEN) == 1);
    let ballast = small.fill();
    let held = Cell::new(1);
    until("the firehose fails", || {
        assert_eq!(server.auction(), 204, "auctions go on");
        held.set(held.get() + 1);
        server.scraped("record_state{lane=\"firehose\"}") == 2
    });
    let two = one.clone() + &table("b", &dsp().to_string(), "");
    server.configure("watch = \"0s\"", &tables(&directory, &two));
    for _ in 0..2 {
        let refused = server.ask("POST", "/v1/reload", "");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.body.contains("its disk is full"), "{refused:?}");
    }
    assert_eq!(server.get("/v1/config")["generation"], 1, "it stays in force");
    assert_eq!(server.scraped("record_state{lane=\"durable\"}"), 2);
    std::fs::remove_file(ballast).unwrap();
    for lane in ["durable", "firehose"] {
        let state = format!("record_state{{lane=\"{lane}\"}}");
        until("it is written again", || server.scraped(&state) == 0);
        until("the log says it", || server.log().contains("is written again"));
    }
    let reloaded = server.ask("POST", "/v1/reload", "").json();
    assert_eq!(reloaded["generation"], 4, "numbers of those that were refused are not used again");
    assert_eq!(server.auction(), 204);
    let held = held.get() + 1;
    // Records written but unsynced when the disk failed count as lost.
    let lost = || server.scraped("record_lost_total{lane=\"firehose\"}");
    until("all are told", || server.scraped(WRITTEN) + lost() == held);
    let (lost, whole) =
        (lost(), server.scraped("exchange_auctions_recorded_total{kept=\"whole\"}"));
    drop(server);
    let gaps = read(&directory, "firehose").into_iter();
    let gaps = gaps.filter(|record| record.kind == RecordKind::Gap.code());
    let told = gaps.map(|record| Gap::decode(&record.payload).unwrap().records);
    assert_eq!(told.sum::<u64>(), lost);
    assert_eq!(replayed(&directory) as u64 + lost, held);
    assert_eq!(replayed(&directory) as u64, whole, "what counts as recorded is there");
}

#[test]
fn a_changed_record_needs_a_restart_and_other_bodies_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("record");
    let server = Server::start_with("watch = \"0s\"", &tables(&directory, ""));
    let needs_restart = |tables: &str| {
        server.configure("watch = \"0s\"", tables);
        server.ask("POST", "/v1/reload", "").json()["needs_restart"].clone()
    };
    assert_eq!(needs_restart(&tables(&directory, "node = 3\n")), json!(["record.node"]));
    let bodies = "[exchange.bodies]\nsample = \"100%\"\n";
    assert_eq!(needs_restart(&tables(&directory, bodies)), json!([]));
    assert_eq!(server.auction(), 204);
    until("it is recorded", || server.scraped(WRITTEN) == 1);
    let records = read(&directory, "firehose");
    let auction = AuctionRecord::decode(&records[0].payload).unwrap();
    assert!(auction.request.is_some(), "the reload is in force");
    let without = needs_restart("");
    assert!(without.as_array().is_some_and(|keys| !keys.is_empty()), "{without}");
}

/// Otherwise a campaign would win nothing for no apparent reason.
#[test]
fn a_campaign_says_that_the_record_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(folder.path()) else { return };
    let beside = tempfile::tempdir().unwrap();
    let (budgets, files) = (beside.path().join("budgets"), beside.path().join("campaigns.d"));
    std::fs::create_dir(&files).unwrap();
    let campaigns = "[[account]]\nid = 'acme'\ncurrency = 'USD'\n[[campaign]]\nid = 'summer'\n\
                     account = 'acme'\nstart = '2026-01-01'\nend = '2126-01-01'\nbid.price = '2'\n\
                     [[campaign.creative]]\nid = 'c'\nformat = 'banner'\nsize = '300x250'\n\
                     markup = '<p>'\ndomains = ['a.example']\n";
    std::fs::write(files.join("a.toml"), campaigns).unwrap();
    let of = |dsps: &str| {
        let pattern = files.join("*.toml");
        let rest = format!(
            "[exchange.notices]\nurl = \"http://127.0.0.1:9/n/\"\n\
             [budgets]\ndirectory = {budgets:?}\ncampaigns = {pattern:?}\n{dsps}"
        );
        tables(&folder.path().join("record"), &rest)
    };
    let one = table("a", &dsp().to_string(), "");
    let server = Server::start_with("watch = \"0s\"", &of(&one));
    let reason = || server.get("/v1/campaigns/summer/why")["reason"].clone();
    until("it could spend", || reason() == "no_requests");
    let ballast = small.fill();
    // A change that must become durable, and cannot.
    server.configure("watch = \"0s\"", &of(&(one.clone() + &table("b", &dsp().to_string(), ""))));
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 503);
    let why = server.get("/v1/campaigns/summer/why");
    assert_eq!(why["reason"], "record_unavailable", "{why}");
    let words = "nothing can be won: the durable lane of the record fails: its disk is full";
    assert_eq!(why["words"], words, "{why}");
    std::fs::remove_file(ballast).unwrap();
    until("it is written again", || reason() == "no_requests");
}
