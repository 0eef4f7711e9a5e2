//! A gap round trip, against prost and against stored bytes.

use prost::Message as _;

use super::*;
use crate::v1;

const GAP: Gap = Gap {
    shard: 3,
    records: 1_234,
    since_unix_ms: 1_780_000_000_123,
    through_unix_ms: 1_780_000_004_567,
};

/// Never changes: files contain these bytes. Another version gets a file of its own.
const VERSION_1: &[u8] = include_bytes!("../../golden/v1/gap.bin");

fn encoded(gap: &Gap) -> Vec<u8> {
    let mut out = b"before".to_vec();
    gap.encode(&mut out);
    out.split_off(b"before".len())
}

#[test]
fn a_gap_keeps_its_bytes() {
    assert_eq!(encoded(&GAP), VERSION_1, "version 1 is written as ever");
    assert_eq!(Gap::decode(VERSION_1), Ok(GAP), "and read");
}

#[test]
fn prost_reads_it_and_writes_the_same() {
    let message = v1::Gap::decode(VERSION_1).unwrap();
    let want = v1::Gap {
        version: 1,
        shard: GAP.shard,
        records: GAP.records,
        since_unix_ms: GAP.since_unix_ms,
        through_unix_ms: GAP.through_unix_ms,
        length: u32::try_from(VERSION_1.len() - 6).unwrap(),
    };
    assert_eq!(message, want);
    assert_eq!(message.encode_to_vec(), VERSION_1);
}

#[test]
fn a_damaged_gap_is_never_the_same() {
    let whole = encoded(&GAP);
    for len in 0..whole.len() {
        assert!(Gap::decode(&whole[..len]).is_err(), "the first {len} bytes");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(Gap::decode(&damaged), Ok(GAP), "bit {bit}");
    }
}

#[test]
fn what_is_not_known_is_refused_or_skipped() {
    let written = |version: u64, more: bool| {
        let mut out = Vec::new();
        let mut record = MessageWriter::new(&mut out);
        record.uint(field::VERSION, version);
        record.uint(field::RECORDS, 7);
        if more {
            record.text(1000, "of a later release");
        }
        record.finish();
        out
    };
    let seven = Gap { records: 7, ..Gap::default() };
    assert_eq!(Gap::decode(&written(1, false)), Ok(seven));
    assert_eq!(Gap::decode(&written(1, true)), Ok(seven));
    assert_eq!(Gap::decode(&written(2, false)), Err(MalformedRecord::Version(2)));
    assert_eq!(Gap::decode(&written(0, false)), Err(MalformedRecord::Version(0)));
}
