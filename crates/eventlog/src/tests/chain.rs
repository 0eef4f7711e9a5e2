//! The hash chain and the sealed end: loss or change after a clean stop is reported, a crash is not
//! mistaken for one, and segments without a chain are read and continued.

use crate::disk::testing::{Chance, FaultDisk};
use crate::segment::{FrameFields, Header, LogFrame, encode_version, read_header};
use crate::writer::ReadScope;
use crate::*;

const OPTIONS: WriterOptions =
    WriterOptions { segment_bytes: 320, batch_bytes_max: 1 << 20, ..WriterOptions::DEFAULT };
const SEALED_MS: u64 = 1_700_000_000_000;

fn payload(sequence: u64) -> Vec<u8> {
    format!("payload of {sequence}").into_bytes()
}

fn open(disk: &FaultDisk) -> (LogWriter<FaultDisk>, Recovery, Vec<CorruptionKind>) {
    let mut problems = Vec::new();
    let opened = LogWriter::open_at_end(disk.clone(), OPTIONS, |item| {
        if let LogEntry::Corruption(corruption) = item {
            problems.push(corruption.problem);
        }
    });
    let (writer, recovery) = opened.expect("nothing fails");
    (writer, recovery, problems)
}

fn write(writer: &mut LogWriter<FaultDisk>, records: u64) {
    for _ in 0..records {
        let next = writer.durable() + 1;
        assert_eq!(writer.append(1, 0, &payload(next)), Ok(next));
        writer.commit().expect("nothing fails");
    }
}

/// A sealed log of twelve records in three segments.
fn sealed() -> FaultDisk {
    let disk = FaultDisk::new(4);
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 12);
    writer.seal_end(SEALED_MS).expect("nothing fails");
    drop(writer);
    assert_eq!(segments(&disk).expect("a directory").len(), 3);
    disk
}

fn newest_name(disk: &FaultDisk) -> String {
    segments(disk).expect("a directory").last().expect("one").file_name()
}

fn problems(disk: &FaultDisk) -> Vec<CorruptionKind> {
    let items = LogReader::new(disk).expect("a directory").map(|item| item.expect("it is read"));
    items
        .filter_map(|item| match item {
            LogEntry::Record(_) => None,
            LogEntry::Corruption(corruption) => Some(corruption.problem),
            LogEntry::Torn(torn) => panic!("{torn}"),
        })
        .collect()
}

/// The chain's end, computed from the bytes of the files alone. An error if a segment does not hold
/// the hash of the previous one.
pub(super) fn chain_of(disk: &FaultDisk) -> Result<ChainPoint, String> {
    let all = segments(disk).expect("a directory");
    let header = |identity: &SegmentId| {
        let bytes = disk.bytes(&identity.file_name()).expect("it was listed");
        (read_header(&bytes, *identity), bytes)
    };
    let good: Vec<_> =
        all.iter().filter(|it| matches!(header(it).0, Header::Good { .. })).collect();
    let mut chain = ChainPoint::START;
    for (at, identity) in good.iter().enumerate() {
        let (Header::Good { before, .. }, bytes) = header(identity) else { unreachable!() };
        let limit = good.get(at + 1).map_or(u64::MAX, |next| next.first);
        let mut end = frames_at(&bytes, **identity);
        let mut records = 0;
        for found in FrameScan::whole(**identity, &bytes) {
            let ScanItem::Record(frame) = found else { break };
            if frame.sequence >= limit {
                break;
            }
            end = frame.payload.end.next_multiple_of(4).min(bytes.len());
            records += 1;
        }
        let Some(before) = before else { continue };
        let may_begin = at == 0 || chain.is_start();
        if records > 0 && before != chain && !may_begin {
            return Err(format!("{}: {before:?} behind {chain:?}", identity.file_name()));
        }
        if records > 0 {
            let mut hasher = SegmentHasher::default();
            hasher.update(&bytes[..end]);
            chain = before.then(records, hasher.hash());
        }
    }
    Ok(chain)
}

