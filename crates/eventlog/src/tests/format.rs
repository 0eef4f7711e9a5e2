//! The bytes of a segment: later releases must read them.

use std::ops::Range;

use crate::segment::{FrameFields, Header, read_header};
use crate::*;

const IDENTITY: SegmentId = SegmentId { epoch: 3, first: 7, node: 2 };
const TIME_MS: u64 = 1_700_000_000_123;

fn segment(records: &[(u64, u64, u8, &[u8])]) -> Vec<u8> {
    let mut bytes = encode_header(IDENTITY, 5, &ChainPoint::START).to_vec();
    for (sequence, durable, kind, payload) in records {
        let offset = bytes.len();
        let (sequence, durable, kind) = (*sequence, *durable, *kind);
        let frame = FrameFields { offset, sequence, durable, time_ms: TIME_MS, kind };
        encode_frame(&mut bytes, IDENTITY, &frame, payload);
    }
    bytes
}

pub(super) fn hex(bytes: &[u8]) -> Vec<String> {
    let digits = |word: &[u8]| word.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.chunks(8).map(digits).collect()
}

#[test]
fn golden_bytes() {
    let bytes = segment(&[(7, 6, 1, b"first"), (8, 6, 2, b"")]);
    let want = [
        "766b72796c6f670a",
        "030000004a728776",
        "0300000000000000",
        "0700000000000000",
        "0500000000000000",
        "0200000000000000",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000",
        "000000004454c793",
        "0700000000000000",
        "0500000001000000",
        "7b68e5cf8b010000",
        "01000000593a6178",
        "3b6985ca66697273",
        "7400000008000000",
        "0000000000000000",
        "020000007b68e5cf",
        "8b01000002000000",
        "ca715f210fbc2de9",
    ];
    assert_eq!(hex(&bytes), want);
    assert_eq!(
        read_header(&bytes, IDENTITY),
        Header::Good { keep_from: 5, before: Some(ChainPoint::START) }
    );
}

#[test]
fn names_say_which_segment_it_is() {
    #[track_caller]
    fn check(name: &str, want: Option<(u64, u64, u32)>) {
        let got = SegmentId::from_file_name(name);
        let want = want.map(|(epoch, first, node)| SegmentId { epoch, first, node });
        assert_eq!(got, want, "{name}");
    }
    check("0000000003-00000000000000000007-0000000002.segment", Some((3, 7, 2)));
    assert_eq!(IDENTITY.file_name(), "0000000003-00000000000000000007-0000000002.segment");
    check("0000000003-00000000000000000007-0000000002.segment.old", None);
    check("0000000003-00000000000000000007-0000000002.index", None);
    check("0000000003-00000000000000000007-4294967296.segment", None);
    check("0000000003-00000000000000000007.segment", None);
    check("0000000003-00000000000000000000-0000000002.segment", None);
    check("3-7-2.segment", None);
    check("+000000003-00000000000000000007-0000000002.segment", None);
    check("0000000003-00000000000000000007-0000000002-1.segment", None);
    check("lock", None);
    let far = SegmentId { epoch: SEQUENCE_MAX, first: SEQUENCE_MAX, node: u32::MAX };
    assert_eq!(SegmentId::from_file_name(&far.file_name()), Some(far));
    // The next sequence would wrap.
    for beyond in
        [SegmentId { epoch: u64::MAX, ..far }, SegmentId { first: SEQUENCE_MAX + 1, ..far }]
    {
        assert_eq!(SegmentId::from_file_name(&beyond.file_name()), None);
    }
}

#[test]
fn headers_of_others_are_told_apart() {
    let good = encode_header(IDENTITY, 5, &ChainPoint::START);
    let mut later = good;
    later[8] = 4;
    assert_eq!(read_header(&later, IDENTITY), Header::Damaged, "the check covers the version");
    let check = crc32c::crc32c_append(crc32c::crc32c(&later[..12]), &later[16..44]);
    later[12..16].copy_from_slice(&check.to_le_bytes());
    assert_eq!(read_header(&later, IDENTITY), Header::Version(4));
    assert_eq!(read_header(&good, SegmentId { epoch: 4, ..IDENTITY }), Header::Damaged);
    assert_eq!(read_header(&good, SegmentId { node: 3, ..IDENTITY }), Header::Damaged);
    assert_eq!(read_header(&good[..HEADER_BYTES - 1], IDENTITY), Header::Damaged);
    for at in 0..HEADER_BYTES {
        let mut bytes = good;
        bytes[at] ^= 1;
        assert_eq!(read_header(&bytes, IDENTITY), Header::Damaged, "byte {at}");
    }
}

fn scan(bytes: &[u8]) -> Vec<ScanItem> {
    FrameScan::whole(IDENTITY, bytes).collect()
}

/// The records that are found after each byte in turn is changed.
#[test]
fn any_changed_byte_costs_one_record_at_most() {
    let payloads: [&[u8]; 3] = [b"one", b"twenty-two", b"three"];
    let bytes = segment(&[(7, 6, 1, payloads[0]), (8, 7, 1, payloads[1]), (9, 8, 1, payloads[2])]);
    let whole = scan(&bytes);
    assert_eq!(whole.len(), 3);
    for at in HEADER_BYTES..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        let sound: Vec<_> =
            scan(&bytes).into_iter().filter(|found| matches!(found, ScanItem::Record(_))).collect();
        assert!(sound.len() >= 2, "byte {at}");
        assert!(sound.iter().all(|found| whole.contains(found)), "byte {at}");
    }
}

