//! Indexes: their bytes, and that results are the same with correct, missing and wrong ones.

use super::format::hex;
use crate::disk::testing::{Chance, FaultDisk};
use crate::index::IndexBuilder;
use crate::segment::HEADER_BYTES_MIN;
use crate::*;

pub(super) const OPTIONS: WriterOptions = WriterOptions {
    segment_bytes: 600,
    batch_bytes_max: 1 << 20,
    index_every_bytes: 100,
    ..WriterOptions::DEFAULT
};
const SEEDS: u64 = 2_000;

fn index() -> SegmentIndex {
    SegmentIndex {
        identity: SegmentId { epoch: 3, first: 7, node: 2 },
        last: 9,
        last_offset: 140,
        first_time_ms: 50,
        last_time_ms: 40,
        min_time_ms: 30,
        max_time_ms: 60,
        kinds: [(1, 2), (200, 1)].into(),
        entries: vec![IndexEntry { sequence: 8, offset: 84, before_ms: 50 }],
    }
}

#[test]
fn golden_bytes_of_an_index() {
    let bytes = index().encode();
    let want = [
        "766b72796964780a",
        "010000008858ac4f",
        "0300000000000000",
        "0700000000000000",
        "0200000002000000",
        "0100000000000000",
        "0900000000000000",
        "8c00000000000000",
        "3200000000000000",
        "2800000000000000",
        "1e00000000000000",
        "3c00000000000000",
        "0100000002000000",
        "c800000001000000",
        "0800000000000000",
        "5400000000000000",
        "3200000000000000",
    ];
    assert_eq!(hex(&bytes), want);
    assert_eq!(SegmentIndex::decode(&bytes, index().identity), Some(index()));
    let other = SegmentId { node: 3, ..index().identity };
    assert_eq!(SegmentIndex::decode(&bytes, other), None);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(SegmentIndex::decode(&changed, index().identity), None, "byte {at}");
        assert_eq!(SegmentIndex::decode(&bytes[..at], index().identity), None, "{at} bytes");
    }
}

/// An index with a valid checksum that cannot be true.
#[test]
fn an_index_that_cannot_be_true_is_none() {
    #[track_caller]
    fn check(edit: impl FnOnce(&mut SegmentIndex)) {
        let mut index = index();
        edit(&mut index);
        assert_eq!(SegmentIndex::decode(&index.encode(), index.identity), None);
    }
    check(|index| index.last = 6);
    check(|index| index.last = 10);
    check(|index| index.last = u64::MAX);
    check(|index| index.first_time_ms = 29);
    check(|index| index.last_time_ms = 61);
    check(|index| index.kinds = [(1, 3), (2, 0)].into());
    check(|index| index.kinds.clear());
    check(|index| index.entries[0].sequence = 7);
    check(|index| index.entries[0].sequence = 10);
    check(|index| index.entries[0].offset = HEADER_BYTES_MIN);
    check(|index| index.entries[0].offset = 86);
    check(|index| index.entries[0].offset = 144);
    check(|index| index.entries[0].before_ms = 61);
    check(|index| index.entries.push(index.entries[0]));
    check(|index| index.entries = vec![index.entries[0]; INDEX_ENTRIES_MAX + 1]);
}

