//! The journal's bytes: as stored, and arbitrary.

use std::sync::Arc;

use proptest::prelude::*;

use super::fixtures::{id, notice, reservation};
use crate::delivery::*;
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;

fn accepted() -> JournalRecord {
    let forwarded = ForwardedDevice::new(Some("::1"), None);
    let notice = Notice::new("d".into(), "http://d/".into(), forwarded).expect("a notice");
    JournalRecord::Accepted {
        id: id(7),
        accepted_ms: 1,
        expires_ms: 0x0102,
        notice: Some(Arc::new(notice)),
        reservation: None,
    }
}

fn paid(is_told: bool) -> JournalRecord {
    let JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, .. } = accepted() else {
        panic!("it is accepted")
    };
    let notice = notice.filter(|_| is_told);
    let reservation = Some(reservation(9));
    JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation }
}

fn settled(outcome: NoticeEnd) -> JournalRecord {
    JournalRecord::Settled { id: id(8), expires_ms: 3, outcome }
}

#[test]
fn golden_bytes() {
    #[track_caller]
    fn check(record: &JournalRecord, parts: &[&[u8]]) {
        let bytes = parts.concat();
        assert_eq!(record.encode(), bytes);
        assert_eq!(JournalRecord::decode(&bytes).as_ref(), Ok(record));
    }
    let number = |number: u64| number.to_le_bytes();
    check(
        &accepted(),
        &[
            &[1, 1],
            &[7; 24],
            &number(1),
            &number(0x0102),
            b"\x01d",
            b"\x09\x00http://d/",
            b"\x03\x00::1",
            b"\x00\x00",
        ],
    );
    let money: [&[u8]; 2] = [&[9; 48], b"USD"];
    let of_notice: [&[u8]; 4] = [b"\x01d", b"\x09\x00http://d/", b"\x03\x00::1", b"\x00\x00"];
    let head: [&[u8]; 4] = [&[1, 4], &[7; 24], &number(1), &number(0x0102)];
    check(&paid(true), &[&head[..], &money, &of_notice].concat());
    check(&paid(false), &[&head[..], &money, &[b"\x00"]].concat());
    check(&settled(NoticeEnd::Untold), &[&[1, 2], &[8; 24], &number(3), &[3]]);
    check(&settled(NoticeEnd::Delivered), &[&[1, 2], &[8; 24], &number(3), &[1]]);
    check(&settled(NoticeEnd::GivenUp), &[&[1, 2], &[8; 24], &number(3), &[2]]);
    check(&JournalRecord::Checkpoint { needed_from: 0x0304 }, &[&[1, 3], &number(0x0304)]);
}

#[test]
fn refusals() {
    #[track_caller]
    fn check(edit: impl FnOnce(&mut Vec<u8>), want: JournalDecodeError) {
        let mut bytes = accepted().encode();
        edit(&mut bytes);
        assert_eq!(JournalRecord::decode(&bytes), Err(want));
    }
    let url = 2 + 24 + 16 + 2 + 2;
    check(Vec::clear, JournalDecodeError::Truncated);
    check(|bytes| bytes[0] = 2, JournalDecodeError::Version(2));
    check(|bytes| bytes[1] = 5, JournalDecodeError::Type(5));
    // A valid type without a reservation, and then without a currency.
    check(|bytes| bytes[1] = 4, JournalDecodeError::Truncated);
    check(|bytes| bytes[2 + 24 + 16] = 0, JournalDecodeError::Trailing);
    check(|bytes| bytes[url] = 0xFF, JournalDecodeError::Text);
    check(|bytes| bytes[url] = b'x', JournalDecodeError::Notice);
    check(|bytes| bytes[url + 8] = b' ', JournalDecodeError::Notice);
    check(|bytes| bytes[url + 11] = b'\n', JournalDecodeError::Notice);
    check(|bytes| bytes.push(0), JournalDecodeError::Trailing);
    let mut bytes = paid(true).encode();
    bytes[2 + 24 + 16 + 48] = b'u';
    assert_eq!(JournalRecord::decode(&bytes), Err(JournalDecodeError::Reservation));
    assert_eq!(JournalDecodeError::Reservation.to_string(), "a reservation without a currency");
    let mut bytes = settled(NoticeEnd::Delivered).encode();
    *bytes.last_mut().unwrap() = 9;
    assert_eq!(JournalRecord::decode(&bytes), Err(JournalDecodeError::Outcome(9)));
    let want = "version 2, known is 1: use the release that wrote it";
    assert_eq!(JournalDecodeError::Version(2).to_string(), want);
    let checkpoint = JournalRecord::Checkpoint { needed_from: 9 };
    for record in [accepted(), paid(true), paid(false), settled(NoticeEnd::GivenUp), checkpoint] {
        let bytes = record.encode();
        for length in 0..bytes.len() {
            let cut = JournalRecord::decode(&bytes[..length]);
            assert_eq!(cut, Err(JournalDecodeError::Truncated), "{length} bytes");
        }
    }
}

