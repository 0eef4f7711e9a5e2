//! Any bytes as a segment of the log: what is found tiles them, in order, and a log that finds
//! such a file starts, tells what it lost, and goes on.
#![no_main]

use eventlog::disk::testing::FaultDisk;
use eventlog::{Found, HEADER_BYTES, Identity, Item, OpenError, Options, Scan, Writer, encode_header};
use libfuzzer_sys::fuzz_target;

const IDENTITY: Identity = Identity { epoch: 1, first: 1 };

fn tiles(bytes: &[u8]) -> u64 {
    let mut scan = Scan::new(IDENTITY);
    let (mut position, mut last, mut records) = (HEADER_BYTES, 0, 0);
    while let Some(found) = scan.next(bytes) {
        let (place, sequence) = match found {
            Found::Record(frame) => {
                records += 1;
                let end = frame.payload.end.next_multiple_of(4).min(bytes.len());
                (frame.offset..end, Some(frame.sequence))
            }
            Found::BadPayload { bytes, sequence } => (bytes, Some(sequence)),
            Found::Garbage { bytes } => (bytes, None),
        };
        assert!(place.start == position && place.end > position);
        position = place.end;
        assert!(sequence.is_none_or(|sequence| sequence > last));
        last = sequence.unwrap_or(last);
    }
    assert_eq!(position, bytes.len().max(HEADER_BYTES));
    records
}

fn open(disk: &FaultDisk) -> Option<(Writer<FaultDisk>, Vec<u64>)> {
    let mut sequences = Vec::new();
    let opened = Writer::open(disk.clone(), Options::default(), |item| {
        if let Item::Record(record) = item {
            sequences.push(record.sequence);
        }
    });
    match opened {
        Ok((writer, _)) => Some((writer, sequences)),
        Err(OpenError::Read { .. }) => None,
        Err(error) => panic!("memory does not fail: {error}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((with_header, rest)) = data.split_first() else { return };
    let mut bytes = Vec::new();
    if with_header % 2 == 0 {
        bytes.extend(encode_header(IDENTITY, 0));
    }
    bytes.extend(rest);
    let records = tiles(&bytes);
    let disk = FaultDisk::new(0);
    disk.put(&IDENTITY.file_name(), &bytes);
    let Some((mut writer, before)) = open(&disk) else { return };
    assert!(before.len() as u64 <= records);
    let Ok(sequence) = writer.append(1, b"goes on") else { panic!("it fits") };
    writer.commit().expect("memory does not fail");
    drop(writer);
    let (_, after) = open(&disk).expect("it was opened before");
    assert_eq!(after, before.into_iter().chain([sequence]).collect::<Vec<_>>());
});