proptest::proptest! {
    /// Any bytes, with a correct checksum or not.
    #[test]
    fn any_bytes_are_an_index_or_none(
        edits in proptest::collection::vec((0_usize..140, proptest::prelude::any::<u8>()), 0..6),
        length in 0_usize..160,
    ) {
        let mut bytes = index().encode();
        bytes.resize(length, 0);
        for (at, byte) in edits {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        if bytes.len() >= 16 {
            let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
            bytes[12..16].copy_from_slice(&check.to_le_bytes());
        }
        if let Some(read) = SegmentIndex::decode(&bytes, index().identity) {
            proptest::prop_assert_eq!(read.encode(), bytes);
        }
    }
}

/// A log with several starts, a jumping clock, and records of several kinds.
pub(super) fn log(chance: &mut Chance) -> FaultDisk {
    let disk = FaultDisk::new(0);
    let mut time_ms = 10_000;
    for _ in 0..=chance.below(3) {
        let (mut writer, _) =
            LogWriter::open(disk.clone(), OPTIONS, |_| ()).expect("nothing fails");
        for record in 0..=chance.below(60) {
            time_ms = (time_ms + chance.below(100)).saturating_sub(chance.below(60));
            if chance.once_in(20) {
                time_ms = chance.below(12_000);
            }
            let kind = u8::try_from(chance.below(3)).expect("below 3");
            let payload = vec![b'p'; chance.index(40)];
            writer.append(kind, time_ms, &payload).expect("it fits");
            if record == 0 || chance.once_in(2) {
                writer.commit().expect("nothing fails");
            }
        }
    }
    disk
}

/// Damages the index of one segment.
pub(super) fn spoil(
    disk: &FaultDisk,
    identity: SegmentId,
    others: &[SegmentId],
    chance: &mut Chance,
) {
    let name = identity.index_name();
    let Some(mut bytes) = disk.bytes(&name) else { return };
    match chance.below(7) {
        0 => drop(disk::Disk::remove(disk, &name)),
        1 => {
            let at = chance.index(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
            disk.put(&name, &bytes);
        }
        2 => disk.put(&name, &bytes[..chance.index(bytes.len())]),
        3 => {
            let other = others[chance.index(others.len())].index_name();
            disk.put(&name, &disk.bytes(&other).unwrap_or_default());
        }
        4 => disk.put(&name, &stale(SegmentIndex::read(disk, identity), chance)),
        5 => disk.put(&name, &earlier(disk, identity, chance)),
        _ => {
            // The entry points to a record other than the one it names.
            let Some(mut index) = SegmentIndex::read(disk, identity) else { return };
            if let Some(entry) = index.entries.first_mut() {
                entry.sequence -= 1;
            }
            disk.put(&name, &index.encode());
        }
    }
}

/// The index as it would be if the segment had been sealed earlier.
fn earlier(disk: &FaultDisk, identity: SegmentId, chance: &mut Chance) -> Vec<u8> {
    let bytes = disk.bytes(&identity.file_name()).unwrap_or_default();
    let mut builder = IndexBuilder::new(identity, OPTIONS.index_every_bytes);
    let records = 1 + chance.index(8);
    for found in FrameScan::whole(identity, &bytes).take(records) {
        if let ScanItem::Record(frame) = found {
            builder.add(frame.offset, frame.sequence, frame.kind, frame.time_ms);
        }
    }
    builder.finish().map_or_else(Vec::new, |index| index.encode())
}

/// A valid index of an earlier state of the segment.
fn stale(index: Option<SegmentIndex>, chance: &mut Chance) -> Vec<u8> {
    let Some(mut index) = index else { return Vec::new() };
    let cut = chance.below(index.last - index.identity.first + 1);
    index.last -= cut;
    index.kinds = [(0, u32::try_from(index.last - index.identity.first + 1).expect("few"))].into();
    index.min_time_ms = 0;
    index.max_time_ms = index.first_time_ms.max(chance.below(index.max_time_ms + 1));
    index.last_time_ms = index.max_time_ms;
    index.last_offset = index.last_offset.saturating_sub(4 * chance.index(12)).max(HEADER_BYTES);
    let (last, last_offset, latest) = (index.last, index.last_offset, index.max_time_ms);
    for entry in &mut index.entries {
        entry.offset += 4 * chance.index(3);
        entry.before_ms = entry.before_ms.min(latest);
    }
    index.entries.retain(|entry| entry.sequence <= last && entry.offset <= last_offset);
    index.encode()
}

pub(super) fn records(reader: LogReader<'_, FaultDisk>) -> Vec<LogRecord> {
    let items = reader.map(|item| item.expect("nothing fails"));
    items
        .filter_map(|item| match item {
            LogEntry::Record(record) => Some(record),
            LogEntry::Corruption(_) | LogEntry::Torn(_) => None,
        })
        .collect()
}

/// What is wrong with the results of a reader that seeks.
fn run(seed: u64) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    let disk = log(&mut chance);
    let names = segments(&disk).expect("a directory");
    if chance.once_in(2) {
        for identity in &names {
            spoil(&disk, *identity, &names, &mut chance);
        }
    }
    for _ in 0..chance.below(3) {
        let name = names[chance.index(names.len())].file_name();
        let mut bytes = disk.bytes(&name).expect("the file is there");
        let at = chance.index(bytes.len());
        bytes[at] ^= 1 << chance.below(8);
        disk.put(&name, &bytes);
    }
    if chance.once_in(4) {
        // A foreign file, named as if it lay within a segment.
        let before = names[chance.index(names.len())];
        let foreign = SegmentId { first: before.first + 1, ..before };
        if !names.contains(&foreign) {
            disk.put(&foreign.file_name(), &[b'?'; 100]);
        }
    }
    let window = chance.index(1_000);
    let reader = || LogReader::with_window(&disk, window).expect("a directory");
    let all = records(reader());
    let last = all.last().map_or(0, |record| record.sequence);
    for _ in 0..8 {
        let sequence = chance.below(last + 3);
        let wanted = |record: &&LogRecord| record.sequence >= sequence;
        let want: Vec<_> = all.iter().filter(wanted).cloned().collect();
        let got = records(reader().seek(sequence).expect("nothing fails"));
        if got != want {
            return Err(format!("from {sequence}: {} of {}", got.len(), want.len()));
        }
    }
    Ok(())
}

fn search() -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| run(seed).err().map(|problem| (seed, problem)))
}