#[test]
fn a_clean_stop_seals_and_the_log_goes_on() {
    let disk = sealed();
    let chain = chain_of(&disk).expect("whole");
    assert_eq!(chain.records, 12);
    for _ in 0..2 {
        // A start without writes keeps the seal.
        let (writer, recovery, problems) = open(&disk);
        let RecoveredEnd::Sealed(end) = recovery.end else { panic!("{:?}", recovery.end) };
        assert_eq!((end.last, end.chain, end.time_ms), (12, chain, SEALED_MS));
        assert_eq!((writer.chain(), problems.len()), (chain, 0));
    }
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 1);
    drop(writer);
    let (mut writer, recovery, problems) = open(&disk);
    assert!(
        matches!(recovery.end, RecoveredEnd::Open { is_gone: false, .. }),
        "{:?}",
        recovery.end
    );
    assert_eq!(problems, []);
    writer.seal_end(SEALED_MS).expect("nothing fails");
    drop(writer);
    let (_, recovery, _) = open(&disk);
    assert!(matches!(recovery.end, RecoveredEnd::Sealed(end) if end.last == 13));
    assert_eq!(chain_of(&disk).expect("whole").records, 13);
}

/// Harms the newest segment of a sealed log and checks what its reader reports.
#[test]
fn what_is_lost_behind_a_seal_is_damage() {
    #[track_caller]
    fn check(harm: impl FnOnce(&FaultDisk, &str), want: &[CorruptionKind], durable: u64) {
        let disk = sealed();
        harm(&disk, &newest_name(&disk));
        assert_eq!(problems(&disk), want);
        let (mut writer, recovery, told) = open(&disk);
        assert_eq!(told, want, "a start tells it as well");
        assert!(!recovery.torn, "it is no unfinished write");
        assert!(matches!(recovery.end, RecoveredEnd::Altered { .. }), "{:?}", recovery.end);
        assert_eq!((recovery.durable, writer.durable()), (durable, durable));
        // The log continues after the lost records, and every later start reports the loss.
        write(&mut writer, 3);
        writer.seal_end(SEALED_MS).expect("nothing fails");
        drop(writer);
        let missing = CorruptionKind::Missing { from: 12, through: 12 };
        let later = problems(&disk);
        assert!(later.iter().any(|it| want.contains(it) || *it == missing), "{later:?}");
        let (_, recovery, _) = open(&disk);
        assert!(matches!(recovery.end, RecoveredEnd::Sealed(end) if end.last == durable + 3));
    }
    let missing = |from| CorruptionKind::Missing { from, through: 12 };
    let edit = |disk: &FaultDisk, name: &str, edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = disk.bytes(name).expect("it is there");
        edit(&mut bytes);
        disk.put(name, &bytes);
    };
    check(
        |disk, name| edit(disk, name, &|bytes| bytes.truncate(bytes.len() - 9)),
        &[CorruptionKind::Garbage, missing(12)],
        12,
    );
    check(
        |disk, name| {
            edit(disk, name, &|bytes| {
                let at = bytes.len() - 5;
                bytes[at] ^= 1;
            });
        },
        &[CorruptionKind::Payload { sequence: 12 }],
        12,
    );
    check(|disk, name| edit(disk, name, &|bytes| bytes.truncate(HEADER_BYTES)), &[missing(11)], 12);
    check(|disk, name| edit(disk, name, &|bytes| bytes.clear()), &[missing(11)], 12);
    check(|disk, name| disk.remove(name).expect("it is there"), &[missing(11)], 12);
    check(
        |disk, _| {
            for identity in segments(disk).expect("a directory") {
                disk.remove(&identity.file_name()).expect("it is there");
            }
        },
        &[missing(1)],
        12,
    );
}

