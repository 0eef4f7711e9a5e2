//! Every record is yielded once and in order, with all damage, exactly as by the log's own reader.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::*;
use crate::log::directory::{DirectoryError, RecordDirectory};
use crate::testing::{NODE, START_MS, SampleLog};

const RECORDS: u64 = 60;

fn payload(sequence: u64) -> Vec<u8> {
    format!("payload of {sequence}").repeat(20).into_bytes()
}

fn write(path: &Path) {
    let mut log = SampleLog::open(path, 4096);
    for sequence in 1..=RECORDS {
        log.firehose(200, START_MS + sequence * 1000, &payload(sequence));
    }
}

/// Files of the firehose, in order.
fn files(path: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("firehose")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_str().unwrap().ends_with(suffix));
    files.sort();
    files
}

fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

type Told = (Vec<(RecordPosition, Vec<u8>)>, Vec<Corruption>, Option<TornTail>);

fn walked(directory: &RecordDirectory) -> Told {
    let lane = directory.lane(LaneKind::Firehose).unwrap();
    let (mut records, mut damage, mut room) =
        (Vec::new(), LaneDamage::default(), ReadBuffer::default());
    damage.corruptions.extend_from_slice(lane.foreign());
    for segment in lane.segments() {
        let mut visit = |place: &RecordPosition, _: u8, payload: &[u8]| {
            records.push((*place, payload.to_vec()));
            ControlFlow::Continue(())
        };
        damage.add(lane.walk(segment, 0, &mut room, &mut visit).unwrap().damage);
    }
    (records, damage.corruptions, damage.torn)
}

fn swept(directory: &RecordDirectory) -> Told {
    let lane = directory.lane(LaneKind::Firehose).unwrap();
    let mut records = Vec::new();
    let mut damage = LaneDamage { corruptions: lane.foreign().to_vec(), torn: None };
    let visit = |records: &mut Vec<(RecordPosition, Vec<u8>)>,
                 place: &RecordPosition,
                 _: u8,
                 payload: &[u8]| {
        records.push((*place, payload.to_vec()));
    };
    let each = |part: SweptSegment<Vec<(RecordPosition, Vec<u8>)>>| {
        records.extend(part.made);
        damage.add(part.walked.damage);
        ControlFlow::Continue(())
    };
    lane.sweep(lane.segments(), Vec::new, visit, each).unwrap();
    (records, damage.corruptions, damage.torn)
}

fn read(directory: &RecordDirectory) -> Told {
    let (mut records, mut corruptions, mut torn) = (Vec::new(), Vec::new(), None);
    for item in LogReader::new(directory.folder(LaneKind::Firehose)).unwrap() {
        match item.unwrap() {
            LogEntry::Record(record) => {
                let eventlog::LogRecord { epoch, sequence, time_ms, payload, .. } = record;
                records.push((RecordPosition { node: NODE, epoch, sequence, time_ms }, payload));
            }
            LogEntry::Corruption(corruption) => corruptions.push(corruption),
            LogEntry::Torn(at) => torn = Some(at),
        }
    }
    (records, corruptions, torn)
}

/// All three ways of reading a changed log of many segments agree. Returns the number of records
/// and the damage.
#[track_caller]
fn check(change: impl FnOnce(&Path, &[PathBuf])) -> (usize, Vec<CorruptionKind>, bool) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let segments = files(folder.path(), ".segment");
    assert!(segments.len() > 4, "{segments:?}");
    change(folder.path(), &segments);
    let directory = RecordDirectory::open_written(folder.path()).unwrap();
    let want = read(&directory);
    for got in [walked(&directory), swept(&directory)] {
        assert_eq!(got.0, want.0);
        assert_eq!((&got.1, &got.2), (&want.1, &want.2));
    }
    let problems = want.1.iter().map(|corruption| corruption.problem).collect();
    (want.0.len(), problems, want.2.is_some())
}

#[test]
fn a_sound_log_is_told_as_it_is() {
    assert_eq!(check(|_, _| ()), (60, vec![], false));
}

