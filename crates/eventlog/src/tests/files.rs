//! The main cases once more, on a real file system.

use std::os::unix::fs::MetadataExt;

use crate::disk::{Disk, DiskFolder};
use crate::*;

const OPTIONS: WriterOptions =
    WriterOptions { segment_bytes: 500, batch_bytes_max: 1 << 20, ..WriterOptions::DEFAULT };

fn open(folder: &DiskFolder) -> (LogWriter<DiskFolder>, Vec<LogRecord>) {
    let mut records = Vec::new();
    let opened = LogWriter::open(folder.clone(), OPTIONS, |item| match item {
        LogEntry::Record(record) => records.push(record),
        other => panic!("{other:?}"),
    });
    (opened.expect("the folder is ours").0, records)
}

fn segments(folder: &DiskFolder) -> usize {
    let names = folder.list().expect("the folder is there");
    names.iter().filter(|name| name.ends_with(".segment")).count()
}

#[test]
fn records_survive_and_epochs_begin() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path().join("deep/log")).unwrap();
    for life in 1..=3_u64 {
        let (mut writer, records) = open(&folder);
        assert_eq!(writer.epoch(), life);
        let want: Vec<_> = (1..life).flat_map(|epoch| [epoch; 20]).collect();
        assert_eq!(records.iter().map(|record| record.epoch).collect::<Vec<_>>(), want);
        let sequences = records.iter().map(|record| record.sequence);
        assert!(sequences.eq(1..=20 * (life - 1)));
        for number in 0..20_u64 {
            let sequence = writer.append(5, 0, &[b'p'; 40]).unwrap();
            assert_eq!(sequence, 20 * (life - 1) + number + 1);
            assert_eq!(writer.commit().unwrap(), sequence);
        }
    }
    assert!(segments(&folder) >= 6, "they rotate");
}

#[test]
fn old_segments_go_and_sequences_go_on() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let (mut writer, _) = open(&folder);
    for _ in 0..50 {
        writer.append(1, 0, &[b'p'; 40]).unwrap();
        writer.commit().unwrap();
    }
    let before = segments(&folder);
    writer.remove_before(30);
    assert_eq!(segments(&folder), before, "not before a durable header says so");
    let rotated = |writer: &mut LogWriter<DiskFolder>| {
        for _ in 0..10 {
            writer.append(1, 0, &[b'p'; 40]).unwrap();
            writer.commit().unwrap();
        }
    };
    rotated(&mut writer);
    assert!(segments(&folder) < before);
    assert_eq!(writer.segments(), segments(&folder));
    drop(writer);
    let (mut writer, records) = open(&folder);
    let first = records[0].sequence;
    assert!((20..=30).contains(&first), "{first}: of the segment that holds 30, all is there");
    assert!(records.iter().map(|record| record.sequence).eq(first..=60));
    writer.remove_before(u64::MAX);
    rotated(&mut writer);
    drop(writer);
    let (mut writer, records) = open(&folder);
    assert!(segments(&folder) <= 2 && records[0].sequence > 55, "what was durable then is gone");
    assert_eq!(writer.append(1, 0, b"").unwrap(), 71);
}

#[test]
fn a_folder_in_use_is_refused_by_name() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let (writer, _) = open(&folder);
    let error = LogWriter::open(folder.clone(), OPTIONS, |_| ()).err().expect("it is held");
    let want = format!(
        "{} is in use by process {}: end it, or name another directory",
        temporary.path().display(),
        std::process::id(),
    );
    assert!(matches!(error, LogOpenError::InUse { .. }));
    assert_eq!(error.to_string(), want);
    drop(writer);
    open(&folder);
}

#[test]
fn what_cannot_be_appended_is_said() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let options = WriterOptions { batch_bytes_max: 200, ..OPTIONS };
    let (mut writer, _) = LogWriter::open(folder, options, |_| ()).unwrap();
    let long = vec![0; PAYLOAD_BYTES_MAX + 1];
    let error = writer.append(1, 0, &long).unwrap_err();
    assert_eq!(error.to_string(), "a payload of 1048577 bytes, at most 1048576 are written");
    assert_eq!(writer.append(1, 0, &[1; 100]), Ok(1));
    assert_eq!(
        writer.append(1, 0, &[1; 100]).unwrap_err().to_string(),
        "the batch is full: commit first"
    );
    assert_eq!(writer.commit().unwrap(), 1);
    assert_eq!(writer.append(1, 0, &long[1..]), Ok(2), "alone in its batch a record may be longer");
    assert_eq!(writer.commit().unwrap(), 2);
}

