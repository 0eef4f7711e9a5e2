//! Vickrey's implementation: `pacer_core::shard` and `pacer_core::strategy`.

use std::time::Duration;

use anyhow::Result;
use pacer_core::calendar::Period;
use pacer_core::messages::{BudgetGrant, CampaignIndex, Epoch, SpendingGate};
use pacer_core::shard::token::{ReservationToken, TokenOrigin, TtlClass};
use pacer_core::shard::{ShardOptions, ShardTime};
use pacer_core::strategy::{StrategySettings, StrategyState, decide};
use units::{Cpm, Nanos, Tick};

use crate::Keeper;

/// A shard with grants for the whole spend, and the pace of each campaign: that of the default
/// strategy, which sees each request and bids a part of its value.
pub struct Shard {
    shard: pacer_core::shard::ShardLedger,
    paces: Vec<pacer_core::strategy::BidPace>,
    at: ShardTime,
}

/// Settlements whose memory is read together, as the pacer does it.
const GROUP: usize = 32;

impl Shard {
    pub fn new(campaigns: u32, open: usize) -> Result<Self> {
        let room = u32::try_from(open)?.saturating_mul(4).clamp(1 << 16, 1 << 24);
        let options = ShardOptions {
            origin: TokenOrigin { node: 1, epoch: Epoch(1), shard: 0 },
            ttls: vec![Duration::from_secs(60), Duration::from_secs(1800)],
            late_window: Duration::from_secs(60),
            slots_max: campaigns,
            books_max: 2 * campaigns,
            // A million per second, for their lifetime and the late window.
            reservations_max: 1 << 27,
            lines_max: room,
        };
        let mut shard = pacer_core::shard::ShardLedger::new(&options)?;
        let until = Tick::from_nanos(u64::MAX);
        for slot in (0..campaigns).map(CampaignIndex) {
            shard.take_gate(&SpendingGate {
                slot,
                version: 1,
                closed: None,
                is_recalled: false,
            })?;
            let granted = Nanos::new(1 << 50);
            shard.take(&BudgetGrant { slot, period: Period(1), granted, until })?;
        }
        let settings = StrategySettings::default();
        let paces = vec![StrategyState::start(&settings).pace(&settings); crate::cast(campaigns)];
        let at = ShardTime { tick: Tick::ZERO, quarter: 1 };
        Ok(Self { shard, paces, at })
    }
}

impl Keeper for Shard {
    type Reservation = ReservationToken;

    fn decide(&mut self, campaign: u32, request: u64) -> u64 {
        let value = Cpm::new(1_000_000 + request % 4_000_000).expect("a price");
        let pace = self.paces[crate::cast(campaign)];
        // A strategy that sees each request needs no random draw.
        decide(pace, value, 0).map_or(0, Cpm::micros)
    }

    fn reserve(&mut self, campaign: u32, amount: u64) -> ReservationToken {
        let reserved =
            self.shard.reserve(CampaignIndex(campaign), Nanos::new(amount), TtlClass(0), self.at);
        reserved.expect("there is money")
    }

    fn settle(&mut self, settlements: &[(ReservationToken, u64)]) {
        for group in settlements.chunks(GROUP) {
            self.shard.warm_tokens(group.iter().map(|(reservation, _)| reservation));
            for (reservation, price) in group {
                let claim = self.shard.claim(reservation, self.at.tick).expect("it is open");
                self.shard.settle(claim, Nanos::new(*price));
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.at.tick = self.at.tick.after(time);
        self.shard.advance(self.at.tick);
    }

    fn spent(&self) -> u64 {
        let slots =
            (0..self.paces.len()).map(|slot| CampaignIndex(u32::try_from(slot).expect("32 bits")));
        let holdings = slots.flat_map(|slot| self.shard.holdings(slot));
        holdings.map(|holding| holding.settled.get()).sum()
    }
}