/// Changes a record and recomputes its checksums.
fn forge(disk: &FaultDisk, at: usize) {
    let identity = segments(disk).expect("a directory")[at];
    let bytes = disk.bytes(&identity.file_name()).expect("it is there");
    let mut forged = bytes[..HEADER_BYTES].to_vec();
    for found in FrameScan::whole(identity, &bytes) {
        let ScanItem::Record(frame) = found else { panic!("{found:?}") };
        let mut payload = bytes[frame.payload.clone()].to_vec();
        payload[0] = b'P';
        let LogFrame { sequence, durable, time_ms, kind, .. } = frame;
        let frame = FrameFields { offset: forged.len(), sequence, durable, time_ms, kind };
        encode_frame(&mut forged, identity, &frame, &payload);
    }
    disk.put(&identity.file_name(), &forged);
}

#[test]
fn an_edited_record_breaks_the_chain() {
    let disk = sealed();
    forge(&disk, 2);
    assert_eq!(problems(&disk), [], "its checks are made to fit");
    let (mut writer, recovery, _) = open(&disk);
    let RecoveredEnd::Altered { sealed: end, found } = recovery.end else { panic!("{recovery:?}") };
    assert_eq!((end.last, end.chain.records, found.records), (12, 12, 12));
    write(&mut writer, 1);
    drop(writer);
    assert!(chain_of(&disk).is_err(), "the chain goes on from what was sealed");

    let disk = sealed();
    forge(&disk, 0);
    assert!(chain_of(&disk).is_err());
}

#[test]
fn the_file_of_the_end_may_be_lost_or_damaged() {
    let disk = sealed();
    let mut bytes = disk.bytes(END_NAME).expect("it is there");
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        assert_eq!(EndFile::decode(&bytes), EndFile::Damaged, "byte {at}");
        bytes[at] ^= 1;
    }
    assert!(LogEnd::decode(&bytes).is_some_and(|end| end.encode() == *bytes));
    bytes[50] ^= 1;
    disk.put(END_NAME, &bytes);
    assert_eq!(open(&disk).1.end, RecoveredEnd::Damaged);
    disk.remove(END_NAME).expect("it is there");
    let (mut writer, recovery, problems) = open(&disk);
    assert_eq!((recovery.end, problems.len()), (RecoveredEnd::Missing, 0));
    write(&mut writer, 1);
    assert_eq!(writer.chain(), chain_of(&disk).expect("whole"));
    assert_eq!(writer.chain().records, 13);
}

#[test]
fn a_segment_that_has_begun_is_missed() {
    let disk = FaultDisk::new(4);
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 12);
    drop(writer);
    let gone = *segments(&disk).expect("a directory").last().expect("one");
    disk.remove(&gone.file_name()).expect("it is there");
    // The number of its records is unknown.
    let missing = CorruptionKind::Missing { from: 11, through: 10 + SEGMENT_RECORDS_MAX };
    assert_eq!(problems(&disk), [missing]);
    for _ in 0..2 {
        let (mut writer, recovery, told) = open(&disk);
        assert!(
            matches!(recovery.end, RecoveredEnd::Open { is_gone: true, .. }),
            "{:?}",
            recovery.end
        );
        assert_eq!(
            (recovery.last, writer.durable(), told),
            (10, 10 + SEGMENT_RECORDS_MAX, vec![missing])
        );
        assert!(writer.seal_end(SEALED_MS).is_err(), "what is gone is not sealed over");
    }
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 3);
    writer.seal_end(SEALED_MS).expect("nothing fails");
    drop(writer);
    let next = *segments(&disk).expect("a directory").last().expect("one");
    assert!(next.epoch > gone.epoch && next.first > gone.first, "{next:?} behind {gone:?}");
    assert_eq!(problems(&disk), [missing], "it is told for ever");
    assert!(matches!(open(&disk).1.end, RecoveredEnd::Sealed(end) if end.chain.records == 13));
    // The first sequence of all.
    let disk = FaultDisk::new(4);
    write(&mut open(&disk).0, 1);
    disk.remove(&newest_name(&disk)).expect("it is there");
    let missing = CorruptionKind::Missing { from: 1, through: SEGMENT_RECORDS_MAX };
    assert_eq!((problems(&disk), open(&disk).0.durable()), (vec![missing], SEGMENT_RECORDS_MAX));
}