/// An index counts only if the next segment begins where its own ends.
#[test]
fn an_index_counts_where_nothing_is_missing_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let indexed = || {
        let directory = RecordDirectory::open_written(folder.path()).unwrap();
        let lane = directory.lane(LaneKind::Firehose).unwrap();
        lane.segments().iter().map(|segment| lane.index(segment).is_some()).collect::<Vec<_>>()
    };
    let all = indexed();
    let (newest, sealed) = all.split_last().unwrap();
    assert!(sealed.iter().all(|has| *has) && !newest, "{all:?}");
    fs::remove_file(&files(folder.path(), ".segment")[2]).unwrap();
    let left = indexed();
    assert_eq!(left[..3], [true, false, true], "the second has nothing behind it: {left:?}");
}

#[test]
fn damage_is_told_where_it_is() {
    let first = HEADER_BYTES + eventlog::FRAME_BYTES;
    let (records, problems, _) = check(|_, files| edit(&files[1], |bytes| bytes[first] ^= 1));
    assert!(matches!(problems[..], [CorruptionKind::Payload { .. }]), "{problems:?}");
    assert_eq!(records, 59);
    let (records, problems, _) =
        check(|_, files| edit(&files[2], |bytes| bytes[HEADER_BYTES + 56] ^= 1));
    assert_eq!((records, problems.len()), (59, 1));
    let header = |_: &Path, files: &[PathBuf]| edit(&files[1], |bytes| bytes[3] ^= 1);
    assert_eq!(check(header), (60, vec![CorruptionKind::Header], false));
    let frame = |_: &Path, files: &[PathBuf]| edit(&files[1], |bytes| bytes[HEADER_BYTES + 9] ^= 1);
    let (records, problems, _) = check(frame);
    assert!(
        matches!(problems[..], [CorruptionKind::Garbage, CorruptionKind::Missing { .. }]),
        "{problems:?}"
    );
    assert_eq!(records, 59);
}

#[test]
fn files_that_are_cut_lost_or_not_ours_are_told() {
    let (_, problems, _) = check(|_, files| edit(&files[1], |bytes| bytes.truncate(1000)));
    assert!(matches!(problems[..], [.., CorruptionKind::Missing { .. }]), "{problems:?}");
    let (_, problems, _) = check(|_, files| fs::remove_file(&files[1]).unwrap());
    assert!(matches!(problems[..], [CorruptionKind::Missing { .. }]), "{problems:?}");
    let (_, problems, _) = check(|_, files| edit(&files[1], Vec::clear));
    assert!(matches!(problems[..], [CorruptionKind::Missing { .. }]), "{problems:?}");
    let (_, problems, _) = check(|_, files| edit(&files[1], |bytes| bytes.fill(0xaa)));
    assert!(problems.contains(&CorruptionKind::Header), "{problems:?}");
    let foreign = |_: &Path, files: &[PathBuf]| {
        let name = files[1].to_str().unwrap().replace("0000000007.segment", "0000000003.segment");
        fs::copy(&files[1], name).unwrap();
    };
    assert_eq!(check(foreign), (60, vec![CorruptionKind::OtherNode { node: 3 }], false));
}

/// An unfinished write in the newest segment is no damage.
#[test]
fn a_torn_end_is_no_damage() {
    let cut = |_: &Path, files: &[PathBuf]| {
        edit(files.last().unwrap(), |bytes| bytes.truncate(bytes.len() - 5));
    };
    assert_eq!(check(cut), (59, vec![], true));
    let garbage = |_: &Path, files: &[PathBuf]| {
        edit(files.last().unwrap(), |bytes| bytes.extend([0xaa; 50]));
    };
    assert_eq!(check(garbage), (60, vec![], true));
}

/// A new epoch overrules the tail of the previous one.
#[test]
fn a_second_start_goes_on() {
    let (records, problems, _) = check(|path, files| {
        edit(files.last().unwrap(), |bytes| bytes.extend([0xaa; 50]));
        let mut log = SampleLog::open(path, 4096);
        log.firehose(200, 0, b"of the second");
    });
    assert_eq!((records, problems), (61, vec![]));
}