/// A file that is named like a segment but too long is not read.
#[test]
fn a_file_that_is_too_long_is_refused_by_name() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let name = SegmentId { epoch: 3, first: 9, node: 0 }.file_name();
    let file = std::fs::File::create(temporary.path().join(&name)).unwrap();
    for (bytes, is_read) in [(SEGMENT_BYTES_LIMIT + 1, false), (100, true)] {
        file.set_len(bytes).unwrap();
        let error = LogWriter::open_at_end(folder.clone(), OPTIONS, |_| ()).err();
        assert_eq!(error.is_none(), is_read, "{bytes} bytes");
        if let Some(error) = error {
            let want = format!("{}: {name} cannot be read", temporary.path().display());
            assert!(error.to_string().starts_with(&want), "{error}");
        }
    }
}

/// Sequences order the records, whatever the clock says.
#[test]
fn a_clock_that_goes_backwards_orders_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let times: Vec<u64> = (0..60).map(|number| (60 - number) * 1_000 + number % 7).collect();
    for life in times.chunks(20) {
        // Each start is earlier than the previous one.
        let (mut writer, _) = open(&folder);
        for time_ms in life {
            writer.append(1, *time_ms, &time_ms.to_le_bytes()).unwrap();
            writer.commit().unwrap();
        }
    }
    assert!(segments(&folder) >= 6, "among several segments");
    let (writer, records) = open(&folder);
    assert_eq!((writer.durable(), writer.epoch()), (60, 4));
    assert!(records.iter().map(|record| record.sequence).eq(1..=60));
    assert!(records.iter().map(|record| record.time_ms).eq(times.iter().copied()));
}

fn segments_of(folder: &DiskFolder) -> Vec<SegmentId> {
    crate::segments(folder).expect("the folder is there")
}

/// Space is reserved if the file system supports it; the log works without.
#[test]
fn room_is_set_aside_and_given_back() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let room: u64 = 1 << 20;
    let options = WriterOptions { segment_bytes: room, preallocate: true, ..OPTIONS };
    let probe = std::fs::File::create(temporary.path().join("probe")).unwrap();
    let keep_size = rustix::fs::FallocateFlags::KEEP_SIZE;
    let can = rustix::fs::fallocate(&probe, keep_size, 0, room).is_ok();
    let (mut writer, _) = LogWriter::open(folder.clone(), options, |_| ()).unwrap();
    writer.append(1, 0, b"first").unwrap();
    writer.commit().unwrap();
    let name = segments_of(&folder)[0].file_name();
    let file = || std::fs::metadata(temporary.path().join(&name)).unwrap();
    let taken = || file().blocks() * 512;
    assert!(file().len() < 150, "it is as long as what was written");
    assert!(!can || taken() >= room, "{} bytes", taken());
    drop(writer);
    let (mut writer, recovery) = LogWriter::open(folder.clone(), options, |_| ()).unwrap();
    assert_eq!((writer.durable(), recovery.torn), (1, false));
    assert!(taken() < room, "what is sealed takes no room that it does not need");
    writer.append(1, 0, b"second").unwrap();
    writer.commit().unwrap();
    assert_eq!(writer.retain(Some(0), None, 2).unwrap().segments.len(), 1);
    let name = segments_of(&folder)[0].file_name();
    let sealed = std::fs::metadata(temporary.path().join(name)).unwrap();
    assert!(sealed.blocks() * 512 < room, "nor when that is early");
}

#[test]
fn a_file_of_the_end_that_cannot_be_read_is_written_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = DiskFolder::new(temporary.path()).unwrap();
    let (mut writer, _) = open(&folder);
    writer.append(1, 0, b"one").unwrap();
    writer.commit().unwrap();
    drop(writer);
    let path = temporary.path().join(END_NAME);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(END_NAME, &path).unwrap();
    assert_eq!(LogReader::new(&folder).unwrap().count(), 1, "a reader reads all the same");
    let (mut writer, recovery) = LogWriter::open(folder.clone(), OPTIONS, |_| ()).unwrap();
    assert!(matches!(recovery.end, RecoveredEnd::Unreadable(_)), "{:?}", recovery.end);
    writer.append(1, 0, b"two").unwrap();
    assert_eq!(writer.commit().unwrap(), 2);
    assert!(matches!(EndFile::read(&folder), Ok(EndFile::Sound(end)) if end.last == 1));
}
