//! Readers beside a writer: they continue where they stopped, report an end only if there is one,
//! and change nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::testing::{Chance, DiskFaults, FaultDisk};
use crate::disk::{Disk, DiskFolder};
use crate::segment::FrameFields;
use crate::*;

const OPTIONS: WriterOptions =
    WriterOptions { segment_bytes: 600, batch_bytes_max: 1 << 20, ..WriterOptions::DEFAULT };
const SEEDS: u64 = 2_000;

fn drain(reader: &mut LogReader<'_, FaultDisk>) -> Vec<LogRecord> {
    let record = |item| match item {
        Ok(LogEntry::Record(record)) => record,
        other => panic!("{other:?}"),
    };
    reader.by_ref().map(record).collect()
}

fn more(reader: &mut LogReader<'_, FaultDisk>) -> Vec<u64> {
    reader.refresh().expect("a directory");
    drain(reader).into_iter().map(|record| record.sequence).collect()
}

fn open(disk: &FaultDisk) -> LogWriter<FaultDisk> {
    LogWriter::open(disk.clone(), OPTIONS, |_| ()).expect("it is opened").0
}

fn commit(writer: &mut LogWriter<FaultDisk>, records: u64) {
    for _ in 0..records {
        writer.append(1, 0, &[b'p'; 60]).expect("it fits");
        writer.commit().expect("nothing fails");
    }
}

#[test]
fn a_reader_goes_on_across_segments_and_restarts() {
    let disk = FaultDisk::new(0);
    let mut reader = LogReader::new(&disk).unwrap().follow();
    assert_eq!(more(&mut reader), [0; 0], "there is nothing yet");
    let mut writer = open(&disk);
    assert_eq!(more(&mut reader), [0; 0]);
    commit(&mut writer, 2);
    assert_eq!(more(&mut reader), [1, 2]);
    assert_eq!(more(&mut reader), [0; 0]);
    commit(&mut writer, 1);
    assert_eq!(more(&mut reader), [3]);
    commit(&mut writer, 20);
    assert!(segments(&disk).unwrap().len() > 2);
    assert_eq!(more(&mut reader), (4..=23).collect::<Vec<_>>());
    writer.append(1, 0, b"written").unwrap();
    assert_eq!(more(&mut reader), [0; 0]);
    writer.flush().unwrap();
    assert_eq!(more(&mut reader), [24], "it need not be durable");
    drop(writer);
    disk.restart_process();
    let mut writer = open(&disk);
    assert_eq!(more(&mut reader), [0; 0]);
    commit(&mut writer, 2);
    assert_eq!(more(&mut reader), [25, 26]);
    // Other readers seek and follow from there.
    let mut from = LogReader::new(&disk).unwrap().seek(20).unwrap().follow();
    assert_eq!(drain(&mut from)[0].sequence, 20);
    commit(&mut writer, 1);
    assert_eq!(more(&mut from), [27]);
    assert_eq!(more(&mut reader), [27]);
}

/// A newer file of another node is ignored.
#[test]
fn what_another_node_leaves_in_the_directory_is_not_followed() {
    let other = FaultDisk::new(1);
    let options = WriterOptions { node: 7, ..OPTIONS };
    for _ in 0..3 {
        let (mut writer, _) = LogWriter::open(other.clone(), options, |_| ()).unwrap();
        commit(&mut writer, 1);
        drop(writer);
        other.restart_process();
    }
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 1);
    let mut reader = LogReader::new(&disk).unwrap().follow();
    assert_eq!(drain(&mut reader).len(), 1);
    let newest = *segments(&other).unwrap().last().unwrap();
    let file = other.open(&newest.file_name()).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size()).unwrap()];
    assert_eq!(file.read_at(0, &mut bytes), bytes.len());
    disk.create(&newest.file_name()).unwrap().write_at(0, &bytes).unwrap();
    assert_eq!(segments(&disk).unwrap().last(), Some(&newest));
    assert_eq!(more(&mut reader), [0; 0]);
    commit(&mut writer, 2);
    assert_eq!(more(&mut reader), [2, 3]);
}

#[test]
fn who_does_not_follow_ends() {
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 1);
    let mut reader = LogReader::new(&disk).unwrap();
    assert_eq!(drain(&mut reader).len(), 1);
    commit(&mut writer, 1);
    assert_eq!(more(&mut reader), [0; 0]);
}

