//! Any bytes as frames of the pacer's protocol, with their own checksum and with a correct one:
//! refused, or read within their limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pacer_wire::{
    BatchFrame, CatalogueChange, DecisionsFrame, FrameKind, HEAD_BYTES, Hello, RawFrame,
    SettleFrame, SettledFrame,
};

const FRAME_BYTES_MAX: u32 = 16_384;
const ENTRIES_MAX: u16 = 100;

fn read(bytes: &[u8]) {
    let Ok(Some(frame)) = RawFrame::read(bytes, FRAME_BYTES_MAX) else { return };
    assert!(frame.bytes.len() <= bytes.len() && frame.bytes.len() >= HEAD_BYTES);
    match frame.kind {
        FrameKind::Hello => drop(Hello::decode(&frame)),
        FrameKind::Welcome => drop(frame.welcome()),
        FrameKind::Batch => {
            let Ok(batch) = BatchFrame::decode(&frame, ENTRIES_MAX, 4) else { return };
            assert!(batch.len() <= ENTRIES_MAX.into());
            for request in batch {
                let candidates = request.candidates.map(|candidate| {
                    let _price = (candidate.offer(), candidate.minimum());
                });
                assert!((1..=4).contains(&candidates.count()));
                let _impressions = request.request.multiplier();
            }
        }
        FrameKind::Decisions => {
            let Ok(decisions) = DecisionsFrame::decode(&frame) else { return };
            decisions.for_each(|(decision, token)| {
                assert_eq!(decision.code == 0, token.is_some());
            });
        }
        FrameKind::Settle => {
            let Ok(settle) = SettleFrame::decode(&frame, ENTRIES_MAX) else { return };
            assert!(settle.entries().count() <= ENTRIES_MAX.into());
        }
        FrameKind::Settled => drop(SettledFrame::decode(&frame).map(|it| it.codes().count())),
        FrameKind::Catalogue => drop(CatalogueChange::decode(&frame).map(Iterator::count)),
        FrameKind::Heartbeat => drop(frame.heartbeat()),
        FrameKind::Error => drop(frame.error()),
    }
}

fuzz_target!(|data: &[u8]| {
    read(data);
    // With the length and the checksum that its content asks for.
    let mut repaired = data.to_vec();
    if repaired.len() < HEAD_BYTES {
        return;
    }
    let length = u32::try_from(repaired.len()).expect("inputs are short");
    repaired[8..12].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c::crc32c(&repaired[..HEAD_BYTES - 4]);
    let sum = crc32c::crc32c_append(sum, &repaired[HEAD_BYTES..]);
    repaired[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    read(&repaired);
});
