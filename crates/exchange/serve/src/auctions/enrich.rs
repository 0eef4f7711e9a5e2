//! Adds what is in memory to an auction.

use exchange_core::Auction;

use crate::shard::{ExchangeShard, ShardSnapshot};

/// Finds the data of all enrichments. Waits for nothing.
pub(super) fn enriched<'a>(
    shard: &ExchangeShard,
    snapshot: &ShardSnapshot,
    auction: Auction<'a>,
    body: &str,
    at_unix_ms: u64,
) -> Auction<'a> {
    if snapshot.enrichments.is_empty() {
        return auction;
    }
    let auction = auction.enriched(body, &mut shard.value_buffer(), |at, value| {
        snapshot.enrichments[at].memory.0.find(value, at_unix_ms)
    });
    for (done, known) in auction.enrichments().iter().zip(&snapshot.enrichments) {
        known.metrics.outcomes[done.outcome as usize].increment();
        if done.outcome.is_added() {
            known.metrics.age.record(done.age);
        }
    }
    auction
}
