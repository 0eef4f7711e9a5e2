//! The record of auctions on real sockets, and its replay.

use std::path::Path;

use eventlog::disk::DiskFolder;
use eventlog::{LogEntry, LogReader, LogRecord};
use events::RecordKind;
use exchange_core::record::CallOutcome;
use exchange_core::record::{
    AuctionEnding, AuctionRecord, GenerationRecord, ReplayOutcome, replay,
};
use exchange_core::{Fate, NotAsked};
use exchange_serve::{ExchangeError, GenerationRecordError};
use tempfile::TempDir;

use crate::fixtures::{
    Dsp, Running, Script, Setup, Step, banner, bid, bids, listener, ok, posted, until,
};

/// The directory of a record, and the configuration for it.
struct Place {
    directory: TempDir,
    keys: String,
}

impl Place {
    fn new(keys: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().display();
        let keys = format!("[record]\ndirectory = \"{path}\"\n{keys}\n");
        Self { directory, keys }
    }

    fn setup<'s>(&'s self, dsps: &'s [(std::net::SocketAddr, &'s str)]) -> Setup<'s> {
        Setup { dsps, rest: &self.keys, ..Setup::default() }
    }

    fn lane(&self, lane: &str) -> Vec<LogRecord> {
        read(&self.directory.path().join(lane))
    }

    fn auctions(&self) -> Vec<LogRecord> {
        self.lane("firehose")
    }

    fn generations(&self) -> Vec<GenerationRecord> {
        let records = self.lane("durable");
        let kind = RecordKind::Generation.code();
        let of_kind = records.iter().filter(|record| record.kind == kind);
        of_kind.map(|record| GenerationRecord::decode(&record.payload).expect("one")).collect()
    }
}

pub fn read(directory: &Path) -> Vec<LogRecord> {
    let disk = DiskFolder::read_only(directory);
    let items = LogReader::new(&disk).expect("a log");
    let record = |item| match item {
        Ok(LogEntry::Record(record)) => record,
        other => panic!("{other:?}"),
    };
    items.map(record).collect()
}

pub fn decoded(record: &LogRecord) -> AuctionRecord<'_> {
    assert_eq!(RecordKind::from_code(record.kind), Some(RecordKind::Auction));
    AuctionRecord::decode(&record.payload).expect("the record of an auction")
}