/// A sound record from a failed start, in place of which the next start began.
#[test]
fn what_was_overruled_is_not_told() {
    let (records, problems, _) = check(|path, files| {
        let mut log = SampleLog::open(path, 4096);
        log.firehose(200, 0, b"of the second");
        let old = files.last().unwrap();
        let name = old.file_name().unwrap().to_str().unwrap();
        let identity = SegmentId::from_file_name(name).unwrap();
        edit(old, |bytes| {
            let frame = eventlog::FrameFields {
                offset: bytes.len(),
                sequence: RECORDS + 1,
                durable: RECORDS,
                time_ms: 0,
                kind: 200,
            };
            eventlog::encode_frame(bytes, identity, &frame, b"of the first");
        });
    });
    assert_eq!((records, problems), (61, vec![]));
}

/// Changes every byte of a segment in the middle.
#[test]
fn any_byte_may_rot() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let file = files(folder.path(), ".segment")[1].clone();
    let sound = fs::read(&file).unwrap();
    for at in (0..sound.len()).step_by(7) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x40;
        fs::write(&file, bytes).unwrap();
        let directory = RecordDirectory::open(folder.path()).unwrap();
        assert_eq!(walked(&directory), read(&directory), "byte {at}");
    }
}

#[test]
fn segments_of_other_times_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let lane = directory.lane(LaneKind::Firehose).unwrap();
    let all = lane.segments_len();
    let within = |since: u64, until: u64| {
        let window =
            TimeWindow { since_ms: START_MS + since * 1000, until_ms: START_MS + until * 1000 };
        lane.within(window).len()
    };
    assert_eq!(lane.within(TimeWindow::ALL).len(), all);
    assert_eq!(within(0, 1000), all);
    // The newest segment has no index and is always included.
    assert_eq!((within(1000, 2000), within(0, 0)), (1, 1));
    assert_eq!((within(1, 1), within(2, 2), within(3, 3)), (2, 2, 2));
    // Invalid indexes change nothing.
    for index in files(folder.path(), ".index") {
        edit(&index, |bytes| bytes[60] ^= 1);
    }
    assert_eq!(within(1000, 2000), all);
}

#[test]
fn who_wants_no_more_is_told_no_more() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let lane = directory.lane(LaneKind::Firehose).unwrap();
    let mut told = 0;
    let mut visit = |_: &RecordPosition, _: u8, _: &[u8]| {
        told += 1;
        ControlFlow::Break(())
    };
    let walked = lane.walk(&lane.segments()[0], 3, &mut ReadBuffer::default(), &mut visit).unwrap();
    assert!(walked.is_over);
    assert_eq!(told, 1);
    let mut parts = 0;
    let each = |_: SweptSegment<()>| {
        parts += 1;
        if parts == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    lane.sweep(lane.segments(), || (), |(), _, _, _| (), each).unwrap();
    assert_eq!(parts, 2);
}

#[test]
fn directories_that_are_no_record_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let error = |path: &Path| RecordDirectory::open_written(path).unwrap_err();
    assert!(matches!(error(&path.join("nowhere")), DirectoryError::Io { .. }));
    assert!(matches!(error(path), DirectoryError::Foreign(_)));
    fs::create_dir(path.join("firehose")).unwrap();
    assert!(matches!(error(path), DirectoryError::Empty(_)));
    assert!(RecordDirectory::open(path).is_ok());
    write(path);
    assert!(matches!(error(&path.join("firehose")), DirectoryError::OneLane(..)));
    // A segment of a later release, with a sound header.
    let file = files(path, ".segment")[0].clone();
    edit(&file, |bytes| {
        bytes[8] += 1;
        bytes[12..16].fill(0);
        let check = crc32c_of(&bytes[..12], &bytes[16..44]);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
    });
    let directory = RecordDirectory::open(path).unwrap();
    let lane = directory.lane(LaneKind::Firehose).unwrap();
    let mut none = |_: &RecordPosition, _: u8, _: &[u8]| ControlFlow::Continue(());
    let error =
        lane.walk(&lane.segments()[0], 0, &mut ReadBuffer::default(), &mut none).unwrap_err();
    assert!(error.to_string().contains("use the release that wrote it"), "{error}");
}

/// CRC32C, bit by bit.
fn crc32c_of(one: &[u8], other: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in one.iter().chain(other) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
