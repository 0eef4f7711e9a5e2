//! Settlements that the dispatcher passes on, and the log it keeps for them: simulated, and over a
//! real log across restarts.

use std::collections::BTreeMap;
use std::path::Path;

use eventlog::WriterOptions;
use eventlog::lane::{
    BatchLimits, DurableRing, GapFormat, LaneHandle, LaneKind, LaneOptions, LogBuilder, LogOptions,
    LogThread, Retention, RetentionClaim,
};
use events::RecordKind;
use exchange_core::Reservation;
use http_kit::dns::{Resolve, Resolved};
use http_kit::tls::client_config;
use pacer_core::messages::FromShard;
use pacer_core::shard::TokenRejection;
use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use record::Record;
use runtime::shutdown::Shutdown;
use units::{Currency, Nanos};

use super::*;
use crate::budgets::shard::tests::{SLOT, rights_of, sealed, shard_fixtures};
use crate::config::CallLimits;
use crate::notices::{NoticeClientOptions, ReplayError, replay};

fn reservation(number: u8) -> Reservation {
    let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
    Reservation { token, currency: Currency::USD }
}

/// Records settlements over all restarts.
#[derive(Clone, Debug, Default)]
struct Books(Arc<Mutex<Shelf>>);

#[derive(Debug, Default)]
struct Shelf {
    /// Reservation numbers by sequence.
    told: BTreeMap<u64, u8>,
    /// Sequence reached in this run.
    passed: u64,
    /// Settlements that came again after they were booked.
    repeated: usize,
    is_replayed: bool,
    applied_seq: u64,
}

impl Books {
    fn shelf(&self) -> std::sync::MutexGuard<'_, Shelf> {
        self.0.lock().expect("nothing panics with it")
    }

    fn numbers(&self) -> Vec<u8> {
        self.shelf().told.values().copied().collect()
    }

    /// Starts a run with settlements durably booked up to `applied_seq`.
    fn begin(&self, applied_seq: u64) {
        let mut shelf = self.shelf();
        (shelf.passed, shelf.is_replayed, shelf.applied_seq) = (applied_seq, false, applied_seq);
    }
}

impl Settlements for Books {
    fn settled(&mut self, sequence: u64, reservation: &Reservation) {
        let number = reservation.token.to_bytes()[0];
        let mut shelf = self.shelf();
        assert!(shelf.passed < sequence, "{sequence} comes behind {}", shelf.passed);
        shelf.passed = sequence;
        if let Some(before) = shelf.told.insert(sequence, number) {
            assert_eq!(before, number, "{sequence} is another now");
            shelf.repeated += 1;
        }
    }

    fn reached(&mut self, sequence: u64) {
        let mut shelf = self.shelf();
        assert!(shelf.passed <= sequence, "it goes back from {}", shelf.passed);
        shelf.passed = sequence;
    }

    fn replayed(&mut self) {
        assert!(!self.shelf().is_replayed, "it is told once");
        self.shelf().is_replayed = true;
    }

    fn applied_seq(&self) -> u64 {
        self.shelf().applied_seq
    }
}

/// A beacon with a reservation, but without a notice.
fn paid(counter: &NoticeSender, number: u8) -> oneshot::Receiver<BeaconAnswer> {
    billed(counter, number, reservation(number))
}

fn billed(
    counter: &NoticeSender,
    number: u8,
    reservation: Reservation,
) -> oneshot::Receiver<BeaconAnswer> {
    let (answer, acknowledged) = oneshot::channel();
    let (id, expires_ms) = (TokenId([number; TokenId::BYTES]), unix_ms() + 3_600_000);
    let (notice, reservation) = (None, Some(reservation));
    let beacon = Beacon { call: 0, id, expires_ms, notice, reservation };
    assert!(counter.send(NoticeCommand::Beacon(Box::new(beacon), answer)), "there is room");
    acknowledged
}

#[tokio::test(start_paused = true)]
async fn settlements_are_told_as_the_log_has_them_and_others_are_passed_over() {
    let test = async {
        let books = Books::default();
        let (log, policy) = (LogByHand::open(&FaultDisk::new(1)), DeliveryPolicy::default());
        let mut bench = Bench::with(log, policy, Box::new(books.clone()));
        for number in 0..3 {
            bench.log().others(5);
            let mut acknowledged = paid(&bench.counter, number);
            assert!(bench.turns().await.is_empty(), "nobody is to be told");
            assert_eq!(acknowledged.try_recv(), Ok(Ok(false)));
            let mut again = paid(&bench.counter, number);
            bench.turns().await;
            assert_eq!(again.try_recv(), Ok(Ok(true)));
        }
        assert_eq!(books.numbers(), [0, 1, 2]);
        let mut found = BTreeMap::new();
        bench.log().read(0, |sequence, record| {
            let record = JournalRecord::decode(record).expect("a record of ours");
            if let JournalRecord::Accepted { reservation: Some(reservation), .. } = record {
                found.insert(sequence, reservation.token.to_bytes()[0]);
            }
        });
        assert_eq!(books.shelf().told, found);
        // Others extend the log.
        bench.log().others(30);
        bench.log().write();
        assert_eq!(books.shelf().passed, 18);
        settle().await;
        advance(LOG_CHECKED_EVERY).await;
        settle().await;
        assert_eq!(books.shelf().passed, 48);
    };
    LocalSet::new().run_until(test).await;
}

