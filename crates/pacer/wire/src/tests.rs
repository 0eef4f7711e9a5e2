//! Golden frames of the document, and frames that must be refused.

use proptest::prelude::*;
use units::{Cpm, Currency, Nanos};
use zerocopy::little_endian::{U16, U32, U64};

use super::*;

const TOKEN: [u8; TOKEN_BYTES] = *b"a token of 48 bytes: only the server can read it";
const OTHER: [u8; TOKEN_BYTES] = *b"another token of 48 bytes, opaque like the first";

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).unwrap()
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn batch(out: &mut Vec<u8>) {
    let value = CandidateEntry::new(7, Offer::Value(cpm(2_500_000)), cpm(1_000_000));
    let price = CandidateEntry::new(9, Offer::Price(cpm(1_750_000)), cpm(0));
    let request = BidRequestEntry { reservation_s: U16::new(15), ..BidRequestEntry::new(1, 1) };
    let requests = [
        BatchItem { request, candidates: &[value] },
        BatchItem { request: BidRequestEntry::new(2, 2), candidates: &[value, price] },
    ];
    write_batch(out, 2, 2_000, requests.into_iter());
}

fn decisions(out: &mut Vec<u8>) {
    let mut writer = DecisionsWriter::new(out, 2, 3, 2);
    writer.refuse(DecisionCode::Throttled);
    writer.authorise(1, 1_750_000, 15, &TOKEN);
    writer.finish(64);
}

fn welcome(out: &mut Vec<u8>) {
    let limits = WelcomeFields {
        version: VERSION,
        reserved: 0,
        credit: U16::new(64),
        node: U32::new(1),
        epoch: U32::new(1_795_000_000),
        generation: U64::new(3),
        unix_ns: U64::new(1_795_000_000_000_000_000),
        frame_bytes_max: U32::new(65_536),
        requests_max: U16::new(256),
        candidates_max: U16::new(16),
        settlements_max: U16::new(512),
        padding: U16::ZERO,
        idle_ms: U32::new(60_000),
        reservation_ms: U32::new(15_000),
        reservation_max_ms: U32::new(1_800_000),
        late_window_ms: U32::new(3_600_000),
    };
    write_welcome(out, 1, &limits);
}

fn catalogue(out: &mut Vec<u8>) {
    let mut writer = CatalogueWriter::new(out, 3, 64, true, 65_536);
    writer.put(&CatalogueRow {
        handle: 7,
        state: DecisionCode::Authorised,
        currency: Currency::USD,
        account: "acme",
        campaign: "spring",
    });
    writer.finish();
}

fn settled(out: &mut Vec<u8>) {
    let mut writer = SettledWriter::new(out, 3, 64, 2);
    writer.put(SettlementCode::Booked);
    writer.put(SettlementCode::Released);
    writer.finish();
}

fn settle(out: &mut Vec<u8>) {
    let won = SettlementEntry::new(TOKEN, SettlementOutcome::Won, Nanos::new(1_200_000));
    let lost = SettlementEntry::new(OTHER, SettlementOutcome::Lost, Nanos::ZERO);
    write_settle(out, 3, &[won, lost]);
}

type Write = fn(&mut Vec<u8>);

/// One of each kind.
const FRAMES: [(&str, Write); 9] = [
    ("hello", |out| write_hello(out, 1, &Hello::new("dsp-1", "s3cret", 65_536))),
    ("welcome", welcome),
    ("catalogue", catalogue),
    ("batch", batch),
    ("decisions", decisions),
    ("settle", settle),
    ("settled", settled),
    ("heartbeat", |out| write_heartbeat(out, 4, 1_795_000_000_000_000_000, 64)),
    ("error", |out| write_error(out, 7, ProtocolError::Sequence, "expected frame 5")),
];

#[test]
fn golden_frames_are_those_of_the_document() {
    let document = include_str!("../../../../docs/pacer-protocol.md");
    for (name, write) in FRAMES {
        let begin = format!("```text {name}\n");
        let begins = document.find(&begin).unwrap_or_else(|| panic!("no golden frame {name}"));
        let text = &document[begins + begin.len()..];
        let text = &text[..text.find("```").unwrap()];
        let bytes =
            text.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let bytes: Vec<u8> = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let hex: Vec<_> = written(write).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(bytes == written(write), "{name}: {}", hex.join(" "));
    }
}

