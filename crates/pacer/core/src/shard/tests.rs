//! A shard against a naive model, and its answers by table.

mod authorise;
mod earlier;
mod model;
mod outcomes;
mod steps;

use std::time::Duration;

use units::{Nanos, Tick};

use super::*;
use crate::calendar::Period;
use crate::messages::Epoch;
use crate::refusal::SpendRefusal;

const ORIGIN: TokenOrigin = TokenOrigin { node: 7, epoch: Epoch(3), shard: 2 };

const SHORT: TtlClass = TtlClass(0);
const LONG: TtlClass = TtlClass(1);

/// Buckets of 10 and of 100 nanoseconds: the tests' hours are short.
fn options() -> ShardOptions {
    ShardOptions {
        origin: ORIGIN,
        ttls: vec![Duration::from_nanos(160), Duration::from_nanos(1600)],
        late_window: Duration::from_nanos(500),
        slots_max: 4,
        books_max: 16,
        reservations_max: 64,
        lines_max: 16,
    }
}

fn moment(tick: u64, quarter: u32) -> ShardTime {
    ShardTime { tick: Tick::from_nanos(tick), quarter }
}

fn grant(slot: u32, period: u32, granted: u64, until: u64) -> BudgetGrant {
    BudgetGrant {
        slot: CampaignIndex(slot),
        period: Period(period),
        granted: Nanos::new(granted),
        until: Tick::from_nanos(until),
    }
}

fn gate(slot: u32, version: u64, closed: Option<SpendRefusal>) -> SpendingGate {
    SpendingGate { slot: CampaignIndex(slot), version, closed, is_recalled: false }
}

fn recall(slot: u32, version: u64) -> SpendingGate {
    SpendingGate { slot: CampaignIndex(slot), version, closed: None, is_recalled: true }
}
