//! A lower bound: one atomic counter per campaign for the remaining budget. It has no reservations,
//! so nothing expires, and a repeated settlement spends twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Keeper;

/// The remaining budgets, and the total spend.
pub struct Counters {
    left: Vec<AtomicU64>,
    spent: Vec<AtomicU64>,
}

impl Counters {
    pub fn new(campaigns: u32) -> Self {
        Self {
            left: (0..campaigns).map(|_| AtomicU64::new(1 << 50)).collect(),
            spent: (0..campaigns).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Keeper for Counters {
    /// Campaign and amount.
    type Reservation = (u32, u64);

    fn decide(&mut self, campaign: u32, request: u64) -> u64 {
        let left = self.left[crate::cast(campaign)].load(Ordering::Relaxed);
        if left == 0 { 0 } else { (1_000_000 + request % 4_000_000) / 10 }
    }

    fn reserve(&mut self, campaign: u32, amount: u64) -> (u32, u64) {
        self.left[crate::cast(campaign)].fetch_sub(amount, Ordering::AcqRel);
        (campaign, amount)
    }

    fn settle(&mut self, settlements: &[((u32, u64), u64)]) {
        for ((campaign, amount), price) in settlements {
            self.left[crate::cast(*campaign)].fetch_add(amount - price, Ordering::AcqRel);
            self.spent[crate::cast(*campaign)].fetch_add(*price, Ordering::AcqRel);
        }
    }

    fn pass(&mut self, _time: Duration) {}

    fn spent(&self) -> u64 {
        self.spent.iter().map(|spent| spent.load(Ordering::Relaxed)).sum()
    }
}