#[test]
fn a_start_refuses_what_it_cannot_read() {
    let mut replay = JournalReplay::new(DeliveryPolicy::default(), 0);
    assert_eq!(replay.record(1, &accepted().encode()), Ok(None));
    assert_eq!(replay.record(1, &paid(true).encode()), Ok(Some(reservation(9))));
    assert_eq!(replay.record(2, &[9]), Err(JournalDecodeError::Version(9)));
}

#[test]
fn the_longest_record() {
    let url = format!("http://{}", "x".repeat(URL_BYTES_MAX - 7));
    let header = "h".repeat(HEADER_BYTES_MAX);
    let forwarded = ForwardedDevice::new(Some(&header), Some(&header));
    let notice = Notice::new("d".repeat(DSP_BYTES_MAX).into(), url, forwarded).unwrap();
    let (notice, reservation) = (Some(Arc::new(notice)), Some(reservation(9)));
    let (id, accepted_ms, expires_ms) = (id(0), 0, u64::MAX);
    let record = JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation };
    let bytes = record.encode();
    assert!(bytes.len() <= eventlog::PAYLOAD_BYTES_MAX);
    assert_eq!(JournalRecord::decode(&bytes), Ok(record));
}

proptest! {
    #[test]
    fn records_come_back(
        bytes in any::<[u8; 24]>(),
        accepted_ms in any::<u64>(),
        expires_ms in any::<u64>(),
        path in "[!-~\u{80}-\u{2fff}]{0,200}",
        headers in proptest::option::of(("[ -~]{0,40}", "[ -~]{0,200}")),
        outcome in prop::sample::select(vec![NoticeEnd::Delivered, NoticeEnd::GivenUp, NoticeEnd::Untold]),
        money in any::<Option<u8>>(),
        is_told in any::<bool>(),
    ) {
        let id = TokenId(bytes);
        let forwarded = headers.as_ref().map_or(ForwardedDevice::default(), |(ip, user_agent)| {
            ForwardedDevice::new(Some(ip), Some(user_agent))
        });
        let url = format!("https://d.example/{path}");
        let notice = Arc::new(Notice::new("d".into(), url, forwarded).expect("a notice"));
        let reservation: Option<Reservation> = money.map(reservation);
        let notice = is_told.then_some(notice);
        let record = JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation };
        prop_assert_eq!(JournalRecord::decode(&record.encode()), Ok(record));
        let record = JournalRecord::Settled { id, expires_ms, outcome };
        prop_assert_eq!(JournalRecord::decode(&record.encode()), Ok(record));
        let record = JournalRecord::Checkpoint { needed_from: accepted_ms };
        prop_assert_eq!(JournalRecord::decode(&record.encode()), Ok(record));
    }

    /// Any bytes are refused, or are the one encoding of their contents.
    #[test]
    fn any_bytes(edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), noise in proptest::collection::vec(any::<u8>(), 0..80)) {
        let edited = |record: JournalRecord| {
            let mut bytes = record.encode();
            for (at, byte) in &edits {
                let at = at % bytes.len();
                bytes[at] = *byte;
            }
            bytes
        };
        let records = [accepted(), paid(true), paid(false)].map(edited);
        let others = [noise, notice("a", "x").url().as_bytes().to_vec()];
        for bytes in records.into_iter().chain(others) {
            if let Ok(record) = JournalRecord::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
