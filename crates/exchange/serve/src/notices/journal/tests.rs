//! The notices' part of a log in memory, on a disk with planted faults, beside other writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eventlog::disk::SyncMeter;
use eventlog::disk::testing::{DiskFaults, FaultDisk};
use eventlog::lane::{
    BatchLimits, GapFormat, LaneOptions, LaneSetup, LaneTime as LogNow, LogDriver, Retention,
};
use eventlog::{LogWriter, WriterOptions};
use exchange_core::TokenId;
use exchange_core::delivery::{
    Beacon, DeliveryPolicy, Effect, ForwardedDevice, JournalReplay, Notice,
};
use runtime::process::unix_ms;

use super::*;
use crate::notices::DeliveryClock;

const OTHER: u8 = 9;

/// Short segments; the oldest go once nothing needs them.
const OPTIONS: LaneOptions = LaneOptions {
    writer: WriterOptions {
        segment_bytes: 4_000,
        index_every_bytes: 1_000,
        ..WriterOptions::DEFAULT
    },
    gather: BatchLimits { after: Duration::ZERO, bytes: 0 },
    retention: Retention { bytes_max: Some(1), age_max: None, every: Duration::ZERO },
    ..LaneOptions::DURABLE
};

/// A log whose thread is the test's.
pub(in crate::notices) struct LogByHand {
    pub disk: FaultDisk,
    driver: LogDriver<FaultDisk>,
    others: DurableRing,
    elapsed: Duration,
}

impl LogByHand {
    pub fn open(disk: &FaultDisk) -> (Self, NoticeJournal) {
        let setup = |disk: &FaultDisk| {
            let opened = LogWriter::open_at_end(disk.clone(), OPTIONS.writer, |_| ());
            let (writer, _) = opened.expect("nothing fails");
            LaneSetup { writer, options: OPTIONS, meter: Arc::<SyncMeter>::default() }
        };
        let gaps = GapFormat { kind: RecordKind::Gap.code(), encode: |_, _| () };
        let lanes = [setup(disk), setup(&FaultDisk::new(0))];
        let [durable, firehose] = lanes;
        let mut driver = LogDriver::new(durable, firehose, gaps, Box::new(|_, _| ()));
        let lane = driver.lane(LaneKind::Durable);
        let journal = NoticeJournal::connect(lane, |tell| driver.durable_ring(4 << 20, Some(tell)));
        let others = driver.durable_ring(1 << 20, None);
        let (disk, elapsed) = (disk.clone(), Duration::ZERO);
        (Self { disk, driver, others, elapsed }, journal)
    }

    /// Replays as a start would that has booked settlements up to `applied_seq`.
    pub fn read(&self, applied_seq: u64, visit: impl FnMut(u64, &[u8])) {
        read(&self.disk, applied_seq, visit).expect("nothing fails");
    }

    pub fn others(&mut self, count: usize) {
        for _ in 0..count {
            self.others.push(OTHER, unix_ms(), &[3; 100]).expect("there is room");
        }
    }

    /// A turn of the log thread, late enough to retry after a failure.
    pub fn write(&mut self) {
        self.elapsed += Duration::from_secs(2);
        self.driver.step(LogNow { tick: self.elapsed, unix_ms: 5 });
    }

    pub fn fail(&self, fails: bool) {
        let rate = u64::from(fails);
        self.disk.set_faults(DiskFaults { write: rate, sync: rate, other: rate });
    }

    pub fn restart(self) -> (Self, NoticeJournal) {
        let disk = self.disk.clone();
        drop(self);
        disk.restart_process();
        Self::open(&disk)
    }
}

