//! Retention by size and by age: what goes, what stays, and that no index decides it wrongly.

use super::seek::{OPTIONS, log, records, spoil};
use crate::disk::testing::{Chance, FaultDisk};
use crate::*;

/// A writer of segments of five records each; that of sequence n is of time 10 n.
fn writer(segments: u64) -> (FaultDisk, Writer<FaultDisk>) {
    let disk = FaultDisk::new(0);
    let options = Options { segment_bytes: 500, ..OPTIONS };
    let (mut writer, _) = Writer::open(disk.clone(), options, |_| ()).expect("an empty disk");
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
    fn check(bytes_max: Option<u64>, older_than_ms: Option<u64>, keep_from: u64, want: u64) {
        let (disk, mut writer) = writer(6);
        let names = segments(&disk).expect("a directory");
        assert_eq!(names.len(), 6);
        let removed = writer.retain(bytes_max, older_than_ms, keep_from).expect("nothing fails");
        let want = usize::try_from(want).expect("few");
        assert_eq!(removed.segments, names[..want]);
        assert_eq!(removed.bytes, want as u64 * SEGMENT_BYTES);
        let left = segments(&disk).expect("a directory");
        assert_eq!(left[..6 - want], names[want..]);
        let indexes = disk.names().into_iter().filter(|name| name.ends_with(".index"));
        assert!(indexes.eq(names[want..].iter().map(|name| name.index_name())));
        let reader = Reader::new(&disk).expect("a directory");
        let sequences = records(reader).into_iter().map(|record| record.sequence);
        assert!(sequences.eq(5 * want as u64 + 1..=30));
        // And it goes on.
        assert_eq!(writer.append(1, 0, b"next"), Ok(31));
        assert_eq!(writer.commit().expect("nothing fails"), 31);
    }
    let all = u64::MAX;
    //    bytes_max                    older_than  keep_from  want
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
    check(None, Some(50), all, 0);
    check(None, Some(51), all, 1);
    check(None, Some(100), all, 1);
    check(None, Some(101), all, 2);
    check(None, Some(all), all, 5);
    check(None, Some(all), 7, 1);
    check(Some(3 * SEGMENT_BYTES), Some(51), all, 3);
    check(Some(5 * SEGMENT_BYTES), Some(151), all, 3);
}

#[test]
fn nothing_goes_while_a_batch_is_begun() {
    let (disk, mut writer) = writer(3);
    writer.append(1, 0, b"begun").unwrap();
    assert_eq!(writer.retain(Some(0), None, u64::MAX).unwrap(), Removed::default());
    assert_eq!(segments(&disk).unwrap().len(), 3);
    assert_eq!(writer.commit().unwrap(), 16);
}

/// It begins a segment each time; a segment that holds nothing yet is no obstacle.
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
    let (mut writer, recovery) = Writer::open(disk, OPTIONS, |_| ()).unwrap();
    assert_eq!((writer.durable(), recovery), (30, Recovery::default()));
    assert_eq!(writer.append(1, 0, b"goes on"), Ok(31));
}

/// A segment without an index is not read each time that somebody asks how old it is.
#[test]
fn a_segment_without_an_index_is_read_once() {
    let (disk, mut writer) = writer(3);
    let first = segments(&disk).unwrap()[0];
    disk::Disk::remove(&disk, &first.index_name()).unwrap();
    let mut read = || {
        let before = disk.bytes_read();
        assert_eq!(writer.retain(None, Some(50), u64::MAX).unwrap(), Removed::default());
        disk.bytes_read() - before
    };
    let (once, again) = (read(), read());
    assert!(once >= SEGMENT_BYTES - HEADER_BYTES as u64 && again < 100, "{once}, then {again}");
    let removed = writer.retain(None, Some(51), u64::MAX).unwrap();
    assert_eq!(removed.segments, [first]);
    // Another one's times are not taken for those of the next.
    let second = segments(&disk).unwrap()[0];
    disk::Disk::remove(&disk, &second.index_name()).unwrap();
    assert_eq!(writer.retain(None, Some(51), u64::MAX).unwrap(), Removed::default());
}

/// What goes is what a reader of all records would have chosen, whatever the indexes say.
#[test]
fn what_goes_is_what_the_records_say() {
    for seed in 0..1_000 {
        let mut chance = Chance::new(seed);
        let disk = log(&mut chance);
        let (mut writer, _) = Writer::open(disk.clone(), OPTIONS, |_| ()).unwrap();
        let names = segments(&disk).unwrap();
        if chance.once_in(2) {
            for identity in &names {
                spoil(&disk, *identity, &names, &mut chance);
            }
        }
        let all = records(Reader::new(&disk).unwrap());
        let bytes_max = chance.once_in(2).then(|| chance.below(4_000));
        let older_than_ms = chance.once_in(2).then(|| chance.below(13_000));
        let keep_from = chance.below(writer.durable() + 10);
        let length = |name: &Identity| disk.bytes(&name.file_name()).map_or(0, |bytes| bytes.len());
        let mut total: usize = names.iter().map(length).sum();
        let mut want = Vec::new();
        for pair in names.windows(2) {
            let own = |record: &&Record| (pair[0].first..pair[1].first).contains(&record.sequence);
            let latest = all.iter().filter(own).map(|record| record.time_ms).max();
            let too_long = bytes_max.is_some_and(|bytes_max| total as u64 > bytes_max);
            let too_old = older_than_ms.is_some_and(|older| latest.is_none_or(|at| at < older));
            if pair[1].first > keep_from || !too_long && !too_old {
                break;
            }
            total -= length(&pair[0]);
            want.push(pair[0]);
        }
        let removed = writer.retain(bytes_max, older_than_ms, keep_from).unwrap();
        assert_eq!(removed.segments, want, "seed {seed}");
    }
}