/// It may be longer, but its checksum is at the same offset.
#[test]
fn an_end_of_a_later_release_is_refused_and_stays() {
    let disk = sealed();
    let mut bytes = disk.bytes(END_NAME).expect("it is there");
    bytes[8] = 2;
    bytes.extend([7; 20]);
    let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    disk.put(END_NAME, &bytes);
    let opened = LogWriter::open_at_end(disk.clone(), OPTIONS, |_| ());
    let refused = opened.err().expect("it is refused");
    assert!(refused.to_string().contains("end has format version 2, known is 1"), "{refused}");
    assert!(matches!(
        LogReader::new(&disk),
        Err(LogReadError::Version { version: 2, known: 1, .. })
    ));
    assert_eq!(disk.bytes(END_NAME), Some(bytes));
}

/// No log reaches such sequences, and counting must not wrap.
#[test]
fn an_end_beyond_all_sequences_is_damaged() {
    let newest = SegmentId { epoch: 1, first: 1, node: 0 };
    let end = LogEnd {
        newest,
        is_sealed: true,
        last: SEQUENCE_MAX,
        chain: ChainPoint::START,
        time_ms: 0,
    };
    assert_eq!(LogEnd::decode(&end.encode()), Some(end));
    let beyond = LogEnd { last: SEQUENCE_MAX + 1, ..end };
    assert_eq!(LogEnd::decode(&beyond.encode()), None);
}

/// An older copy of the file, restored after the log went on.
#[test]
fn an_older_file_of_the_end_breaks_no_chain() {
    let disk = sealed();
    let older = disk.bytes(END_NAME).expect("it is there");
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 12);
    drop(writer);
    disk.put(END_NAME, &older);
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 1);
    assert_eq!(writer.chain(), chain_of(&disk).expect("whole"));
    assert_eq!(writer.chain().records, 25);
}

/// Sequences that another source proves durable are not used again.
#[test]
fn records_known_from_elsewhere_and_not_found_are_missing() {
    let disk = FaultDisk::new(4);
    let (mut writer, ..) = open(&disk);
    write(&mut writer, 12);
    drop(writer);
    let name = newest_name(&disk);
    let bytes = disk.bytes(&name).expect("it is there");
    disk.put(&name, &bytes[..bytes.len() - 9]);
    let mut told = Vec::new();
    let opened = LogWriter::open_proven(disk.clone(), OPTIONS, ReadScope::Newest, 15, |item| {
        told.push(item);
    });
    let (writer, recovery) = opened.expect("nothing fails");
    assert_eq!((recovery.last, recovery.durable, writer.durable()), (11, 15, 15));
    let missing = CorruptionKind::Missing { from: 12, through: 15 };
    assert!(
        matches!(told.last(), Some(LogEntry::Corruption(it)) if it.problem == missing),
        "{told:?}"
    );
    let items = LogReader::new(&disk).expect("a directory").proven_through(15);
    assert!(items.into_iter().any(|item| matches!(item, Ok(LogEntry::Corruption(_)))));
}