#[test]
fn an_auction_is_recorded_as_it_was_answered() {
    let (high, low) = (Dsp::bidding("2.00"), Dsp::bidding("1.00"));
    let place = Place::new("");
    let dsps = [(high.address, ""), (low.address, ""), (low.address, "countries = [\"DEU\"]")];
    let exchange = Running::start(&place.setup(&dsps));
    let before = unix_us();
    let reply = exchange.auction(&banner(r#","tmax":900"#));
    let after = unix_us();
    let kept = || exchange.scraped(r#"exchange_auctions_recorded_total{kept="whole"}"#);
    until("it is durable", || kept() == "1");
    exchange.join();
    let records = place.auctions();
    let [record] = &*records else { panic!("{records:?}") };
    let auction = decoded(record);
    assert_eq!(auction.id, reply.json()["bidid"]);
    assert_eq!(auction.ending, AuctionEnding::Filled);
    assert!((before..=after).contains(&auction.arrival_unix_us), "{before} {auction:?} {after}");
    assert_eq!(record.time_ms, auction.arrival_unix_us / 1000);
    assert_eq!(auction.tmax_ms, Some(900));
    let outcomes: Vec<_> = auction.calls.iter().map(|call| call.call.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Answered; 2]);
    for call in &auction.calls {
        let (sent, latency) = (call.call.sent.unwrap(), call.call.latency.unwrap());
        assert!(auction.timings.asked.unwrap() <= sent, "{call:?}");
        assert!(sent + latency <= auction.timings.closed.unwrap(), "{call:?}");
    }
    assert_eq!(auction.not_asked, [(2, NotAsked::Country)]);
    let fates: Vec<_> = auction.bids.iter().map(|bid| bid.fate).collect();
    assert_eq!(fates, [Fate::Won, Fate::LostToHigherBid]);
    assert_eq!(auction.sales[0].net.to_string(), reply.price());
    let generations = place.generations();
    assert_eq!(generations[0].number, auction.generation);
    assert_eq!(replay(&auction, &generations[0]), Ok(ReplayOutcome::Same));
    assert_eq!((auction.request, auction.answers.len()), (None, 0), "no body unless sampled");
}

fn unix_us() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("it is later");
    u64::try_from(since.as_micros()).expect("for a while")
}

/// However an auction ends, it has one record.
#[test]
fn every_ending_is_recorded() {
    let answer: Vec<u8> = ok(&bids(&bid("1.00"))).into();
    let nothing = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let answers = [answer.clone(), nothing, answer];
    let steps = answers.map(|answer| [Step::Read, Step::Wait, Step::Write(answer)]);
    let dsp = Dsp::start([Script::forever(steps.concat())]);
    let place = Place::new("");
    let dsps = [(dsp.address, "countries = [\"DEU\"]")];
    let exchange = Running::start(&place.setup(&dsps));
    let here = r#","device":{"geo":{"country":"DEU"}}"#;
    let mut caller = exchange.caller();
    caller.send(&posted(&banner(here)));
    dsp.request(0);
    dsp.permit();
    assert_eq!(caller.reply().status, 200);
    caller.send(&posted(&banner(here)));
    dsp.request(1);
    dsp.permit();
    assert_eq!(caller.reply().status, 204);
    assert_eq!(exchange.auction(&banner("")).status, 204, "nobody is asked");
    assert_eq!(exchange.auction(&banner(r#","tmax":3"#)).status, 204, "there is no time");
    assert_eq!(exchange.auction("{}").status, 400, "that is no request, and no auction");
    let mut leaving = exchange.caller();
    leaving.send(&posted(&banner(here)));
    dsp.request(2);
    drop(leaving);
    until("it is given up", || exchange.count(|metrics| metrics.abandoned.value()) == 1);
    dsp.permit();
    exchange.join();
    let generations = place.generations();
    let records = place.auctions();
    let found: Vec<_> = records
        .iter()
        .map(|record| {
            let auction = decoded(record);
            let replayed = replay(&auction, &generations[0]).expect("the same");
            (auction.ending, auction.nbr, auction.calls.len(), auction.terms.is_some(), replayed)
        })
        .collect();
    let no_time = openrtb::codes::NoBidReason::InsufficientAuctionTime.code();
    let nobody = openrtb::codes::NoBidReason::NoEligibleDsp.code();
    assert_eq!(
        found,
        [
            (AuctionEnding::Filled, None, 1, true, ReplayOutcome::Same),
            (AuctionEnding::NoBid, Some(0), 1, true, ReplayOutcome::Same),
            (AuctionEnding::Refused, Some(nobody), 0, true, ReplayOutcome::NotHeld),
            (AuctionEnding::Refused, Some(no_time), 0, false, ReplayOutcome::NotHeld),
            (AuctionEnding::Abandoned, None, 1, true, ReplayOutcome::NotHeld),
        ]
    );
    assert_eq!(decoded(&records[2]).not_asked, [(0, NotAsked::Country)]);
}

/// Looking up many seats yields at times, which notices a caller that disconnects.
#[test]
fn a_caller_that_leaves_before_any_call_is_recorded() {
    let texts = |prefix: &str, count: usize| {
        let texts: Vec<_> = (0..count).map(|at| format!("\"{prefix}{at}\"")).collect();
        texts.join(",")
    };
    let (dsp, place) = (Dsp::bidding("1.00"), Place::new(""));
    let seats = format!("seats = [{}]", texts("seat", 1000));
    let exchange = Running::start(&place.setup(&[(dsp.address, &*seats); 40]));
    let mut leaving = exchange.caller();
    leaving.send(&posted(&banner(&format!(
        ",\"wseat\":[{}],\"bseat\":[{}]",
        texts("w", 10_000),
        texts("b", 10_000)
    ))));
    drop(leaving);
    until("it is given up", || exchange.count(|metrics| metrics.abandoned.value()) == 1);
    exchange.join();
    let records = place.auctions();
    let [record] = &*records else { panic!("{records:?}") };
    let AuctionRecord { ending, calls, timings, .. } = decoded(record);
    assert_eq!((ending, calls.len(), timings.asked), (AuctionEnding::Abandoned, 0, None));
}

/// No two configurations share a number, not even across a restart.
#[test]
fn a_generation_is_recorded_before_its_auctions() {
    let dsp = Dsp::bidding("1.00");
    let place = Place::new("");
    let dsps = [(dsp.address, "")];
    let costly = Setup { exchange: "fee = \"50%\"\n", ..place.setup(&dsps) };
    let exchange = Running::start(&place.setup(&dsps));
    exchange.auction(&banner(""));
    assert_eq!(exchange.reload(&costly).number, 2);
    until("the fee is taken", || exchange.auction(&banner("")).price() == "0.5");
    exchange.join();
    let exchange = Running::start(&costly);
    exchange.auction(&banner(""));
    assert_eq!(exchange.reload(&place.setup(&dsps)).number, 4);
    exchange.join();
    let generations = place.generations();
    let numbers: Vec<_> = generations.iter().map(|facts| facts.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let records = place.auctions();
    for record in &records {
        let auction = decoded(record);
        let by = |facts: &&GenerationRecord| facts.number == auction.generation;
        let facts = generations.iter().find(by).expect("it was recorded");
        assert_eq!(replay(&auction, facts), Ok(ReplayOutcome::Same));
    }
    let last = decoded(records.last().expect("several"));
    assert_eq!(last.generation, 3);
}

#[test]
fn bodies_are_recorded_of_a_sample_and_masked() {
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "")];
    let user = r#","user":{"id":"u1","yob":1990},"device":{"ip":"192.0.2.77"}"#;
    for (keys, masked, answers) in [
        ("sample = \"100%\"", true, 1),
        ("sample = \"100%\"\nanswers = false", true, 0),
        ("sample = \"100%\"\nmasks = { user_ids = false, ip = false }", false, 1),
    ] {
        let place = Place::new(&format!("[exchange.bodies]\n{keys}"));
        let exchange = Running::start(&place.setup(&dsps));
        exchange.auction(&banner(user));
        exchange.join();
        let records = place.auctions();
        let auction = decoded(&records[0]);
        let request = std::str::from_utf8(auction.request.expect("sampled")).unwrap();
        assert_eq!(request.contains("u1"), !masked, "{keys}: {request}");
        assert_eq!(request.contains("192.0.2.77"), !masked, "{keys}: {request}");
        assert!(request.contains("1990"), "{keys}: {request}");
        assert_eq!(auction.answers.len(), answers, "{keys}");
    }
}

/// Two processes would overwrite each other's records.
#[test]
fn a_directory_is_one_exchanges() {
    let place = Place::new("");
    let _first = Running::start(&place.setup(&[]));
    let second = Running::try_on(listener(), &place.setup(&[]));
    let error = second.expect_err("it is in use").to_string();
    assert!(error.contains("durable") && error.contains("in use"), "{error}");
}

/// A configuration that cannot be recorded is not applied.
#[test]
fn a_configuration_that_is_too_long_to_record_is_refused() {
    let place = Place::new("");
    let exchange = Running::start(&place.setup(&[]));
    let deals: String = (0..40_000)
        .map(|deal| format!("[[deal]]\nid = \"deal-of-some-length-{deal}\"\n"))
        .collect();
    let rest = format!("{}{deals}", place.keys);
    let refused = exchange.try_reload(&Setup { rest: &rest, ..Setup::default() });
    let error = refused.expect_err("it is too long");
    assert!(
        matches!(error, ExchangeError::Generation(GenerationRecordError::Unrecordable(_))),
        "{error}"
    );
    exchange.join();
    assert_eq!(place.generations().len(), 1);
}
