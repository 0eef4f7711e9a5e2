//! A shard's grants for one campaign and one period, and their use.
//!
//! `granted = free + reserved + settled + returned` holds after every step, and is asserted: not
//! bidding is cheap, overspending is not. Amounts are in nanos.

use units::{Nanos, Tick};

use super::NEVER;
use super::outcome::SettledWin;
use crate::calendar::Period;
use crate::messages::{BudgetGrant, CampaignIndex, Receipt, SpendReport};

pub(super) const NONE: u32 = u32::MAX;

/// A campaign's balances in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodHolding {
    /// The period.
    pub period: Period,
    /// Total granted.
    pub granted: Nanos,
    /// Free to reserve.
    pub free: Nanos,
    /// In reservations that are open or being settled.
    pub reserved: Nanos,
    /// Spent from reservations.
    pub settled: Nanos,
    /// Returned to the ledger.
    pub returned: Nanos,
    /// Spent after the reservation ended.
    pub late: Nanos,
    /// Spent above the reservation.
    pub over: Nanos,
}

/// Two cache lines: a reservation changes both.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct PeriodBudget {
    pub slot: CampaignIndex,
    pub period: Period,
    /// The campaign's book of the previous period, or [`NONE`].
    pub older: u32,
    /// Claims neither settled nor given up. They keep the book alive.
    pub claimed: u32,
    /// End of reserving.
    pub until: Tick,
    granted: u64,
    pub free: u64,
    pub reserved: u64,
    settled: u64,
    returned: u64,
    late: u64,
    over: u64,
    reserved_ever: u64,
    reserved_count: u64,
    won_count: u64,
    pub slice: u64,
    /// When the free amount was returned, finally unless more is granted; [`NEVER`] before.
    pub closed: Tick,
    pub is_changed: bool,
    pub is_used: bool,
}

const _: () = assert!(size_of::<PeriodBudget>() == 128, "a reservation touches few cache lines");

impl PeriodBudget {
    pub fn new(slot: CampaignIndex, period: Period) -> Self {
        Self {
            slot,
            period,
            older: NONE,
            claimed: 0,
            until: Tick::ZERO,
            granted: 0,
            free: 0,
            reserved: 0,
            settled: 0,
            returned: 0,
            late: 0,
            over: 0,
            reserved_ever: 0,
            reserved_count: 0,
            won_count: 0,
            slice: 0,
            closed: NEVER,
            is_changed: false,
            is_used: true,
        }
    }

    /// Takes a grant's increase; false if none. Of equal grants the earliest end wins.
    pub fn grant(&mut self, grant: &BudgetGrant) -> bool {
        let granted = grant.granted.get();
        if granted <= self.granted {
            if granted == self.granted {
                self.until = self.until.min(grant.until);
            }
            return false;
        }
        self.slice = granted - self.granted;
        self.free += self.slice;
        self.granted = granted;
        self.until = grant.until;
        self.closed = NEVER;
        self.assert_conserved();
        true
    }

    /// Reads both of its cache lines. The result means nothing.
    #[inline]
    pub const fn warm(&self) -> u64 {
        self.free ^ self.reserved_count ^ self.granted ^ self.slice
    }

    /// Reserves at most what is free.
    #[inline]
    pub fn reserve(&mut self, amount: u64) {
        self.free = self.free.checked_sub(amount).expect("no more is reserved than is free");
        self.reserved += amount;
        // Released money is reserved again, so the sum is unbounded.
        self.reserved_ever = self.reserved_ever.saturating_add(amount);
        self.reserved_count += 1;
        self.assert_conserved();
    }

    /// Ends a reservation: its amount is free again, or returned.
    pub fn give_back(&mut self, amount: u64, is_spendable: bool) {
        let reserved = self.reserved.checked_sub(amount);
        self.reserved = reserved.expect("reserved covers every open reservation");
        if is_spendable {
            self.free += amount;
        } else {
            self.returned += amount;
        }
        self.assert_conserved();
    }

    /// Settles a reservation of `amount` at `price`.
    pub fn settle(&mut self, amount: u64, price: u64, is_spendable: bool) -> SettledWin {
        let settled = price.min(amount);
        let reserved = self.reserved.checked_sub(settled);
        self.reserved = reserved.expect("reserved covers every open reservation");
        self.settled += settled;
        let over = price - settled;
        // Notices may name any price. A saturated sum rightly stops all spending.
        self.over = self.over.saturating_add(over);
        self.won_count += 1;
        self.give_back(amount - settled, is_spendable);
        self.assert_conserved();
        let (settled, over) = (Nanos::new(settled), Nanos::new(over));
        SettledWin { slot: self.slot, period: self.period, settled, over, late: Nanos::ZERO }
    }

    /// Settles a win whose reservation has ended.
    pub fn settle_late(&mut self, price: u64) -> SettledWin {
        self.late = self.late.saturating_add(price);
        self.won_count += 1;
        let (settled, over, late) = (Nanos::ZERO, Nanos::ZERO, Nanos::new(price));
        SettledWin { slot: self.slot, period: self.period, settled, over, late }
    }

    /// Returns the free amount; false if it is zero.
    pub fn return_free(&mut self) -> bool {
        let returned = std::mem::take(&mut self.free);
        self.returned += returned;
        self.assert_conserved();
        returned > 0
    }

    /// Whether nothing can change it once its tokens are forgotten.
    pub const fn is_finished(&self) -> bool {
        self.free == 0 && self.claimed == 0 && !self.is_changed
    }

    pub const fn report(&self) -> SpendReport {
        SpendReport {
            slot: self.slot,
            period: self.period,
            returned: Nanos::new(self.returned),
            settled: Nanos::new(self.settled),
            late: Nanos::new(self.late),
            over: Nanos::new(self.over),
            reserved: Nanos::new(self.reserved_ever),
            reserved_count: self.reserved_count,
            won_count: self.won_count,
        }
    }

    pub const fn receipt(&self) -> Receipt {
        Receipt { slot: self.slot, period: self.period, granted: Nanos::new(self.granted) }
    }

    pub const fn holding(&self) -> PeriodHolding {
        PeriodHolding {
            period: self.period,
            granted: Nanos::new(self.granted),
            free: Nanos::new(self.free),
            reserved: Nanos::new(self.reserved),
            settled: Nanos::new(self.settled),
            returned: Nanos::new(self.returned),
            late: Nanos::new(self.late),
            over: Nanos::new(self.over),
        }
    }

    #[inline]
    fn assert_conserved(&self) {
        let sum = self.free.checked_add(self.reserved);
        let sum = sum.and_then(|sum| sum.checked_add(self.settled));
        let sum = sum.and_then(|sum| sum.checked_add(self.returned));
        assert!(
            sum == Some(self.granted),
            "granted = free + reserved + settled + returned of slot {} in period {}: {:?}",
            self.slot.0,
            self.period.0,
            self.holding(),
        );
    }
}