/// The log fails and calls are refused, but its records turn out to be durable.
#[tokio::test(start_paused = true)]
async fn what_is_durable_after_a_failure_is_settled_once() {
    let test = async {
        let books = Books::default();
        let (log, policy) = (LogByHand::open(&FaultDisk::new(1)), DeliveryPolicy::default());
        let mut bench = Bench::with(log, policy, Box::new(books.clone()));
        let mut first = paid(&bench.counter, 7);
        assert!(bench.made().await.is_empty(), "it is handed over");
        bench.log().fail(true);
        bench.turns().await;
        assert_eq!(first.try_recv(), Ok(Err(BeaconRefusal::Journal)));
        let mut refused = paid(&bench.counter, 8);
        bench.turns().await;
        assert_eq!(refused.try_recv(), Ok(Err(BeaconRefusal::Journal)));
        assert!(books.numbers().is_empty());
        bench.log().fail(false);
        bench.turns().await;
        assert_eq!(books.numbers(), [7]);
        for (number, want) in [(7, false), (7, true), (8, false)] {
            let mut acknowledged = paid(&bench.counter, number);
            bench.turns().await;
            assert_eq!(acknowledged.try_recv(), Ok(Ok(want)), "{number}");
        }
        assert_eq!(books.numbers(), [7, 8]);
    };
    LocalSet::new().run_until(test).await;
}

/// The shard settles the reservation once, no matter how often the beacon is called.
#[tokio::test(start_paused = true)]
async fn what_is_durable_after_a_failure_is_settled_once_at_its_shard() {
    let test = async {
        let [mut one, other] = shard_fixtures(1, 64);
        one.receive(&rights_of(SLOT, 100));
        let reserve = |nanos| one.budget.reserve(SLOT, Nanos::new(nanos), 60).expect("it has that");
        let [first, second, _] = [30, 20, 10].map(|nanos| sealed(&one.budget, &reserve(nanos)));
        let [mut before] = shard_fixtures(0, 64);
        before.receive(&rights_of(SLOT, 100));
        let reserved = before.budget.reserve(SLOT, Nanos::new(40), 60).expect("it has that");
        let ended = sealed(&before.budget, &reserved);
        let (log, policy) = (LogByHand::open(&FaultDisk::new(1)), DeliveryPolicy::default());
        let mut bench = Bench::with(log, policy, Box::new(other.spent));
        let mut refused = billed(&bench.counter, 7, first);
        assert!(bench.made().await.is_empty(), "it is handed over");
        bench.log().fail(true);
        bench.turns().await;
        assert_eq!(refused.try_recv(), Ok(Err(BeaconRefusal::Journal)));
        let is_settled =
            |told: &FromShard| matches!(told, FromShard::Report(it) if it.won_count > 0);
        assert!(!one.sent().iter().any(is_settled));
        bench.log().fail(false);
        bench.turns().await;
        let report = one.report();
        assert_eq!((report.settled.get(), report.won_count), (30, 1));
        // The callers have left, too.
        for (number, reservation) in [(7, first), (8, second), (8, second), (9, ended)] {
            drop(billed(&bench.counter, number, reservation));
            bench.turns().await;
        }
        let report = one.report();
        assert_eq!((report.settled.get(), report.won_count), (50, 2));
        assert_eq!(one.metrics.budget.rejection(TokenRejection::AlreadyWon), 0);
    };
    LocalSet::new().run_until(test).await;
}

