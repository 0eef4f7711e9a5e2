//! Retention by size and by age: what is removed, what stays, and that indexes do not mislead it.

use super::seek::{OPTIONS, log, records, spoil};
use crate::disk::testing::{Chance, FaultDisk};
use crate::*;

/// A writer with segments of five records. Record n has time 10 n.
fn writer(segments: u64) -> (FaultDisk, LogWriter<FaultDisk>) {
    let disk = FaultDisk::new(0);
    let options = WriterOptions { segment_bytes: 500, ..OPTIONS };
    let (mut writer, _) = LogWriter::open(disk.clone(), options, |_| ()).expect("an empty disk");
    for sequence in 1..=5 * segments {
        writer.append(1, 10 * sequence, &[b'p'; 60]).expect("it fits");
        writer.commit().expect("nothing fails");
    }
    (disk, writer)
}

const SEGMENT_BYTES: u64 = HEADER_BYTES as u64 + 5 * (FRAME_BYTES as u64 + 60);

#[test]
fn whole_segments_go_oldest_first() {
    #[track_caller]
    fn check(bytes_max: Option<u64>, age_max_ms: Option<u64>, keep_from: u64, want: u64) {
        let (disk, mut writer) = writer(6);
        let names = segments(&disk).expect("a directory");
        assert_eq!(names.len(), 6);
        let removed = writer.retain(bytes_max, age_max_ms, keep_from).expect("nothing fails");
        let want = usize::try_from(want).expect("few");
        assert_eq!(removed.segments, names[..want]);
        assert_eq!(removed.bytes, want as u64 * SEGMENT_BYTES);
        let left = segments(&disk).expect("a directory");
        assert_eq!(left[..6 - want], names[want..]);
        let indexes = disk.names().into_iter().filter(|name| name.ends_with(".index"));
        assert!(indexes.eq(names[want..].iter().map(|name| name.index_name())));
        let reader = LogReader::new(&disk).expect("a directory");
        let sequences = records(reader).into_iter().map(|record| record.sequence);
        assert!(sequences.eq(5 * want as u64 + 1..=30));
        // The log goes on.
        assert_eq!(writer.append(1, 0, b"next"), Ok(31));
        assert_eq!(writer.commit().expect("nothing fails"), 31);
    }
    let all = u64::MAX;
    //    bytes_max                    age_max  keep_from  want
    check(None, None, all, 0);
    check(Some(6 * SEGMENT_BYTES), None, all, 0);
    check(Some(6 * SEGMENT_BYTES - 1), None, all, 1);
    check(Some(2 * SEGMENT_BYTES), None, all, 4);
    check(Some(0), None, all, 5);
    check(Some(0), None, 0, 0);
    check(Some(0), None, 5, 0);
    check(Some(0), None, 6, 1);
    check(Some(0), None, 10, 1);
    check(Some(0), None, 11, 2);
    check(None, Some(250), all, 0);
    check(None, Some(249), all, 1);
    check(None, Some(200), all, 1);
    check(None, Some(199), all, 2);
    check(None, Some(49), all, 5);
    check(None, Some(0), 7, 1);
    check(Some(3 * SEGMENT_BYTES), Some(249), all, 3);
    check(Some(5 * SEGMENT_BYTES), Some(149), all, 3);
}

#[test]
fn nothing_goes_while_a_batch_is_begun() {
    let (disk, mut writer) = writer(3);
    writer.append(1, 0, b"begun").unwrap();
    // It computes no ages either, so it detects no clock step.
    assert_eq!(writer.retain(Some(0), Some(0), u64::MAX).unwrap(), RemovedSegments::default());
    assert_eq!(RemovedSegments::default().clock_steps, None);
    assert_eq!(segments(&disk).unwrap().len(), 3);
    assert_eq!(writer.commit().unwrap(), 16);
}

/// Each call begins a segment; an empty one is no obstacle.
#[test]
fn retention_again_and_again() {
    let (disk, mut writer) = writer(6);
    for keep_from in [6, 11, 16, 31] {
        let removed = writer.retain(Some(0), None, keep_from).unwrap();
        assert!(!removed.segments.is_empty(), "below {keep_from}");
    }
    assert_eq!(writer.retain(Some(0), None, u64::MAX).unwrap().segments.len(), 0);
    assert_eq!(segments(&disk).unwrap().len(), 1, "and that holds nothing");
    drop(writer);
    disk.lose_power();
    let (mut writer, recovery) = LogWriter::open(disk, OPTIONS, |_| ()).unwrap();
    assert_eq!((writer.durable(), recovery.records, recovery.corruptions), (30, 0, 0));
    assert!(
        matches!(recovery.end, RecoveredEnd::Open { is_gone: false, .. }),
        "{:?}",
        recovery.end
    );
    assert_eq!(writer.append(1, 0, b"goes on"), Ok(31));
}

/// A segment without an index is read once, not at each query of its age.
#[test]
fn a_segment_without_an_index_is_read_once() {
    let (disk, mut writer) = writer(3);
    let first = segments(&disk).unwrap()[0];
    disk::Disk::remove(&disk, &first.index_name()).unwrap();
    let mut read = || {
        let before = disk.bytes_read();
        assert_eq!(writer.retain(None, Some(100), u64::MAX).unwrap().segments, []);
        disk.bytes_read() - before
    };
    let (once, again) = (read(), read());
    assert!(once >= SEGMENT_BYTES - HEADER_BYTES as u64 && again < 100, "{once}, then {again}");
    let removed = writer.retain(None, Some(99), u64::MAX).unwrap();
    assert_eq!(removed.segments, [first]);
    // The next segment does not get its times.
    let second = segments(&disk).unwrap()[0];
    disk::Disk::remove(&disk, &second.index_name()).unwrap();
    assert_eq!(writer.retain(None, Some(99), u64::MAX).unwrap().segments, []);
}