#[test]
fn frames_decode_to_what_was_written() {
    let bytes = written(batch);
    let frame = RawFrame::read(&bytes, 65_536).unwrap().unwrap();
    let batch = BatchFrame::decode(&frame, 2, 2).unwrap();
    assert_eq!((batch.len(), batch.deadline_us, frame.head.sequence.get()), (2, 2_000, 2));
    let requests: Vec<_> = batch.collect();
    assert_eq!(requests[0].request.reservation_s.get(), 15);
    let offers: Vec<_> = requests[1].candidates.clone().map(CandidateEntry::offer).collect();
    assert_eq!(offers, [Some(Offer::Value(cpm(2_500_000))), Some(Offer::Price(cpm(1_750_000)))]);

    let bytes = written(decisions);
    let frame = RawFrame::read(&bytes, 65_536).unwrap().unwrap();
    let decisions = DecisionsFrame::decode(&frame).unwrap();
    assert_eq!((decisions.generation, decisions.credit), (3, 64));
    let decisions: Vec<_> = decisions.map(|(entry, token)| (entry.code, token)).collect();
    assert_eq!(decisions, [(9, None), (0, Some(&TOKEN))]);

    let bytes = written(catalogue);
    let frame = RawFrame::read(&bytes, 65_536).unwrap().unwrap();
    let change = CatalogueChange::decode(&frame).unwrap();
    assert!(change.is_complete && change.is_last);
    let rows: Vec<_> = change.map(Result::unwrap).map(|row| (row.account, row.campaign)).collect();
    assert_eq!(rows, [("acme", "spring")]);

    let bytes = written(FRAMES[0].1);
    let frame = RawFrame::read(&bytes, 65_536).unwrap().unwrap();
    let hello = Hello::decode(&frame).unwrap();
    assert_eq!((hello.client, hello.secret), ("dsp-1", "s3cret"));
    assert_eq!(format!("{hello:?}"), "Hello { client: \"dsp-1\", .. }");

    let bytes = written(FRAMES[8].1);
    let frame = RawFrame::read(&bytes, 65_536).unwrap().unwrap();
    assert_eq!(frame.error(), Ok((Some(ProtocolError::Sequence), "expected frame 5")));
}