#[test]
fn whatever_the_indexes_say_all_that_is_wanted_is_found() {
    assert_eq!(search(), None);
}

#[test]
fn every_sealed_segment_has_an_index_that_is_right() {
    for seed in 0..200 {
        let disk = log(&mut Chance::new(seed));
        drop(LogWriter::open_at_end(disk.clone(), OPTIONS, |_| ()).unwrap());
        let all = records(LogReader::new(&disk).unwrap());
        let names = segments(&disk).unwrap();
        for (at, identity) in names.iter().enumerate() {
            let end = names.get(at + 1).map_or(u64::MAX, |next| next.first);
            let own: Vec<_> = all
                .iter()
                .filter(|record| (identity.first..end).contains(&record.sequence))
                .collect();
            let index = SegmentIndex::read(&disk, *identity).unwrap();
            let times = || own.iter().map(|record| record.time_ms);
            let got = (index.last, index.min_time_ms, index.max_time_ms);
            let want =
                (own[own.len() - 1].sequence, times().min().unwrap(), times().max().unwrap());
            assert_eq!(got, want, "seed {seed}");
            assert_eq!(
                (Some(index.first_time_ms), Some(index.last_time_ms)),
                (times().next(), times().next_back())
            );
            for kind in 0..3 {
                let count = own.iter().filter(|record| record.kind == kind).count();
                assert_eq!(index.kinds.get(&kind).map_or(0, |count| *count as usize), count);
            }
            for entry in &index.entries {
                let before = own.iter().take_while(|record| record.sequence < entry.sequence);
                assert_eq!(before.map(|record| record.time_ms).max(), Some(entry.before_ms));
            }
        }
    }
}

