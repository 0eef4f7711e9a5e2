//! Damages a record after a clean stop or a crash, and checks what `verify` reports.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use eventlog::{
    CorruptionKind, END_NAME, FrameFields, FrameScan, HEADER_BYTES, LogFrame, ScanItem, SegmentId,
    encode_frame,
};

use super::*;
use crate::log::directory::RecordDirectory;
use crate::survey::{LaneSurvey, SurveyDepth, verify};
use crate::testing::{START_MS, SampleLog};

fn write(path: &Path) -> SampleLog {
    let mut log = SampleLog::open(path, 1000);
    for sequence in 1..=20 {
        log.firehose(200, START_MS + sequence, &[b'x'; 100]);
        log.durable(200, START_MS + sequence, &[b'y'; 100]);
    }
    log
}

fn files(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("firehose")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "segment"));
    files.sort();
    files
}

fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

/// Changes every record of a segment and recomputes the checksums.
fn forge(file: &Path) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let identity = SegmentId::from_file_name(name).unwrap();
    edit(file, |bytes| {
        let mut forged = bytes[..HEADER_BYTES].to_vec();
        for found in FrameScan::whole(identity, bytes) {
            let ScanItem::Record(frame) = found else { panic!("{found:?}") };
            let LogFrame { sequence, durable, time_ms, kind, .. } = frame;
            let frame = FrameFields { offset: forged.len(), sequence, durable, time_ms, kind };
            encode_frame(&mut forged, identity, &frame, &[b'z'; 100]);
        }
        *bytes = forged;
    });
}

fn verified(path: &Path) -> [LaneSurvey; 2] {
    let directory = RecordDirectory::open_written(path).unwrap();
    verify(&directory, SurveyDepth::Frames, |_, _, _| ControlFlow::Continue(())).unwrap()
}

fn problems(survey: &LaneSurvey) -> Vec<CorruptionKind> {
    survey.damage.corruptions.iter().map(|corruption| corruption.problem).collect()
}

#[test]
fn a_sealed_record_is_whole_and_its_hash_stays_in_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).seal(START_MS);
    let mut kept = Vec::new();
    for survey in verified(folder.path()) {
        let chain = survey.chain.as_ref().unwrap();
        assert!(survey.is_sound() && chain.broken.is_empty(), "{survey:?}");
        let LaneEnd::Sealed(end) = chain.end else { panic!("{chain:?}") };
        assert_eq!((end.last, end.chain.records, end.time_ms), (20, 20, START_MS));
        assert_eq!((chain.begins, chain.last, chain.found), (Some(1), 20, Some(end.chain)));
        kept.push(end.chain.hash);
    }
    let mut log = SampleLog::open(folder.path(), 1000);
    log.firehose(200, START_MS, b"goes on");
    drop(log);
    let [durable, firehose] = verified(folder.path());
    assert!(durable.is_sound() && firehose.is_sound());
    let chain = firehose.chain.unwrap();
    assert!(matches!(chain.end, LaneEnd::Open(_)), "{:?}", chain.end);
    assert!(chain.holds(&kept[1]) && !chain.holds(&kept[0]));
}

/// Harms the firehose. Checks the reported damage, and whether the chain shows it too.
#[test]
fn what_is_lost_or_changed_behind_a_seal_is_damage() {
    #[track_caller]
    fn check(harm: impl FnOnce(&[PathBuf]), want: &[CorruptionKind]) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).seal(START_MS);
        let files = files(folder.path());
        assert_eq!(files.len(), 3);
        harm(&files);
        let [durable, firehose] = verified(folder.path());
        assert!(durable.is_sound() && !firehose.is_sound());
        assert_eq!(problems(&firehose), want);
        assert!(!firehose.chain.unwrap().is_whole());
        assert!(firehose.damage.torn.is_none(), "it is no unfinished write");
    }
    let missing = |from, through| CorruptionKind::Missing { from, through };
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 9);
    check(|files| edit(&files[2], cut), &[CorruptionKind::Garbage, missing(20, 20)]);
    check(
        |files| edit(&files[2], |bytes| bytes[HEADER_BYTES + 50] ^= 1),
        &[CorruptionKind::Payload { sequence: 15 }],
    );
    check(|files| edit(&files[2], |bytes| bytes.truncate(HEADER_BYTES)), &[missing(15, 20)]);
    check(|files| edit(&files[2], Vec::clear), &[missing(15, 20)]);
    check(|files| fs::remove_file(&files[2]).unwrap(), &[missing(15, 20)]);
    check(|files| files.iter().for_each(|file| fs::remove_file(file).unwrap()), &[missing(1, 20)]);
    check(|files| forge(&files[2]), &[]);
    check(|files| forge(&files[0]), &[]);
    check(|files| edit(&files[0].with_file_name(END_NAME), |bytes| bytes[40] ^= 1), &[]);
}