/// A writer's bytes appear in pieces of any size. A record is yielded once it is complete.
#[test]
fn a_log_that_appears_byte_by_byte() {
    let (whole, grown) = (FaultDisk::new(0), FaultDisk::new(0));
    let mut writer = open(&whole);
    for length in [0, 1, 2, 3, 61, 300] {
        writer.append(1, 0, &vec![b'p'; length]).unwrap();
        writer.append(1, 0, b"").unwrap();
        writer.commit().unwrap();
    }
    let mut reader = LogReader::with_window(&grown, 64).unwrap().follow();
    let mut told = 0;
    for identity in segments(&whole).unwrap() {
        let name = identity.file_name();
        let bytes = whole.bytes(&name).unwrap();
        let ends: BTreeSet<_> = FrameScan::whole(identity, &bytes)
            .map(|found| match found {
                ScanItem::Record(frame) => frame.payload.end,
                other => panic!("{other:?}"),
            })
            .collect();
        for length in 0..=bytes.len() {
            grown.put(&name, &bytes[..length]);
            let count = more(&mut reader).len();
            assert_eq!(count, usize::from(ends.contains(&length)), "{length} bytes of {name}");
            told += count;
        }
    }
    assert_eq!(told, 12);
}

#[test]
fn damage_is_told_once_when_something_proves_it() {
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 3);
    let name = segments(&disk).unwrap()[0].file_name();
    let mut bytes = disk.bytes(&name).unwrap();
    bytes[HEADER_BYTES + 2 * (FRAME_BYTES + 60) + FRAME_BYTES] ^= 1;
    disk.put(&name, &bytes);
    let mut reader = LogReader::new(&disk).unwrap().follow();
    let items = |reader: &mut LogReader<'_, FaultDisk>| {
        reader.refresh().unwrap();
        let word = |item: Result<LogEntry, LogReadError>| match item.unwrap() {
            LogEntry::Record(record) => record.sequence.to_string(),
            LogEntry::Corruption(corruption) => corruption.problem.to_string(),
            LogEntry::Torn(torn) => panic!("{torn}"),
        };
        reader.by_ref().map(word).collect::<Vec<_>>()
    };
    // The record may still be written.
    assert_eq!(items(&mut reader), ["1", "2"]);
    assert_eq!(items(&mut reader), [""; 0]);
    // The writer still has the old file open; a later writer continues in a new one.
    drop(writer);
    disk.restart_process();
    let next = SegmentId { epoch: 9, first: 4, node: 0 };
    let mut segment = encode_header(next, 0, &ChainPoint::START).to_vec();
    let offset = segment.len();
    let frame = FrameFields { offset, sequence: 4, durable: 3, time_ms: 0, kind: 1 };
    encode_frame(&mut segment, next, &frame, b"proof");
    disk.put(&next.file_name(), &segment);
    assert_eq!(items(&mut reader), ["the payload of record 3 is damaged", "4"]);
    assert_eq!(items(&mut reader), [""; 0]);
}

#[test]
fn a_file_that_is_no_segment_is_told_once() {
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 1);
    let mut reader = LogReader::new(&disk).unwrap().follow();
    assert_eq!(drain(&mut reader).len(), 1);
    disk.put(&SegmentId { epoch: 5, first: 2, node: 0 }.file_name(), &[7; 100]);
    reader.refresh().unwrap();
    let items: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert!(
        matches!(&items[..], [LogEntry::Corruption(Corruption { bytes: 100, .. })]),
        "{items:?}"
    );
    commit(&mut writer, 1);
    assert_eq!(more(&mut reader), [2]);
}

/// A failed commit truncates flushed bytes while a reader reads them.
#[test]
fn a_file_that_is_cut_is_read_on() {
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 1);
    for _ in 0..4 {
        writer.append(1, 0, &[b'l'; 60]).unwrap();
    }
    writer.flush().unwrap();
    let mut reader = LogReader::with_window(&disk, 64).unwrap().follow();
    let mut next = |want: u64| match reader.next() {
        Some(Ok(LogEntry::Record(record))) => assert_eq!(record.sequence, want),
        other => panic!("{other:?}"),
    };
    next(1);
    next(2);
    disk.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    writer.commit().unwrap_err();
    disk.set_faults(DiskFaults::default());
    assert_eq!(drain(&mut reader), []);
    commit(&mut writer, 2);
    assert_eq!(more(&mut reader), [2, 3], "once more, in a later epoch");
}

/// Retention overtakes a reader, which skips the removed records.
#[test]
fn what_goes_under_a_reader_is_not_missing() {
    let disk = FaultDisk::new(0);
    let mut writer = open(&disk);
    commit(&mut writer, 30);
    let names = segments(&disk).unwrap();
    let third = names[2].first;
    let mut reader = LogReader::new(&disk).unwrap().follow();
    let Some(Ok(LogEntry::Record(first))) = reader.next() else { panic!("the first record") };
    assert_eq!(first.sequence, 1);
    writer.retain(Some(0), None, third).unwrap();
    assert_eq!(segments(&disk).unwrap()[0].first, third);
    let rest: Vec<_> = drain(&mut reader).into_iter().map(|record| record.sequence).collect();
    // The open file is read to its end.
    let want: Vec<_> = (2..names[1].first).chain(third..=30).collect();
    assert_eq!(rest, want);
    writer.retain(Some(0), None, u64::MAX).unwrap();
    commit(&mut writer, 1);
    assert_eq!(more(&mut reader), [31]);
}