/// Records of beacons, with their tickets.
fn records(count: u8) -> Vec<(JournalTicket, Vec<u8>)> {
    let now = DeliveryClock::start().now();
    let mut delivery = JournalReplay::new(DeliveryPolicy::default(), now.unix_ms).finish(now);
    let (mut inbox, mut outbox) = (Vec::new(), Vec::new());
    for number in 0..count {
        let url = format!("http://d.example/{number}");
        let notice = Notice::new("d".into(), url, ForwardedDevice::default()).expect("a notice");
        let (notice, reservation) = (Some(notice), None);
        let (id, expires_ms) = (TokenId([number; TokenId::BYTES]), now.unix_ms + 3_600_000);
        let call = u64::from(number);
        inbox.push(Event::Beacon(Box::new(Beacon { call, id, expires_ms, notice, reservation })));
    }
    delivery.step(now, &mut inbox, &mut outbox);
    let record = |effect| match effect {
        Effect::Journal { ticket, record } => (ticket, record),
        other => panic!("{other:?}"),
    };
    outbox.into_iter().map(record).collect()
}

fn checkpoint(needed_from: u64) -> Vec<u8> {
    JournalRecord::Checkpoint { needed_from }.encode()
}

/// A disk with these records, two per commit, in many segments.
fn written(records: &[(u8, Vec<u8>)]) -> FaultDisk {
    let disk = FaultDisk::new(7);
    let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS.writer, |_| ()).expect("it opens");
    for pair in records.chunks(2) {
        for (kind, payload) in pair {
            writer.append(*kind, 1, payload).expect("there is room");
        }
        writer.commit().expect("nothing fails");
    }
    disk
}

/// What is read, the sequences passed on, and the bytes read.
fn seen(disk: &FaultDisk) -> (JournalRead, Vec<u64>, u64) {
    seen_above(disk, u64::MAX)
}

fn seen_above(disk: &FaultDisk, applied_seq: u64) -> (JournalRead, Vec<u64>, u64) {
    let (before, mut shown) = (disk.bytes_read(), Vec::new());
    let read = read(disk, applied_seq, |sequence, _| shown.push(sequence)).expect("nothing fails");
    (read, shown, disk.bytes_read() - before)
}

/// A log of `count` records, with `ours` at their sequences.
fn log(count: u64, ours: &[(u64, Vec<u8>)]) -> FaultDisk {
    let ours: BTreeMap<_, _> = ours.iter().cloned().collect();
    let record = |sequence| match ours.get(&sequence) {
        Some(payload) => (RecordKind::Notice.code(), payload.clone()),
        None => (OTHER, vec![3; 100]),
    };
    written(&(1..=count).map(record).collect::<Vec<_>>())
}

#[test]
fn a_start_reads_from_where_the_last_checkpoint_says() {
    #[track_caller]
    fn check(checkpoints: &[(u64, u64)], from: u64, notices: &[u64]) -> u64 {
        let record = &records(1)[0].1;
        let mut ours: Vec<_> = [10, 300, 700, 900].map(|at| (at, record.clone())).into();
        ours.extend(checkpoints.iter().map(|(at, from)| (*at, checkpoint(*from))));
        let (read, shown, bytes) = seen(&log(1_000, &ours));
        assert_eq!((read.from, shown.as_slice()), (from, notices), "{checkpoints:?}");
        assert_eq!(read.records, 1_000 - from.saturating_sub(1));
        assert_eq!(read.notices, notices.len() as u64);
        bytes
    }
    let everything = check(&[], 1, &[10, 300, 700, 900]);
    let little = check(&[(800, 650)], 650, &[700, 800, 900]);
    assert!(little * 2 < everything, "{little} of {everything} bytes");
    let least = check(&[(100, 5), (800, 650), (990, 985)], 985, &[990]);
    assert!(least * 10 < everything, "{least} of {everything} bytes");
    // A checkpoint in the oldest segment still excludes what precedes it.
    check(&[(20, 20)], 20, &[20, 300, 700, 900]);
    check(&[(1_000, 1_000)], 1_000, &[1_000]);
}

