//! Any bytes as a record of the delivery journal: refused, or the only encoding of their content;
//! and a start from them owes, remembers and settles no more than they state.
#![no_main]

use exchange_core::delivery::{DeliveryPolicy, DeliveryTime, JournalRecord, JournalReplay};
use libfuzzer_sys::fuzz_target;
use units::Tick;

fuzz_target!(|data: &[u8]| {
    let mut replay = JournalReplay::new(DeliveryPolicy::default(), 1_000);
    let mut records = 0;
    // Each record follows its length.
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (bytes, behind) = behind.split_at(length);
        rest = behind;
        if let Ok(record) = JournalRecord::decode(bytes) {
            assert_eq!(record.encode(), bytes);
            records += 1;
            let settled = match record {
                JournalRecord::Accepted { reservation, .. } => reservation,
                _ => None,
            };
            assert_eq!(replay.record(records, bytes), Ok(settled));
        }
    }
    let now = DeliveryTime { tick: Tick::ZERO, unix_ms: 1_000 };
    let mut delivery = replay.finish(now);
    let mut outbox = Vec::new();
    delivery.step(now, &mut Vec::new(), &mut outbox);
    let counters = delivery.counters();
    assert!(counters.billing_owed <= counters.remembered);
    assert!(counters.remembered as u64 <= records);
    assert!(delivery.safe_before() <= records + 1);
});
