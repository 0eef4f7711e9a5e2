//! Wins from before a restart are booked once each.

use super::*;
use crate::calendar::QUARTER_MS;
use crate::shard::EarlierWins;

const HOUR_MS: u64 = 60 * 60 * 1000;
const NOW_MS: u64 = 10 * HOUR_MS;

/// A token of an earlier start, whose hour begins at `quarter`.
fn token(sequence: u32, quarter: u32) -> ReservationToken {
    ReservationToken {
        origin: TokenOrigin { epoch: Epoch(2), shard: 5, ..ORIGIN },
        ttl: SHORT,
        bucket: 9,
        sequence,
        line: 0,
        slot: CampaignIndex(1),
        period: Period(quarter),
        amount: Nanos::new(100),
    }
}

fn now() -> u32 {
    u32::try_from(NOW_MS / QUARTER_MS).unwrap()
}

#[test]
fn a_win_from_before_a_restart_is_booked_once() {
    let mut wins = EarlierWins::new(ORIGIN, Duration::from_secs(3600));
    for sequence in [0, 1, 31, 32, 16_383, 16_384, 4_000_000] {
        let token = token(sequence, now());
        wins.claim(&token, NOW_MS).unwrap();
        assert_eq!(wins.claim(&token, NOW_MS), Err(TokenRejection::Pending));
        wins.unclaim(&token);
        wins.claim(&token, NOW_MS).unwrap();
        wins.settle(&token);
        assert_eq!(wins.claim(&token, NOW_MS), Err(TokenRejection::AlreadyWon), "{sequence}");
    }
    let next = token(2, now());
    wins.claim(&next, NOW_MS).unwrap();
    for other in [
        ReservationToken { bucket: 10, ..next },
        ReservationToken { ttl: LONG, ..next },
        ReservationToken { origin: TokenOrigin { shard: 6, ..next.origin }, ..next },
        ReservationToken { origin: TokenOrigin { epoch: Epoch(1), ..next.origin }, ..next },
    ] {
        wins.claim(&other, NOW_MS).unwrap();
    }
}

#[test]
fn what_the_log_holds_is_won() {
    let mut wins = EarlierWins::new(ORIGIN, Duration::from_secs(3600));
    wins.replay(&token(3, now()));
    assert_eq!(wins.claim(&token(3, now()), NOW_MS), Err(TokenRejection::AlreadyWon));
    wins.claim(&token(4, now()), NOW_MS).unwrap();
}

#[test]
fn tokens_that_it_does_not_know_are_refused() {
    use TokenRejection::{FutureEpoch, OtherNode, OtherShard, TooOld};
    let mut wins = EarlierWins::new(ORIGIN, Duration::from_secs(3600));
    let good = token(0, now());
    let of = |origin| ReservationToken { origin, ..good };
    // Its hour, an hour until it is forgotten, and two until shards know of its end.
    let oldest = u32::try_from((NOW_MS - 3 * HOUR_MS) / QUARTER_MS).unwrap();
    for (token, want) in [
        (of(TokenOrigin { node: 8, ..good.origin }), Err(OtherNode)),
        (of(TokenOrigin { epoch: Epoch(4), ..good.origin }), Err(FutureEpoch)),
        (of(TokenOrigin { epoch: ORIGIN.epoch, ..good.origin }), Err(OtherShard)),
        (token(1, oldest - 1), Err(TooOld)),
        (token(2, oldest), Ok(())),
    ] {
        assert_eq!(wins.claim(&token, NOW_MS), want, "{token:?}");
    }
    assert_eq!(wins.replay_from_ms(NOW_MS), NOW_MS - 3 * HOUR_MS, "all that is not too old");
}
