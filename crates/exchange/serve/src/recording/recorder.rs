//! A shard's writer of auctions' records: its ring, and the buffer they are encoded into.

use std::cell::RefCell;

use eventlog::lane::FirehoseRing;
use events::RecordKind;
use exchange_core::NotAsked;
use exchange_core::record::{AuctionContext, RecordedCall, encode};

/// Largest buffer to keep for the next record.
const KEPT_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Recorder(RefCell<RecordRing>);

#[derive(Debug)]
struct RecordRing {
    firehose: FirehoseRing,
    record: Vec<u8>,
}

impl Recorder {
    pub fn new(firehose: FirehoseRing) -> Self {
        Self(RefCell::new(RecordRing { firehose, record: Vec::new() }))
    }

    pub fn record(
        &self,
        context: &AuctionContext<'_>,
        not_asked: &[(usize, NotAsked)],
        calls: impl IntoIterator<Item = RecordedCall>,
    ) {
        let RecordRing { firehose, record } = &mut *self.0.borrow_mut();
        record.clear();
        let arrival_ms = context.arrival_unix_us / 1000;
        let Some(kept) = encode(context, not_asked.iter().copied(), calls, record) else {
            return firehose.leave_out(arrival_ms);
        };
        // The lane counts refused records.
        let _is_taken =
            firehose.offer_as(RecordKind::Auction.code(), kept as u8, arrival_ms, record);
        if record.capacity() > KEPT_BYTES_MAX {
            *record = Vec::new();
        }
    }
}