/// Retention decides as a reader of all records would, whatever the indexes say.
#[test]
fn what_goes_is_what_the_records_say() {
    for seed in 0..1_000 {
        let mut chance = Chance::new(seed);
        let disk = log(&mut chance);
        let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS, |_| ()).unwrap();
        let names = segments(&disk).unwrap();
        if chance.once_in(2) {
            for identity in &names {
                spoil(&disk, *identity, &names, &mut chance);
            }
        }
        let all = records(LogReader::new(&disk).unwrap());
        let bytes_max = chance.once_in(2).then(|| chance.below(4_000));
        let age_max_ms = chance.once_in(2).then(|| chance.below(13_000));
        let keep_from = chance.below(writer.durable() + 10);
        let length =
            |name: &SegmentId| disk.bytes(&name.file_name()).map_or(0, |bytes| bytes.len());
        let mut total: usize = names.iter().map(length).sum();
        let latest = |at: usize| {
            let end = names.get(at + 1).map_or(u64::MAX, |next| next.first);
            let own = |record: &&LogRecord| (names[at].first..end).contains(&record.sequence);
            all.iter().filter(own).map(|record| record.time_ms).max()
        };
        // Times are less than a day apart, so each step forward counts.
        let age = |at: usize| -> u64 {
            let times: Vec<_> = (at..names.len()).filter_map(latest).collect();
            let before = (0..=at).rev().find_map(latest);
            let all = before.into_iter().chain(times).collect::<Vec<_>>();
            all.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum()
        };
        let mut want = Vec::new();
        for (at, pair) in names.windows(2).enumerate() {
            let too_long = bytes_max.is_some_and(|bytes_max| total as u64 > bytes_max);
            let too_old = age_max_ms.is_some_and(|age_max| age(at) > age_max);
            if pair[1].first > keep_from || !too_long && !too_old {
                break;
            }
            total -= length(&pair[0]);
            want.push(pair[0]);
        }
        let removed = writer.retain(bytes_max, age_max_ms, keep_from).unwrap();
        assert_eq!(removed.segments, want, "seed {seed}");
    }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// One start with a wrong clock ages nothing, neither then nor after the correction.
#[test]
fn a_clock_that_is_ahead_removes_nothing() {
    let disk = FaultDisk::new(0);
    let options = WriterOptions { segment_bytes: 500, ..OPTIONS };
    let open = || LogWriter::open(disk.clone(), options, |_| ()).unwrap().0;
    let month = Some(30 * DAY_MS);
    // Ten days of records, a start 400 days ahead, and a day with the correct clock.
    let mut hour = 0;
    for (start, hours) in [(0, 240), (400 * 24, 5), (240, 24)] {
        let mut writer = open();
        for after in 0..hours {
            hour = start + after;
            writer.append(1, hour * 60 * 60 * 1000, &[b'p'; 60]).unwrap();
            writer.commit().unwrap();
            let kept = writer.retain(None, month, u64::MAX).unwrap();
            assert_eq!(kept.segments, [], "hour {after} from {start}");
            let steps = usize::from(start != 0);
            assert_eq!(kept.clock_steps, Some(steps), "hour {after} from {start}");
        }
    }
    assert_eq!(records(LogReader::new(&disk).unwrap()).len(), 269);
    // Real time counts: records become a month old and are removed.
    let mut writer = open();
    let mut removed = Vec::new();
    for hour in hour..=(hour + 30 * 24) {
        writer.append(1, hour * 60 * 60 * 1000, &[b'p'; 60]).unwrap();
        writer.commit().unwrap();
        removed.extend(writer.retain(None, month, u64::MAX).unwrap().segments);
    }
    assert!(removed.len() >= 269 / 5, "{removed:?}");
    let first = records(LogReader::new(&disk).unwrap())[0].time_ms;
    assert!((240 * 60 * 60 * 1000..264 * 60 * 60 * 1000).contains(&first), "{first}");
}

/// A clock step during a run ends the segment, too.
#[test]
fn a_clock_that_steps_ends_a_segment() {
    let disk = FaultDisk::new(0);
    let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS, |_| ()).unwrap();
    writer.append(1, 0, b"a").unwrap();
    writer.append(1, DAY_MS, b"b").unwrap();
    let ahead = 2 * DAY_MS + 1;
    assert_eq!(writer.append(1, ahead, b"c"), Err(AppendError::BatchFull));
    writer.commit().unwrap();
    assert_eq!(writer.append(1, ahead, b"c"), Ok(3));
    // A step back does not count, nor do later times.
    writer.append(1, 0, b"d").unwrap();
    writer.append(1, ahead, b"e").unwrap();
    writer.commit().unwrap();
    let firsts: Vec<_> = segments(&disk).unwrap().iter().map(|segment| segment.first).collect();
    assert_eq!(firsts, [1, 3]);
    let kept = writer.retain(None, Some(DAY_MS), u64::MAX).unwrap();
    assert_eq!((kept.segments.len(), kept.clock_steps), (0, Some(1)));
    assert_eq!(writer.retain(None, Some(0), u64::MAX).unwrap().segments, []);
}