/// Sequences are consecutive, so only skipped bytes can have held the missing record.
#[test]
fn a_frame_out_of_turn_is_no_record() {
    for sequence in [6, 7, 9, 1_000] {
        let found = scan(&segment(&[(7, 6, 1, b"one"), (sequence, 5, 1, b"other")]));
        assert!(matches!(found[..], [ScanItem::Record(_), ScanItem::Garbage { .. }]), "{found:?}");
    }
}

/// A record may contain a copy of a segment. Even if its own header is damaged, the copy is no
/// record.
#[test]
fn a_copy_within_a_payload_is_no_record() {
    let inner = segment(&[(7, 6, 1, b"copied"), (8, 7, 1, b"too")]);
    let mut bytes = segment(&[(7, 6, 1, &inner), (8, 7, 1, b"real")]);
    bytes[HEADER_BYTES] ^= 1;
    let found = scan(&bytes);
    let records: Vec<_> = found
        .iter()
        .filter_map(|found| match found {
            ScanItem::Record(frame) => Some((frame.sequence, &bytes[frame.payload.clone()])),
            _ => None,
        })
        .collect();
    assert_eq!(records, [(8, &b"real"[..])]);
}

/// A frame with valid checksums, from a later release.
#[test]
fn a_frame_with_bytes_that_are_not_known_is_no_record() {
    for at in 24..28 {
        let mut bytes = segment(&[(7, 6, 0, b"")]);
        bytes[HEADER_BYTES + at] = 1;
        let mut place = IDENTITY.node.to_le_bytes().to_vec();
        for number in [IDENTITY.epoch, IDENTITY.first, HEADER_BYTES as u64] {
            place.extend(number.to_le_bytes());
        }
        let frame = &mut bytes[HEADER_BYTES..];
        let check = crc32c::crc32c(&frame[..28]);
        frame[28..32].copy_from_slice(&check.to_le_bytes());
        place.extend(&frame[..32]);
        frame[32..36].copy_from_slice(&crc32c::crc32c(&place).to_le_bytes());
        let known = matches!(scan(&bytes)[..], [ScanItem::Record(_)]);
        assert_eq!(known, at == 24, "byte {at}: only the first is the kind");
    }
}

/// Frames of another node are not records here.
#[test]
fn frames_of_another_node_are_no_records() {
    let bytes = segment(&[(7, 6, 1, b"one"), (8, 7, 1, b"two")]);
    let other = SegmentId { node: 3, ..IDENTITY };
    let found: Vec<_> = FrameScan::whole(other, &bytes).collect();
    assert_eq!(found, [ScanItem::Garbage { bytes: HEADER_BYTES..bytes.len() }]);
}

/// Scans in parts, as a file is read: each time it shows only the requested bytes, and `more`.
fn scan_by_parts(bytes: &[u8], more: usize) -> Vec<ScanItem> {
    let mut scan = FrameScan::new(IDENTITY, bytes.len(), frames_at(bytes, IDENTITY));
    let (mut window, mut all) = (0..0, Vec::new());
    loop {
        let Range { start, end } = window;
        match scan.next(ScanWindow { base: start, bytes: &bytes[start..end] }) {
            ScanStep::Found(found) => all.push(found),
            ScanStep::Need(range) => {
                assert!(range.end <= bytes.len() && range.len() <= FRAME_BYTES + PAYLOAD_BYTES_MAX);
                assert!(range.start < start || range.end > end, "it was shown {range:?}");
                window = range.start..(range.end + more).min(bytes.len());
            }
            ScanStep::End => return all,
        }
    }
}

proptest::proptest! {
    /// For any bytes, the results tile them in order, and a scan in parts gives the same.
    #[test]
    fn a_scan_tiles_any_bytes(
        noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        cut in 0_usize..400,
        at in 0_usize..400,
        more in 0_usize..200,
    ) {
        let mut bytes = segment(&[(7, 6, 1, b"abc"), (8, 6, 1, &noise), (9, 8, 1, b"end")]);
        bytes.truncate(bytes.len().min(HEADER_BYTES + cut));
        let end = (at + noise.len()).min(bytes.len());
        if at >= HEADER_BYTES && at < end {
            bytes[at..end].copy_from_slice(&noise[..end - at]);
        }
        proptest::prop_assert_eq!(scan_by_parts(&bytes, more), scan(&bytes));
        let mut position = HEADER_BYTES;
        let mut last = 6;
        for found in scan(&bytes) {
            let (place, sequence) = match found {
                ScanItem::Record(frame) => {
                    (frame.offset..frame.payload.end.next_multiple_of(4).min(bytes.len()), Some(frame.sequence))
                }
                ScanItem::BadPayload { bytes, sequence } => (bytes, Some(sequence)),
                ScanItem::Garbage { bytes } => (bytes, None),
            };
            assert_eq!(place.start, position);
            assert!(place.end > place.start);
            position = place.end;
            if let Some(sequence) = sequence {
                assert!(sequence > last);
                last = sequence;
            }
        }
        assert_eq!(position, bytes.len().max(HEADER_BYTES));
    }
}
