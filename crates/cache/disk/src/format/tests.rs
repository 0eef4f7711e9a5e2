//! Records as bytes, and damaged bytes.

use proptest::prelude::*;

use super::*;

const PLACE: RecordPlace = RecordPlace { segment: 7, nonce: 11, offset: 24 };

fn header(kind: DiskRecordKind) -> RecordHeader {
    RecordHeader { subject: RecordSubject { kind, hash: 1 << 60, purge: 3 }, bytes: 9, check: 5 }
}

#[test]
fn names_sort_as_their_numbers_and_others_are_none() {
    assert_eq!(segment_of(&file_name(42)), Some(42));
    assert!(file_name(9) < file_name(10) && file_name(10) < file_name(u32::MAX - 1));
    for name in [
        "lock",
        ".cache-segment",
        "+1.cache-segment",
        "7.cache-segment",
        "4294967295.cache-segment",
    ] {
        assert_eq!(segment_of(name), None, "{name}");
    }
}

#[test]
fn what_is_written_is_read_and_nothing_else() {
    let segment = DiskSegmentHeader { segment: 7, purged_through: 1 << 50, nonce: 11 };
    assert_eq!(DiskSegmentHeader::decode(&segment.encode()), Some(segment));
    for kind in DiskRecordKind::ALL {
        let header = header(kind);
        assert_eq!(RecordHeader::decode(&header.encode(PLACE), PLACE), Some(header));
        let elsewhere = RecordPlace { offset: 25, ..PLACE };
        assert_eq!(RecordHeader::decode(&header.encode(PLACE), elsewhere), None);
        let in_another = RecordPlace { segment: 8, ..PLACE };
        assert_eq!(RecordHeader::decode(&header.encode(PLACE), in_another), None);
        let by_a_client = RecordPlace { nonce: 0, ..PLACE };
        assert_eq!(RecordHeader::decode(&header.encode(by_a_client), PLACE), None);
    }
    assert_eq!(decode_trailer(11, &encode_trailer(11, 99)), Some(99));
    assert_eq!(decode_trailer(11, &encode_trailer(0, 99)), None);
    let line = SummaryLine { subject: header(DiskRecordKind::Purge).subject, offset: 1, bytes: 2 };
    assert_eq!(decode_summary(&encode_summary(&[line, line])), Some(vec![line, line]));
    assert_eq!(decode_summary(&encode_summary(&[line])[1..]), None);
}

proptest! {
    #[test]
    fn a_changed_byte_is_noticed(at in 0..RECORD_HEADER_BYTES, by in 1..=u8::MAX) {
        let mut record = header(DiskRecordKind::Resource).encode(PLACE);
        record[at] ^= by;
        prop_assert_eq!(RecordHeader::decode(&record, PLACE), None);
        let mut segment = DiskSegmentHeader { segment: 7, purged_through: 2, nonce: 11 }.encode();
        segment[at % SEGMENT_HEADER_BYTES] ^= by;
        prop_assert_eq!(DiskSegmentHeader::decode(&segment), None);
        let mut trailer = encode_trailer(11, 99);
        trailer[at % TRAILER_BYTES] ^= by;
        prop_assert_eq!(decode_trailer(11, &trailer), None);
    }
}
