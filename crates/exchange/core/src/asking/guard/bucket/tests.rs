//! How fast a bucket fills and empties.

use std::num::NonZeroU32;

use super::*;

fn rate(qps: u32, burst: u32) -> CallRate {
    CallRate { qps: NonZeroU32::new(qps).unwrap(), burst: NonZeroU32::new(burst).unwrap() }
}

#[test]
fn tokens_accrue_exactly_and_to_the_burst() {
    let mut bucket = TokenBucket::empty(rate(3, 5));
    for (elapsed_ms, outstanding, want) in
        [(333, 0, 0), (1, 0, 1), (999, 0, 3), (1, 0, 4), (5_000, 0, 5), (100, 0, 5)]
    {
        bucket.accrue(Duration::from_millis(elapsed_ms), outstanding);
        assert_eq!(bucket.tokens(), want, "after {elapsed_ms} ms");
    }
    bucket.debit(4);
    bucket.accrue(Duration::MAX, 4);
    assert_eq!(bucket.tokens(), 1);
    bucket.assert_conserved(4);
    bucket.refund(3, 1);
    assert_eq!(bucket.tokens(), 4);
    bucket.assert_conserved(1);
}

#[test]
fn a_cut_below_what_is_outstanding_leaves_nothing() {
    let mut bucket = TokenBucket::empty(rate(100, 10));
    bucket.accrue(Duration::from_secs(1), 0);
    bucket.debit(6);
    bucket.set_rate(rate(100, 4), 6);
    assert_eq!(bucket.tokens(), 0);
    bucket.accrue(Duration::from_secs(1), 6);
    assert_eq!(bucket.tokens(), 0);
    bucket.assert_conserved(6);
    // Five of six return: with one outstanding, the burst has room for four.
    bucket.refund(5, 1);
    assert_eq!(bucket.tokens(), 3);
}

#[test]
#[should_panic(expected = "conserved")]
fn minted_tokens_stop_the_process() {
    let mut bucket = TokenBucket::empty(rate(100, 10));
    bucket.accrue(Duration::from_secs(1), 0);
    bucket.assert_conserved(1);
}
