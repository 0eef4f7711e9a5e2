//! Tests of `watermark`.

use prost::Message as _;

use super::*;
use crate::v1;

const WATERMARK: Watermark = Watermark { epoch: 3, sequence: 1_234_567 };

/// Never changes: files contain these bytes.
const VERSION_1: [u8; 14] = [8, 1, 16, 3, 24, 0x87, 0xad, 0x4b, 0xfd, 0x7f, 8, 0, 0, 0];

#[test]
fn a_watermark_keeps_its_bytes() {
    let mut out = Vec::new();
    WATERMARK.encode(&mut out);
    assert_eq!(out, VERSION_1);
    assert_eq!(Watermark::decode(&VERSION_1), Ok(WATERMARK));
    let message = v1::Watermark::decode(&VERSION_1[..]).unwrap();
    let want = v1::Watermark { version: 1, epoch: 3, sequence: 1_234_567, length: 8 };
    assert_eq!(message, want);
    assert_eq!(message.encode_to_vec(), VERSION_1);
    for len in 0..VERSION_1.len() {
        assert!(Watermark::decode(&VERSION_1[..len]).is_err(), "the first {len} bytes");
    }
}

#[test]
fn a_watermark_beyond_all_sequences_is_refused() {
    for (sequence, is_sound) in [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false), (u64::MAX, false)]
    {
        let mut out = Vec::new();
        Watermark { epoch: 1, sequence }.encode(&mut out);
        assert_eq!(Watermark::decode(&out).is_ok(), is_sound, "{sequence}");
    }
}