/// Replays settlements that are not booked, but not what precedes the first notice.
#[test]
fn a_start_reads_from_where_settlements_are_not_booked() {
    let notice = records(1)[0].1.clone();
    let ours =
        [(300, notice.clone()), (700, notice.clone()), (900, notice), (950, checkpoint(940))];
    let disk = log(1_000, &ours);
    for (applied_seq, from, shown) in [
        (u64::MAX, 940, &[950][..]),
        (939, 940, &[950]),
        (899, 900, &[900, 950]),
        (300, 301, &[700, 900, 950]),
        (299, 300, &[300, 700, 900, 950]),
    ] {
        let (read, seen, _) = seen_above(&disk, applied_seq);
        assert_eq!((read.from, &*seen), (from, shown), "{applied_seq}");
    }
    let (read, seen, _) = seen_above(&disk, 0);
    assert!((200..=300).contains(&read.from), "{}", read.from);
    assert_eq!(seen, [300, 700, 900, 950]);
}

/// A node new to notices does not read long stretches of other records.
#[test]
fn without_notices_little_is_read() {
    let (read, shown, _) = seen(&log(5_000, &[]));
    assert!(read.from > 4_900 && read.records < 100 && shown.is_empty(), "{read:?}");
    let (read, shown, _) = seen(&FaultDisk::new(1));
    assert_eq!((read.from, read.records, shown.len()), (0, 0, 0));
}

/// Later records of others are not searched for a checkpoint.
#[test]
fn segments_of_others_are_passed_over() {
    let (first, notice) = (checkpoint(2), records(1)[0].1.clone());
    let few = seen(&log(100, &[(3, first.clone()), (90, notice.clone())]));
    let disk = log(10_000, &[(3, first), (90, notice)]);
    let total: usize = disk.names().iter().filter_map(|name| Some(disk.bytes(name)?.len())).sum();
    let before = disk.bytes_read();
    let found = eventlog::newest(&disk, RecordKind::Notice.code(), |record| {
        JournalRecord::decode(&record.payload)
            .ok()
            .filter(|record| matches!(record, JournalRecord::Checkpoint { .. }))
    });
    assert_eq!(found.unwrap(), Some(JournalRecord::Checkpoint { needed_from: 2 }));
    let bytes = usize::try_from(disk.bytes_read() - before).unwrap();
    assert!(bytes * 4 < total, "{bytes} of {total} bytes");
    assert_eq!((few.0.from, few.1), (2, vec![3, 90]));
}

#[test]
fn a_checkpoint_that_is_torn_or_damaged_was_never_there() {
    let record = records(1)[0].1.clone();
    let ours = [(300, record.clone()), (400, checkpoint(250)), (600, checkpoint(550))];
    let disk = log(600, &ours);
    assert_eq!(seen(&disk).0.from, 550);
    let newest = disk.names().into_iter().rfind(|name| name.ends_with(".segment")).unwrap();
    let bytes = disk.bytes(&newest).unwrap();
    for (what, changed) in [
        ("torn", bytes[..bytes.len() - 3].to_vec()),
        ("damaged", [&bytes[..bytes.len() - 3], &[!0; 3]].concat()),
    ] {
        disk.put(&newest, &changed);
        let (_, journal) = LogByHand::open(&disk);
        drop(journal);
        let (read, shown, _) = seen(&disk);
        assert_eq!((read.from, shown.as_slice()), (250, &[300, 400][..]), "{what}");
        disk.restart_process();
    }
}

/// Regardless of positions in the ring, and of commits.
#[test]
fn records_are_told_with_the_sequences_that_they_stand_at() {
    let (mut log, mut journal) = LogByHand::open(&FaultDisk::new(1));
    let mut handed = BTreeMap::new();
    let mut told = Vec::new();
    for (at, (ticket, record)) in records(60).into_iter().enumerate() {
        log.others(at % 4);
        assert_eq!(journal.write(ticket, &record), None);
        handed.insert(ticket, record);
        if at % 5 == 0 {
            log.write();
            while let Some(Event::JournalCommitted(more)) = journal.try_next_event() {
                told.extend(more);
            }
        }
    }
    assert_eq!(told.len(), 56, "four came since");
    let mut found = BTreeMap::new();
    read(&log.disk, u64::MAX, |sequence, bytes| drop(found.insert(sequence, bytes.to_vec())))
        .unwrap();
    let want: BTreeMap<_, _> =
        told.iter().map(|(ticket, sequence)| (*sequence, handed[ticket].clone())).collect();
    assert_eq!(found, want);
    let Event::JournalReached(reached) = journal.durable_position() else { panic!("it is told") };
    assert!(reached >= told.last().unwrap().1);
}

