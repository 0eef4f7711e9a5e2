//! The newest record of a kind is found among any others, with few bytes read.

use crate::disk::testing::{Chance, FaultDisk};
use crate::tests::seek::OPTIONS;
use crate::*;

const SEEDS: u64 = 1_000;

/// A log with several starts and failed commits, and its records.
fn log(seed: u64) -> (FaultDisk, Vec<LogRecord>) {
    let mut chance = Chance::new(seed);
    let disk = FaultDisk::new(!seed);
    let rare = 2 + chance.below(200);
    for _ in 0..1 + chance.below(3) {
        let (mut writer, _) = LogWriter::open_at_end(disk.clone(), OPTIONS, |_| ()).expect("a log");
        for _ in 0..chance.below(40) {
            for _ in 0..1 + chance.below(4) {
                let kind = u8::from(!chance.once_in(rare));
                let payload = vec![7; chance.index(60)];
                writer.append(kind, chance.below(9), &payload).expect("there is room");
            }
            disk.set_space(chance.once_in(15).then_some(0));
            let _some_fail = writer.commit();
            disk.set_space(None);
        }
        if chance.once_in(2) {
            let index = disk.names().into_iter().find(|name| name.ends_with(".index"));
            index.iter().for_each(|name| disk.remove(name).expect("it is there"));
        }
    }
    let items = LogReader::new(&disk).expect("a log").map(|item| item.expect("it is read"));
    let record = |item| match item {
        LogEntry::Record(record) => Some(record),
        _ => None,
    };
    let records = items.filter_map(record).collect();
    (disk, records)
}

#[test]
fn it_is_what_a_reader_of_everything_finds_last() {
    let (mut without, mut older) = (0, 0);
    for seed in 0..SEEDS {
        let (disk, records) = log(seed);
        let picked = |record: &&LogRecord| record.kind == 0 && record.payload.len() > 20;
        let want = records.iter().rfind(picked);
        let found = newest(&disk, 0, |record| picked(&&record).then_some(record));
        assert_eq!(found.expect("it is read").as_ref(), want, "seed {seed}");
        let first = records.iter().find(|record| record.kind == 0);
        let begins = begins(&disk, 0).expect("it is listed");
        assert!(first.is_none_or(|first| begins <= first.sequence), "seed {seed}: {begins}");
        without += u64::from(want.is_none());
        older +=
            u64::from(want.is_some_and(|want| records.iter().rev().skip(50).any(|r| r == want)));
    }
    assert!(without > 50 && older > 50, "{without} without, {older} long ago");
}

#[test]
fn no_more_is_read_than_has_to_be() {
    let disk = FaultDisk::new(1);
    let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS, |_| ()).expect("a log");
    for number in 0..5_000_u32 {
        let kind = u8::from(!matches!(number, 100 | 4_900));
        writer.append(kind, 1, &number.to_le_bytes()).expect("there is room");
        writer.commit().expect("nothing fails");
    }
    let total: usize = disk.names().iter().filter_map(|name| Some(disk.bytes(name)?.len())).sum();
    let mut shown = Vec::new();
    let mut look = |wanted: u32| {
        let before = disk.bytes_read();
        shown.clear();
        let found = newest(&disk, 0, |record| {
            shown.push(u32::from_le_bytes(*record.payload.first_chunk().expect("a number")));
            (shown.last() == Some(&wanted)).then_some(())
        });
        let bytes = usize::try_from(disk.bytes_read() - before).expect("in memory");
        (found.expect("it is read").is_some(), shown.clone(), bytes * 100 / total)
    };
    // Segments without that kind are skipped by their index.
    let (found, shown, percent) = look(4_900);
    assert_eq!((found, shown), (true, vec![4_900]));
    assert!(percent < 20, "{percent} %");
    let (found, shown, percent) = look(100);
    assert_eq!((found, shown), (true, vec![4_900, 100]));
    assert!(percent < 50, "{percent} %");
    // The segment with the first such record is listed.
    assert!((80..=101).contains(&begins(&disk, 0).expect("it is listed")));
    assert_eq!(begins(&disk, 1).expect("it is listed"), 1);
    assert!(begins(&disk, 9).expect("it is listed") > 4_900);
    assert_eq!(begins(&FaultDisk::new(1), 9).expect("it is listed"), 0);
    // A kind that does not occur.
    assert!(!look(7).0);
    // Without indexes the segments themselves are read.
    for name in disk.names().into_iter().filter(|name| name.ends_with(".index")) {
        disk.remove(&name).expect("it is there");
    }
    let (found, shown, percent) = look(100);
    assert_eq!((found, shown), (true, vec![4_900, 100]));
    assert!(percent > 80, "{percent} %");
}
