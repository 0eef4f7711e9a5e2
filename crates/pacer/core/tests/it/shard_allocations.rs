//! The cost of a shard: the memory that its options determine, and no allocation afterwards.
//!
//! Counts, never times, in a process without other allocations.

use std::time::Duration;

use faults::process::isolated;
use pacer_core::calendar::Period;
use pacer_core::messages::{BudgetGrant, CampaignIndex, Epoch, SpendingGate};
use pacer_core::shard::token::{ReservationToken, TokenKey, TokenOrigin, TokenText, TtlClass};
use pacer_core::shard::{ShardLedger, ShardOptions, ShardTime, TokenClaim, TokenRejection};
use stats_alloc::Region;
use units::{Nanos, Tick};

use crate::ALLOCATOR;

const CAMPAIGNS: u32 = 10_000;
const ROUNDS: u64 = 40;
const SECOND: u64 = 1_000_000_000;

/// Campaigns of a round, with one line each.
const STRIDE: u32 = 97;

fn options() -> ShardOptions {
    ShardOptions {
        origin: TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 },
        ttls: [15, 90].map(Duration::from_secs).to_vec(),
        late_window: Duration::from_secs(300),
        slots_max: CAMPAIGNS,
        books_max: 3 * CAMPAIGNS,
        reservations_max: 1 << 16,
        lines_max: 1 << 16,
    }
}

/// Consecutive periods of 400 seconds; each round does everything that a shard can do.
fn round(shard: &mut ShardLedger, round: u64, key: &TokenKey) -> u64 {
    let period = u32::try_from(round / 10).expect("few");
    let at = ShardTime { tick: Tick::from_nanos(round * 40 * SECOND), quarter: period };
    let until = Tick::from_nanos(u64::from(period + 1) * 400 * SECOND);
    let mut told = 0;
    for slot in (0..CAMPAIGNS).map(CampaignIndex) {
        let granted = Nanos::new((round % 10 + 1) * 100);
        shard
            .take(&BudgetGrant { slot, period: Period(period), granted, until })
            .expect("there is room");
        let is_recalled = (u64::from(slot.0) + round).is_multiple_of(50);
        let gate = SpendingGate { slot, version: round, closed: None, is_recalled };
        shard.take_gate(&gate).expect("there is room");
    }
    for slot in (0..CAMPAIGNS).step_by(STRIDE as usize).map(CampaignIndex) {
        for (class, fate) in [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4), (1, 5)] {
            let token = shard.reserve(slot, Nanos::new(10), TtlClass(class), at);
            if let Ok(token) = token {
                told += meet(shard, &token, (fate, at.tick), key);
            }
        }
    }
    shard.advance(at.tick);
    told += u64::try_from(shard.report().count() + shard.want().count()).expect("few");
    told
}

/// The outcome of a reservation.
fn meet(
    shard: &mut ShardLedger,
    token: &ReservationToken,
    (fate, now): (u32, Tick),
    key: &TokenKey,
) -> u64 {
    let text: TokenText = key.seal(token);
    let token = key.open(text.as_str().as_bytes()).expect("it was just sealed");
    match fate {
        0 | 1 => (),
        2 => {
            shard.release(&token, now).expect("it is open");
        }
        3 => {
            let claim = open(shard, &token, now);
            shard.unclaim(claim);
        }
        4 => {
            let claim = open(shard, &token, now);
            shard.settle(claim, Nanos::new(7));
            assert!(shard.claim(&token, now).is_err_and(|why| why == TokenRejection::AlreadyWon));
        }
        _ => {
            let late = now.after(Duration::from_secs(16));
            let claim = open(shard, &token, late);
            shard.settle(claim, Nanos::new(12));
        }
    }
    shard.holdings(token.slot()).map(|holding| holding.free.get() & 1).sum()
}

fn open(shard: &mut ShardLedger, token: &ReservationToken, now: Tick) -> TokenClaim {
    shard.claim(token, now).expect("it is open")
}

#[test]
fn a_shard_takes_its_memory_at_the_start_and_no_more() {
    isolated(|| {
        let options = options();
        let key = TokenKey::new([7; 16]);
        let region = Region::new(ALLOCATOR);
        let mut shard = ShardLedger::new(&options).expect("options are within range");
        let taken = region.change().bytes_allocated;
        let said = options.bytes().expect("options are within range");
        // Besides the lists of lanes.
        assert!(taken >= said && taken <= said + 4096, "{taken} bytes, not {said}");

        let region = Region::new(ALLOCATOR);
        let told: u64 = (0..ROUNDS).map(|number| round(&mut shard, number, &key)).sum();
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations, change.deallocations), (0, 0, 0));
        // The counted work was complete.
        let counts = *shard.counts();
        assert!(told > 30_000, "{told} reports and wants");
        assert!(counts.reserved > 20_000 && counts.won > 3_000, "{counts:?}");
        assert!(counts.released > 3_000 && counts.over > 3_000, "{counts:?}");
        assert_eq!((counts.full, counts.untaken, counts.pending), (0, 0, 0));
    });
}