/// Sets bytes of a frame and renews its checksum.
fn patched(frame: Write, patches: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = written(frame);
    patches.iter().for_each(|(at, byte)| bytes[*at] = *byte);
    let length = bytes[8..12].to_vec();
    frame::finish(&mut bytes, 0);
    bytes[8..12].copy_from_slice(&length);
    let mut sum = crc32c::crc32c(&bytes[..20]);
    sum = crc32c::crc32c_append(sum, &bytes[HEAD_BYTES..]);
    bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn refusal(bytes: &[u8]) -> Option<FrameError> {
    let frame = match RawFrame::read(bytes, 1_000) {
        Ok(frame) => frame?,
        Err(error) => return Some(error),
    };
    match frame.kind {
        FrameKind::Batch => BatchFrame::decode(&frame, 2, 2).err(),
        FrameKind::Settle => SettleFrame::decode(&frame, 2).err(),
        FrameKind::Hello => Hello::decode(&frame).err(),
        FrameKind::Decisions => DecisionsFrame::decode(&frame).err(),
        _ => None,
    }
}

#[test]
fn malformed_frames_are_refused() {
    use FrameError as E;
    let too_long = E::TooLong { length: 1_000 + 24, max: 1_000 };
    for (frame, patches, want) in [
        (batch as Write, &[][..], None),
        (batch, &[(0, b'G')], Some(E::Magic)),
        (batch, &[(2, 2)], Some(E::Version(2))),
        (batch, &[(3, 0)], Some(E::Kind(0))),
        (batch, &[(3, 10)], Some(E::Kind(10))),
        (batch, &[(8, 0), (9, 4)], Some(too_long)),
        (batch, &[(4, 23)], Some(E::Length)),
        // The fixed part is shorter than a batch's.
        (batch, &[(4, 31)], Some(E::Length)),
        (batch, &[(5, 15)], Some(E::Length)),
        (batch, &[(5, 17)], Some(E::Length)),
        (batch, &[(6, 0)], Some(E::Count(0))),
        (batch, &[(6, 3)], Some(E::Count(3))),
        // Candidates: of a request, in total, and their length.
        (batch, &[(32 + 14, 0)], Some(E::Count(0))),
        (batch, &[(32 + 14, 2)], Some(E::Count(3))),
        (batch, &[(32 + 14, 3)], Some(E::Count(3))),
        (batch, &[(28, 2)], Some(E::Length)),
        (batch, &[(30, 23)], Some(E::Length)),
        (settle, &[(5, 63)], Some(E::Length)),
        (settle, &[(6, 1)], Some(E::Length)),
        (decisions, &[(34, 2)], Some(E::Length)),
        // A refusal becomes an authorisation without a token.
        (decisions, &[(48, 0)], Some(E::Count(1))),
        (FRAMES[0].1, &[(26, 200)], Some(E::Length)),
        (FRAMES[0].1, &[(33, 0xff)], Some(E::Text)),
    ] {
        assert_eq!(refusal(&patched(frame, patches)), want, "{patches:?}");
    }
    let mut altered = written(batch);
    altered[40] ^= 1;
    assert_eq!(refusal(&altered), Some(FrameError::Checksum));
}

#[test]
fn frames_with_longer_parts_of_a_later_version_are_read() {
    let bytes = written(settle);
    let mut longer = bytes[..HEAD_BYTES].to_vec();
    for entry in bytes[HEAD_BYTES..].chunks(64) {
        longer.extend_from_slice(entry);
        longer.extend_from_slice(b"new");
    }
    longer[5] = 67;
    frame::finish(&mut longer, 0);
    let frame = RawFrame::read(&longer, 1_000).unwrap().unwrap();
    let entries = SettleFrame::decode(&frame, 2).unwrap().entries();
    assert_eq!(entries.map(|entry| entry.outcome).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_truncated_frame_needs_more() {
    for (name, write) in FRAMES {
        let bytes = written(write);
        for length in 0..bytes.len() {
            let read = RawFrame::read(&bytes[..length], 1_000);
            assert!(matches!(read, Ok(None)), "{name}, {length} bytes: {read:?}");
        }
    }
}

#[test]
fn a_long_catalogue_takes_several_frames() {
    let mut out = Vec::new();
    let mut writer = CatalogueWriter::new(&mut out, 1, 1, true, 100);
    let name = "n".repeat(20);
    for handle in 0..5 {
        let (state, currency) = (DecisionCode::Paused, Currency::USD);
        writer.put(&CatalogueRow { handle, state, currency, account: &name, campaign: &name });
    }
    writer.finish();
    let (mut handles, mut flags, mut rest) = (Vec::new(), Vec::new(), &out[..]);
    while let Some(frame) = RawFrame::read(rest, 100).unwrap() {
        let change = CatalogueChange::decode(&frame).unwrap();
        flags.push((change.is_complete, change.is_last));
        handles.extend(change.map(|row| row.unwrap().handle));
        rest = &rest[frame.bytes.len()..];
    }
    assert!(rest.is_empty());
    assert_eq!(handles, [0, 1, 2, 3, 4]);
    assert_eq!((flags.first(), flags.last()), (Some(&(true, false)), Some(&(false, true))));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        frame in 0..FRAMES.len(),
        patches in proptest::collection::vec((0_usize..300, any::<u8>()), 0..6),
    ) {
        let length = written(FRAMES[frame].1).len();
        let patches: Vec<_> = patches.into_iter().filter(|(at, _)| *at < length).collect();
        let bytes = patched(FRAMES[frame].1, &patches);
        if let Ok(Some(frame)) = RawFrame::read(&bytes, 100_000) {
            let batch = BatchFrame::decode(&frame, u16::MAX, u16::MAX);
            let _requests = batch.map(|batch| batch.flat_map(|it| it.candidates).count());
            let _decisions = DecisionsFrame::decode(&frame).map(Iterator::count);
            let _settled = SettledFrame::decode(&frame).map(|it| it.codes().count());
            let _rows = CatalogueChange::decode(&frame).map(Iterator::count);
            let _hello = Hello::decode(&frame);
            let _error = frame.error();
        }
    }
}