/// Even if delivery needs little of it.
#[tokio::test(start_paused = true)]
async fn the_log_stays_until_it_is_booked() {
    let test = async {
        let books = Books::default();
        let policy =
            DeliveryPolicy { journal_span: 10, checkpoint_span: 20, ..DeliveryPolicy::default() };
        let log = LogByHand::open(&FaultDisk::new(1));
        let mut bench = Bench::with(log, policy, Box::new(books.clone()));
        let first = |log: &LogByHand| eventlog::segments(&log.disk).unwrap()[0].first;
        for number in 0..40 {
            drop(paid(&bench.counter, number));
            bench.log().others(20);
            bench.turns().await;
        }
        assert_eq!(first(bench.log()), 1);
        let booked = *books.shelf().told.keys().nth(19).expect("forty");
        books.shelf().applied_seq = booked;
        bench.log().others(60);
        for _ in 0..3 {
            bench.turns().await;
            advance(LOG_CHECKED_EVERY).await;
        }
        let kept = first(bench.log());
        assert!(1 < kept && kept <= booked + 1, "{kept} of {booked}");
        // Another dispatcher replays the rest.
        let log = bench.log.take().expect("it is open").restart();
        let mut found = Vec::new();
        let mut replay = JournalReplay::new(policy, unix_ms());
        log.0.read(booked, |sequence, record| {
            let settled = replay.record(sequence, record).expect("a record of ours");
            found.extend(settled.map(|settled| (sequence, settled.token.to_bytes()[0])));
        });
        let told: Vec<_> =
            books.shelf().told.range(booked + 1..).map(|(at, it)| (*at, *it)).collect();
        assert_eq!(found, told);
        assert_eq!(told.len(), 20);
    };
    LocalSet::new().run_until(test).await;
}

/// A log as other services find it.
struct OpenLog {
    record: Record,
    thread: LogThread,
    /// Held until the journal has made its own claim.
    _claim: RetentionClaim,
}

impl OpenLog {
    fn open(directory: &Path) -> Self {
        let log = Life::open(directory);
        let [durable, firehose] =
            [LaneKind::Durable, LaneKind::Firehose].map(|kind| log.lane(kind));
        let claim = durable.protect();
        let thread = log.start().expect("a thread");
        let record = Record {
            directory: directory.into(),
            node: 0,
            durable,
            firehose,
            rings: thread.rings().clone(),
            durable_ring_bytes: 1 << 20,
            firehose_ring_bytes: 1 << 20,
        };
        Self { record, thread, _claim: claim }
    }
}

struct Nobody;

impl Resolve for Nobody {
    fn resolve<'r>(&'r self, host: &'r str) -> Resolved<'r> {
        panic!("{host} is called")
    }
}

/// A dispatcher and a log, each on its thread.
struct Life {
    dispatcher: NoticeDispatcher,
    counter: NoticeSender,
    lane: LaneHandle,
    log: LogThread,
    others: DurableRing,
}

impl Life {
    /// Short segments, dropped as soon as nobody needs them.
    fn open(directory: &Path) -> LogBuilder {
        let durable = LaneOptions {
            writer: WriterOptions { segment_bytes: 2_000, ..WriterOptions::DEFAULT },
            gather: BatchLimits { after: Duration::ZERO, bytes: 0 },
            retention: Retention { bytes_max: Some(1), age_max: None, every: Duration::ZERO },
            ..LaneOptions::DURABLE
        };
        let options = LogOptions { durable, ..LogOptions::DEFAULT };
        let gaps = GapFormat { kind: RecordKind::Gap.code(), encode: |_, _| () };
        let opened = LogBuilder::open(directory, &options, gaps, Box::new(|_, _| ()), |_, _| ());
        opened.expect("it opens").0
    }

    fn start(directory: &Path, books: &Books) -> Self {
        let OpenLog { record, thread: log, _claim } = OpenLog::open(directory);
        let policy =
            DeliveryPolicy { journal_span: 40, checkpoint_span: 20, ..DeliveryPolicy::default() };
        let mut settlements = Box::new(books.clone());
        let replayed = replay(&record, policy, &mut *settlements);
        let (replay, journal) = replayed.expect("it is the log that was there");
        assert!(books.shelf().is_replayed);
        let clock = DeliveryClock::start();
        let answer_timeout = Duration::from_secs(9);
        let times = NoticeTiming { clock, linger: Duration::from_millis(1), answer_timeout };
        let client = || {
            let limits = CallLimits {
                timeout: Duration::from_secs(1),
                connections_max: 1,
                idle_timeout: Duration::from_secs(1),
                networks_allowed: Vec::new(),
            };
            NoticeClient::start(NoticeClientOptions {
                addresses: limits.public(),
                limits,
                resolver: Arc::new(Nobody),
                tls: Arc::new(client_config(Some(&[]))),
                prior_knowledge: Box::new(|_| false),
                metrics: Arc::default(),
                shutdown: Shutdown::new(Duration::ZERO),
            })
        };
        let others = record.rings.durable_ring(1 << 20, None);
        let delivery = replay.finish(clock.now());
        let started = NoticeDispatcher::start(delivery, journal, client, settlements, times);
        let (dispatcher, counter, _) = started.expect("a thread");
        Self { dispatcher, counter, lane: record.durable, log, others }
    }