#[test]
fn no_more_is_read_than_what_leads_there() {
    let disk = FaultDisk::new(0);
    let options = WriterOptions { segment_bytes: 100_000, index_every_bytes: 4_000, ..OPTIONS };
    let (mut writer, _) = LogWriter::open(disk.clone(), options, |_| ()).unwrap();
    for sequence in 1..=10_000 {
        writer.append(1, sequence, &[b'p'; 60]).unwrap();
        if sequence % 10 == 0 {
            writer.commit().unwrap();
        }
    }
    let names = segments(&disk).unwrap().len();
    assert!((9..=10).contains(&names), "{names}");
    let window = 1_000;
    let lengths = segments(&disk).unwrap().into_iter().map(|identity| {
        disk.bytes(&identity.file_name()).map_or(0, |bytes| bytes.len() - HEADER_BYTES)
    });
    let (total, before): (usize, _) = (lengths.sum(), disk.bytes_read());
    assert_eq!(records(LogReader::with_window(&disk, window).unwrap()).len(), 10_000);
    let headers = END_BYTES + HEADER_BYTES * (names + 1);
    assert_eq!(disk.bytes_read() - before, (total + headers) as u64, "each byte once");
    let read = |reader: LogReader<'_, FaultDisk>| {
        let before = disk.bytes_read();
        let mut reader = reader.map(|item| item.unwrap());
        let first = reader.next();
        (disk.bytes_read() - before, first)
    };
    // An index of about 25 entries, a few headers, and the records between two entries.
    let index = 96 + 8 + 25 * 24 + 2 * FRAME_BYTES as u64;
    let within = 4_100 + 2 * window as u64;
    for wanted in [1, 500, 1_040, 5_432, 8_900] {
        let reader = || LogReader::with_window(&disk, window).unwrap();
        let (bytes, first) = read(reader().seek(wanted).unwrap());
        assert!(matches!(first, Some(LogEntry::Record(record)) if record.sequence == wanted));
        assert!(bytes < index + within + 200, "{bytes} bytes to {wanted}");
    }
}

#[test]
fn entries_are_fewer_where_they_would_be_too_many() {
    let identity = index().identity;
    let mut builder = IndexBuilder::new(identity, 1);
    for record in 0..40_000 {
        let offset = HEADER_BYTES + 36 * record;
        builder.add(offset, identity.first + record as u64, 1, record as u64);
    }
    let index = builder.finish().unwrap();
    assert!((INDEX_ENTRIES_MAX / 4..=INDEX_ENTRIES_MAX).contains(&index.entries.len()));
    let bytes = index.encode();
    assert!(bytes.len() <= INDEX_BYTES_MAX);
    assert_eq!(SegmentIndex::decode(&bytes, identity), Some(index));
}

#[test]
fn a_gap_or_nothing_makes_no_index() {
    let identity = index().identity;
    assert_eq!(IndexBuilder::new(identity, 1).finish(), None);
    for sequences in [[8, 9], [7, 9], [7, 7]] {
        let mut builder = IndexBuilder::new(identity, 1);
        for (at, sequence) in sequences.into_iter().enumerate() {
            builder.add(HEADER_BYTES + at * FRAME_BYTES, sequence, 1, 0);
        }
        assert_eq!(builder.finish(), None, "{sequences:?}");
    }
}

#[test]
fn an_index_that_is_too_long_is_not_read() {
    let disk = FaultDisk::new(0);
    let mut bytes = index().encode();
    bytes.resize(INDEX_BYTES_MAX + 1, 0);
    disk.put(&index().identity.index_name(), &bytes);
    assert_eq!(SegmentIndex::read(&disk, index().identity), None);
    assert_eq!(disk.bytes_read(), 0);
}

#[test]
fn an_index_without_its_segment_is_cleared_away() {
    let disk = log(&mut Chance::new(3));
    let orphan = SegmentId { epoch: 1, first: 999, node: 0 };
    for at_end in [false, true] {
        disk.put(&orphan.index_name(), b"left");
        let open = if at_end { LogWriter::open_at_end } else { LogWriter::open };
        drop(open(disk.clone(), OPTIONS, |_| ()).unwrap());
        assert_eq!(disk.bytes(&orphan.index_name()), None);
        let names = disk.names();
        let indexes = names.iter().filter(|name| name.ends_with(".index")).count();
        assert_eq!(indexes, segments(&disk).unwrap().len(), "the others stay");
    }
}