#[test]
fn the_oldest_segment_is_missed_unless_it_was_given_away() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).seal(START_MS);
    fs::remove_file(&files(folder.path())[0]).unwrap();
    let [_, firehose] = verified(folder.path());
    assert_eq!(problems(&firehose), [CorruptionKind::Missing { from: 1, through: 7 }]);
    let chain = firehose.chain.unwrap();
    assert_eq!(chain.begins, Some(8), "the rest of the chain is whole");
    assert!(chain.is_whole());
}

#[test]
fn a_crash_is_no_damage_and_a_segment_that_had_begun_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    drop(write(folder.path()));
    let [_, firehose] = verified(folder.path());
    assert!(firehose.is_sound());
    let chain = firehose.chain.unwrap();
    assert!(matches!(chain.end, LaneEnd::Open(_)), "{:?}", chain.end);
    fs::remove_file(&files(folder.path())[2]).unwrap();
    let [_, firehose] = verified(folder.path());
    assert!(!firehose.is_sound());
    assert!(matches!(firehose.chain.unwrap().end, LaneEnd::Gone(_)));
}

/// A segment as an earlier release wrote it: without the hash of the previous one.
fn unlink(file: &Path) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let identity = SegmentId::from_file_name(name).unwrap();
    edit(file, |bytes| {
        let mut header = eventlog::encode_unlinked_header(identity, 0).to_vec();
        for found in FrameScan::whole(identity, bytes) {
            let ScanItem::Record(frame) = found else { panic!("{found:?}") };
            let LogFrame { sequence, durable, time_ms, kind, .. } = frame;
            let frame = FrameFields { offset: header.len(), sequence, durable, time_ms, kind };
            encode_frame(&mut header, identity, &frame, &[b'z'; 100]);
        }
        *bytes = header;
    });
}

#[test]
fn a_segment_without_a_hash_has_no_place_in_a_chain() {
    for at in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).seal(START_MS);
        let file = &files(folder.path())[at];
        unlink(file);
        let [_, firehose] = verified(folder.path());
        let (chain, name) = (firehose.chain.as_ref().unwrap(), file.file_name().unwrap());
        assert_eq!(chain.broken, [name.to_str().unwrap()], "{at}");
        assert!(!firehose.is_sound());
    }
}

/// A hash noted while the lane is written stays in the chain.
#[test]
fn beside_a_writer_the_hash_to_keep_is_that_of_complete_segments() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = write(folder.path());
    let [_, firehose] = verified(folder.path());
    let chain = firehose.chain.unwrap();
    let (kept, last) = chain.complete.unwrap();
    assert_eq!((chain.last, last, kept.records), (20, 14, 14));
    log.firehose(200, START_MS, &[b'x'; 100]);
    let [_, firehose] = verified(folder.path());
    assert!(firehose.chain.unwrap().holds(&kept.hash));
}

#[test]
fn a_chain_has_its_file_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).seal(START_MS);
    let files = files(folder.path());
    fs::remove_file(&files[2]).unwrap();
    fs::remove_file(files[2].with_file_name(END_NAME)).unwrap();
    let [_, firehose] = verified(folder.path());
    assert!(!firehose.is_sound());
    assert_eq!(firehose.chain.unwrap().end, LaneEnd::Missing);
}

#[test]
fn auctions_without_a_durable_lane_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::open(folder.path(), 1000);
    log.durable(200, START_MS, b"generation");
    log.raw(b"an auction", 1, START_MS);
    log.seal(START_MS);
    let [durable, _] = verified(folder.path());
    assert!(durable.is_sound());
    fs::remove_dir_all(folder.path().join("durable")).unwrap();
    let [durable, firehose] = verified(folder.path());
    assert!(!durable.is_sound() && firehose.is_sound());
    assert_eq!(durable.chain.unwrap().end, LaneEnd::LaneMissing);
}

#[test]
fn an_unfinished_write_ends_no_chain() {
    let folder = tempfile::tempdir().unwrap();
    drop(write(folder.path()));
    edit(&files(folder.path())[2], |bytes| bytes.truncate(bytes.len() - 9));
    let [_, firehose] = verified(folder.path());
    assert!(firehose.is_sound() && firehose.damage.torn.is_some());
    let chain = firehose.chain.unwrap();
    assert!(chain.is_torn);
    assert_eq!((chain.last, chain.found.unwrap().records), (19, 19));
}

#[test]
fn a_chain_is_absent_for_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::open(folder.path(), 1000);
    log.firehose(200, START_MS, b"one");
    log.seal(START_MS);
    edit(&files(folder.path())[0], |bytes| bytes[9] ^= 1);
    let [durable, firehose] = verified(folder.path()).map(|survey| survey.chain.unwrap());
    assert_eq!(durable.absence(), Some(ChainAbsence::Empty));
    assert_eq!(firehose.absence(), Some(ChainAbsence::Damaged));
    edit(&files(folder.path())[0], |bytes| bytes[9] ^= 1);
    unlink(&files(folder.path())[0]);
    let [_, firehose] = verified(folder.path()).map(|survey| survey.chain.unwrap());
    assert_eq!(firehose.absence(), Some(ChainAbsence::EarlierRelease));
}