    /// Calls each beacon while others write; returns those that were the first of their token.
    fn call(&mut self, numbers: impl Iterator<Item = u8>) -> Vec<u8> {
        for _ in 0..300 {
            self.others.push(RecordKind::Generation.code(), 1, &[3; 100]).expect("there is room");
        }
        let calls: Vec<_> = numbers.map(|number| (number, paid(&self.counter, number))).collect();
        let is_first = |(number, call): (u8, oneshot::Receiver<BeaconAnswer>)| {
            let answer = call.blocking_recv().expect("an answer");
            (!answer.expect("there is room on the disk")).then_some(number)
        };
        calls.into_iter().filter_map(is_first).collect()
    }

    fn end(self) {
        // As the record does at its end.
        let _claim = self.lane.protect();
        drop(self.counter);
        self.dispatcher.join();
        let left = self.log.close(Duration::from_secs(60)).expect("it ends");
        assert_eq!(left.durable, 0);
    }
}

#[test]
fn over_restarts_none_is_lost_and_none_settled_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let books = Books::default();
    let mut saved = 0;
    for life in 0..6_u8 {
        books.begin(saved);
        let mut begun = Life::start(directory.path(), &books);
        // Twenty old ones, and twenty new ones.
        let numbers = (20 * life).saturating_sub(20)..20 * life + 20;
        assert_eq!(begun.call(numbers), Vec::from_iter(20 * life..20 * life + 20));
        // About half of the earlier settlements are durably booked, and none of this run.
        let told: Vec<_> = books.shelf().told.keys().copied().collect();
        saved = told[told.len() / 2];
        books.shelf().applied_seq = saved;
        let again = begun.call(20 * life..20 * life + 20);
        assert!(again.is_empty(), "{again:?}");
        begun.end();
    }
    assert_eq!(books.numbers(), Vec::from_iter(0..120));
    assert!(books.shelf().repeated > 100, "{}", books.shelf().repeated);
    // Only booked records are gone.
    let folder =
        eventlog::disk::DiskFolder::read_only(directory.path().join(LaneKind::Durable.name()));
    let first = eventlog::segments(&folder).expect("a directory")[0].first;
    assert!(1 < first && first <= saved + 1, "{first} of {saved}");
    // All of it was on disk: other books at that position get the same.
    let other = Books::default();
    other.begin(saved);
    Life::start(directory.path(), &other).end();
    let rest = books.shelf().told.split_off(&(saved + 1));
    assert_eq!(other.shelf().told, rest);
    assert_eq!(rest.len(), 59);
}

/// New records would be taken for booked ones, and their wins would not be spent.
#[test]
fn a_log_that_ends_before_what_is_booked_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let books = Books::default();
    let mut life = Life::start(directory.path(), &books);
    life.call(0..9);
    life.end();
    let end = Life::open(directory.path()).lane(LaneKind::Durable).sequence();
    let start = |settlements: &mut dyn Settlements| {
        let log = OpenLog::open(directory.path());
        replay(&log.record, DeliveryPolicy::default(), settlements).err()
    };
    let refused = |applied_seq| {
        books.begin(applied_seq);
        start(&mut books.clone())
    };
    assert!(refused(end).is_none());
    let Some(ReplayError::OtherLog { end: of_log, applied_seq }) = refused(end + 1) else {
        panic!("it is refused")
    };
    assert_eq!((of_log, applied_seq), (end, end + 1));
    assert!(start(&mut NoBudgets).is_none(), "nobody keeps books");
}

/// Lost records' numbers are not reused, so no new record is taken for a booked one.
#[test]
fn a_log_whose_end_is_lost_is_not_another_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let books = Books::default();
    // Each run begins a segment.
    for life in 0..2 {
        let mut life_of = Life::start(directory.path(), &books);
        life_of.call(9 * life..9 * life + 9);
        life_of.end();
        books.begin(0);
    }
    let folder =
        eventlog::disk::DiskFolder::read_only(directory.path().join(LaneKind::Durable.name()));
    let newest = *eventlog::segments(&folder).expect("a directory").last().expect("one");
    let path = directory.path().join(LaneKind::Durable.name()).join(newest.file_name());
    std::fs::remove_file(path).expect("it is there");
    let found = newest.first - 1;
    for applied_seq in [found, found + 1] {
        books.begin(applied_seq);
        let log = OpenLog::open(directory.path());
        let end = log.record.durable.sequence();
        // The lost segment may have had one record.
        assert!(end > found);
        replay(&log.record, DeliveryPolicy::default(), &mut books.clone())
            .expect("the record is this one");
        assert_eq!(books.shelf().passed, end);
    }
}