/// A log that is written, fails, rotates, removes old records and restarts, under a reader that
/// polls now and then. In the end the reader has yielded exactly what is there, and nothing that
/// was never written.
#[expect(clippy::too_many_lines, reason = "one simulated run")]
fn run(seed: u64) -> Result<(), String> {
    let disk = FaultDisk::new(seed);
    let mut chance = Chance::new(!seed);
    let mut writer = open(&disk);
    let reader = LogReader::with_window(&disk, chance.index(3_000));
    let mut reader = reader.map_err(|error| error.to_string())?.follow();
    let mut told = BTreeMap::new();
    let mut appended = BTreeSet::new();
    let mut serial = 0_u64;
    let mut hear = |reader: &mut LogReader<'_, FaultDisk>, appended: &BTreeSet<(u64, Vec<u8>)>| {
        reader.refresh().map_err(|error| error.to_string())?;
        let mut last = None;
        for item in reader.by_ref() {
            let record = match item.map_err(|error| error.to_string())? {
                LogEntry::Record(record) => record,
                other => return Err(format!("there is no damage, yet {other:?}")),
            };
            if !appended.contains(&(record.sequence, record.payload.clone())) {
                return Err(format!("record {} was never appended", record.sequence));
            }
            let again = told
                .get(&record.sequence)
                .is_some_and(|before: &LogRecord| before.epoch >= record.epoch);
            if again
                || last.is_some_and(|(epoch, sequence)| {
                    (epoch, sequence) >= (record.epoch, record.sequence)
                })
            {
                return Err(format!("record {} comes after {last:?}", record.sequence));
            }
            last = Some((record.epoch, record.sequence));
            told.insert(record.sequence, record);
        }
        Ok(told.clone())
    };
    for round in 0..=60_u64 {
        let last = round == 60;
        let faulty = !last && chance.once_in(2);
        let rate = |chance: &mut Chance| if faulty { 2 + chance.below(10) } else { 0 };
        let (write, sync, other) = (rate(&mut chance), rate(&mut chance), rate(&mut chance));
        disk.set_faults(DiskFaults { write, sync, other });
        for _ in 0..if last { 50 } else { chance.below(6) } {
            serial += 1;
            let mut payload = serial.to_le_bytes().to_vec();
            payload.resize(8 + chance.index(200), b'x');
            let sequence = writer.append(1, 0, &payload).map_err(|error| error.to_string())?;
            appended.insert((sequence, payload));
        }
        match chance.below(8) {
            // The batch stays open.
            0 if !last => (),
            1 | 2 if !last => drop(writer.flush()),
            3 if !last => drop(writer.retain(Some(chance.below(3_000)), None, u64::MAX)),
            4 if !last => {
                drop(writer);
                disk.restart_process();
                disk.set_faults(DiskFaults::default());
                writer = open(&disk);
            }
            _ => drop(writer.commit()),
        }
        if last || chance.once_in(3) {
            hear(&mut reader, &appended)?;
        }
    }
    let told = hear(&mut reader, &appended)?;
    let reader = LogReader::new(&disk).map_err(|error| error.to_string())?;
    for item in reader {
        let Ok(LogEntry::Record(record)) = item else {
            return Err("there is no damage".to_owned());
        };
        if told.get(&record.sequence) != Some(&record) {
            return Err(format!("record {} was not told", record.sequence));
        }
    }
    Ok(())
}

#[test]
fn who_follows_is_told_what_is_there() {
    assert_eq!((0..SEEDS).find_map(|seed| run(seed).err().map(|problem| (seed, problem))), None);
}

#[test]
fn a_folder_that_is_read_stays_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    let missing = DiskFolder::read_only(temporary.path().join("missing"));
    assert!(LogReader::new(&missing).is_err_and(|error| error.to_string().contains("missing")));
    assert!(!temporary.path().join("missing").exists(), "it is not made");
    let (mut writer, _) =
        LogWriter::open(DiskFolder::new(temporary.path()).unwrap(), OPTIONS, |_| ()).unwrap();
    writer.append(1, 0, b"a").unwrap();
    writer.commit().unwrap();
    // The writer's process holds the lock; readers need none.
    let folder = DiskFolder::read_only(temporary.path());
    let names = folder.list().unwrap();
    for name in &names {
        let path = temporary.path().join(name);
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(path, permissions).unwrap();
    }
    let items: Vec<_> = LogReader::new(&folder).unwrap().map(Result::unwrap).collect();
    assert!(matches!(&items[..], [LogEntry::Record(record)] if record.payload == b"a"));
    let denied = |result: std::io::Result<()>| {
        let error = result.expect_err("nothing is changed");
        assert_eq!(error.to_string(), "this directory was opened for reading");
    };
    denied(folder.lock().map(drop));
    denied(folder.create("new").map(drop));
    denied(folder.remove(&names[0]));
    denied(folder.sync_directory());
    let mut file = folder.open(&names[0]).unwrap();
    assert!(disk::DiskFile::write_at(&mut file, 0, b"x").is_err());
    assert_eq!(folder.list().unwrap(), names);
}
