//! Any bytes as a segment of the log and as its index. The scan's results tile the bytes in order,
//! a log with such a file starts, reports its losses and continues, and the index misleads no
//! reader.
#![no_main]

use eventlog::disk::testing::FaultDisk;
use eventlog::{
    ChainPoint, FrameScan, IndexEntry, LogEnd, LogEntry, LogOpenError, LogReader, LogWriter,
    ScanItem, SegmentId, SegmentIndex, WriterOptions, encode_header, frames_at,
};
use libfuzzer_sys::fuzz_target;

const IDENTITY: SegmentId = SegmentId { epoch: 1, first: 1, node: 0 };

fn tiles(bytes: &[u8]) -> u64 {
    let begin = frames_at(bytes, IDENTITY);
    let (mut position, mut last, mut records) = (begin, 0, 0);
    for found in FrameScan::whole(IDENTITY, bytes) {
        let (place, sequence) = match found {
            ScanItem::Record(frame) => {
                records += 1;
                let end = frame.payload.end.next_multiple_of(4).min(bytes.len());
                (frame.offset..end, Some(frame.sequence))
            }
            ScanItem::BadPayload { bytes, sequence } => (bytes, Some(sequence)),
            ScanItem::Garbage { bytes } => (bytes, None),
        };
        assert!(place.start == position && place.end > position);
        position = place.end;
        assert!(sequence.is_none_or(|sequence| sequence > last));
        last = sequence.unwrap_or(last);
    }
    assert_eq!(position, bytes.len().max(begin));
    records
}

fn open(disk: &FaultDisk) -> Option<(LogWriter<FaultDisk>, Vec<u64>)> {
    let mut sequences = Vec::new();
    let opened = LogWriter::open(disk.clone(), WriterOptions::default(), |item| {
        if let LogEntry::Record(record) = item {
            sequences.push(record.sequence);
        }
    });
    match opened {
        Ok((writer, _)) => Some((writer, sequences)),
        Err(LogOpenError::Read { .. }) => None,
        Err(error) => panic!("memory does not fail: {error}"),
    }
}

/// An index of the segment with numbers from `data`, often small ones.
fn index(data: &[u8]) -> SegmentIndex {
    let mut numbers = data.chunks(2).map(|bytes| match *bytes {
        [low, high] if high > 0xf0 => u64::from(low) << (high % 64),
        [low, high] => u64::from(low) | u64::from(high) << 8,
        _ => 0,
    });
    let mut number = || numbers.next().unwrap_or(0);
    let last_offset = usize::try_from(number()).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    let [last, first_time_ms, last_time_ms, min_time_ms, max_time_ms] =
        std::array::from_fn(|_| number());
    let kinds = [(1, u32::try_from(last).unwrap_or(u32::MAX))].into();
    for _ in 0..number() % 4 {
        let [sequence, offset, before_ms] = std::array::from_fn(|_| number());
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        entries.push(IndexEntry { sequence, offset, before_ms });
    }
    SegmentIndex {
        identity: IDENTITY,
        last,
        last_offset,
        first_time_ms,
        last_time_ms,
        min_time_ms,
        max_time_ms,
        kinds,
        entries,
    }
}

/// The sequences from `first` on, by a reader that seeks.
fn seek(disk: &FaultDisk, first: u64) -> Vec<u64> {
    let reader = LogReader::with_window(disk, 64).expect("memory does not fail");
    let items = reader.seek(first).expect("memory does not fail");
    items
        .filter_map(|item| match item.expect("memory does not fail") {
            LogEntry::Record(record) => Some(record.sequence),
            LogEntry::Corruption(_) | LogEntry::Torn(_) => None,
        })
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((with_header, rest)) = data.split_first() else { return };
    let mut bytes = Vec::new();
    if with_header % 2 == 0 {
        bytes.extend(encode_header(IDENTITY, 0, &ChainPoint::START));
    }
    bytes.extend(rest);
    if let Some(end) = LogEnd::decode(rest) {
        assert_eq!(LogEnd::decode(&end.encode()), Some(end));
    }
    let records = tiles(&bytes);
    let disk = FaultDisk::new(0);
    disk.put(&IDENTITY.file_name(), &bytes);
    let Some((mut writer, before)) = open(&disk) else { return };
    assert!(before.len() as u64 <= records);
    let Ok(sequence) = writer.append(1, 0, b"goes on") else { panic!("it fits") };
    writer.commit().expect("memory does not fail");
    drop(writer);
    // Seals the segment, with any bytes or any index beside it.
    let index = index(rest);
    let encoded = index.encode();
    if let Some(read) = SegmentIndex::decode(&encoded, IDENTITY) {
        assert_eq!(read, index);
    }
    let beside = if with_header % 4 < 2 { encoded } else { rest.to_vec() };
    disk.put(&IDENTITY.index_name(), &beside);
    let (_, after) = open(&disk).expect("it was opened before");
    assert_eq!(after, before.into_iter().chain([sequence]).collect::<Vec<_>>());
    let first = 1 + u64::from(*with_header) % sequence;
    let wanted: Vec<_> = after.into_iter().filter(|sequence| *sequence >= first).collect();
    assert_eq!(seek(&disk, first), wanted);
});