/// A log of version 2, with headers of 44 bytes.
#[test]
fn a_log_without_a_chain_is_read_and_written_on() {
    let disk = FaultDisk::new(4);
    let identity = SegmentId { epoch: 1, first: 1, node: 0 };
    let mut bytes = encode_version(identity, 0, 2).to_vec();
    for sequence in 1..=4 {
        let (offset, durable) = (bytes.len(), sequence - 1);
        let frame = FrameFields { offset, sequence, durable, time_ms: 0, kind: 1 };
        encode_frame(&mut bytes, identity, &frame, &payload(sequence));
    }
    disk.put(&identity.file_name(), &bytes);
    assert_eq!(problems(&disk), []);
    let (mut writer, recovery, problems) = open(&disk);
    assert_eq!((recovery.records, recovery.end, problems.len()), (4, RecoveredEnd::Unknown, 0));
    write(&mut writer, 8);
    writer.seal_end(SEALED_MS).expect("nothing fails");
    assert_eq!(writer.chain(), chain_of(&disk).expect("whole"));
    assert_eq!(writer.chain().records, 8, "the chain begins behind it");
    drop(writer);
    let read = LogReader::new(&disk).expect("a directory").map(|item| item.expect("it is read"));
    let sequences: Vec<_> = read
        .map(|item| match item {
            LogEntry::Record(record) => record.sequence,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sequences, (1..=12).collect::<Vec<_>>());
    // Its records are found even if its header is damaged.
    bytes[9] ^= 1;
    disk.put(&identity.file_name(), &bytes);
    let got: Vec<_> = LogReader::new(&disk).expect("a directory").map(Result::unwrap).collect();
    assert_eq!(got.len(), 13, "all of them, and the header");
}

/// Epochs that end by a seal, a kill or a power loss. A start finds a seal exactly if there was one
/// and it matches; each segment holds the hash of the previous one.
fn run(seed: u64) -> Result<(), String> {
    let disk = FaultDisk::new(seed);
    let mut chance = Chance::new(!seed);
    let (mut was_sealed, mut is_empty) = (false, true);
    for _ in 0..6 {
        let opened = LogWriter::open_at_end(disk.clone(), OPTIONS, |_| ());
        let (mut writer, recovery) = opened.map_err(|error| error.to_string())?;
        let is_sealed = matches!(recovery.end, RecoveredEnd::Sealed(_));
        let is_unknown = matches!(
            recovery.end,
            RecoveredEnd::Unknown | RecoveredEnd::Missing | RecoveredEnd::Damaged
        );
        if is_sealed != was_sealed || !is_sealed && !is_empty && is_unknown {
            return Err(format!("sealed: {was_sealed}, found {:?}", recovery.end));
        }
        if matches!(
            recovery.end,
            RecoveredEnd::Altered { .. } | RecoveredEnd::Open { is_gone: true, .. }
        ) {
            return Err(format!("nothing was lost, found {:?}", recovery.end));
        }
        let chain = chain_of(&disk)?;
        if writer.chain() != chain || recovery.corruptions > 0 {
            return Err(format!("{:?} at the start, {chain:?} in the files", writer.chain()));
        }
        let (records, flushes) = (chance.below(8), chance.once_in(2));
        for _ in 0..records {
            let next = writer.durable() + 1;
            writer.append(1, 0, &payload(next)).map_err(|error| error.to_string())?;
            if flushes {
                writer.flush().map_err(|error| error.to_string())?;
            }
            writer.commit().map_err(|error| error.to_string())?;
        }
        is_empty &= records == 0;
        let seals = chance.once_in(2);
        if seals {
            if chance.once_in(2) {
                writer.append(1, 0, b"pending").map_err(|error| error.to_string())?;
                if writer.seal_end(SEALED_MS).is_ok() {
                    return Err("sealed before a commit".to_owned());
                }
                writer.commit().map_err(|error| error.to_string())?;
                is_empty = false;
            }
            writer.seal_end(SEALED_MS).map_err(|error| error.to_string())?;
        }
        was_sealed = !is_empty && (seals || was_sealed && records == 0);
        drop(writer);
        match chance.below(3) {
            0 => disk.restart_process(),
            _ => disk.lose_power(),
        }
    }
    Ok(())
}

fn search() -> Option<(u64, String)> {
    (0..500).find_map(|seed| run(seed).err().map(|problem| (seed, problem)))
}

#[test]
fn a_seal_is_found_where_there_was_one() {
    assert_eq!(search(), None);
    let disk = sealed();
    disk.remove(&newest_name(&disk)).expect("it is there");
    assert_eq!(problems(&disk).len(), 1);
}