#[test]
fn what_was_taken_is_durable_later_and_what_was_refused_never() {
    let (mut log, mut journal) = LogByHand::open(&FaultDisk::new(2));
    let [first, second, third] = <[_; 3]>::try_from(records(3)).unwrap();
    assert_eq!(journal.write(first.0, &first.1), None);
    log.fail(true);
    log.write();
    assert_eq!(journal.try_next_event(), Some(Event::JournalFailing));
    let refused = Event::JournalRefused(vec![second.0]);
    assert_eq!(journal.write(second.0, &second.1), Some(refused));
    log.write();
    assert_eq!(journal.try_next_event(), None, "it is told once");
    log.fail(false);
    log.write();
    assert_eq!(journal.try_next_event(), Some(Event::JournalCommitted(vec![(first.0, 1)])));
    assert_eq!(journal.try_next_event(), Some(Event::JournalWriting));
    assert_eq!(journal.write(third.0, &third.1), None);
    log.write();
    assert_eq!(journal.try_next_event(), Some(Event::JournalCommitted(vec![(third.0, 2)])));
    let mut found = Vec::new();
    read(&log.disk, u64::MAX, |_, bytes| found.push(bytes.to_vec())).unwrap();
    assert_eq!(found, [first.1, third.1]);
}

#[test]
fn a_ring_without_room_and_a_log_that_is_closed_refuse() {
    let (log, mut journal) = LogByHand::open(&FaultDisk::new(3));
    let [one, other] = <[_; 2]>::try_from(records(2)).unwrap();
    let filler = vec![0; 1 << 20];
    while journal.ring.push(RecordKind::Notice.code(), 1, &filler).is_ok() {}
    while journal.ring.push(RecordKind::Notice.code(), 1, &[]).is_ok() {}
    let refused = |ticket| Some(Event::JournalRefused(vec![ticket]));
    assert_eq!(journal.write(one.0, &one.1), refused(one.0));
    drop(log);
    assert_eq!(journal.write(other.0, &other.1), refused(other.0));
}

/// No more reports will come for records it had taken.
#[tokio::test]
async fn the_end_of_the_log_thread_is_told_as_a_failure_and_once() {
    let (log, mut journal) = LogByHand::open(&FaultDisk::new(3));
    drop(log);
    assert_eq!(journal.next_event().await, Event::JournalFailing);
    let more = std::pin::pin!(journal.next_event());
    assert!(futures_are_pending(more).await);
}

async fn futures_are_pending(future: impl Future<Output = Event>) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = tokio::task::yield_now() => true,
    }
}

/// Of a lane's many segments, those that a start needs stay.
#[test]
fn old_segments_go_as_far_as_notices_need_them() {
    let (mut log, mut journal) = LogByHand::open(&FaultDisk::new(4));
    let mut told = Vec::new();
    for (ticket, record) in records(100) {
        journal.write(ticket, &record);
        log.others(5);
        log.write();
        while let Some(Event::JournalCommitted(more)) = journal.try_next_event() {
            told.extend(more.into_iter().map(|(_, sequence)| sequence));
        }
    }
    let first = |log: &LogByHand| eventlog::segments(&log.disk).expect("a directory")[0].first;
    assert_eq!(first(&log), 1, "nothing goes before it is said what is needed");
    for needed in [1, 100, 350, 500] {
        journal.keep_from(needed);
        log.write();
        let mut found = Vec::new();
        log.read(u64::MAX, |sequence, _| found.push(sequence));
        let wanted: Vec<_> = told.iter().copied().filter(|at| *at >= needed).collect();
        assert!(found.ends_with(&wanted), "{needed}: {found:?}");
        assert!(first(&log) <= needed, "{needed}");
    }
    assert!(first(&log) > 350, "and no more stay than that");
}
