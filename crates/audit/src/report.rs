//! What recorded auctions add up to, in groups: auctions, bids, wins, spend, fill, latency.
//!
//! Test auctions are no business, and counted apart; so is what was not recorded. Sums are exact, or
//! the report ends; groups have a limit.

mod billing;
mod builder;
mod key;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use eventlog::ReadError;
use eventlog::lane::KnownReach;
use hdrhistogram::Histogram;

use crate::generations::Problems;
use crate::log::lane::Damage;

pub use billing::Settlement;
pub use builder::report;
pub use key::{Column, ColumnError, Columns};

/// Most groups of a report.
pub const GROUPS_MAX: usize = 10_000;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// More groups than are held.
    #[error("more than {GROUPS_MAX} groups: group by less, or ask for less by a filter")]
    Groups,
    /// More billed beacons than are held.
    #[error("more than {BILLED_MAX} beacons were billed in that time: ask for less by a filter")]
    Billed,
    /// A sum of money beyond any.
    #[error("the sums are beyond 2^64 nanos: ask for less by a filter")]
    Sum,
}

/// What was billed and is not in the record of auctions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnrecordedBilling {
    /// How many billed beacons are of auctions that are not there.
    pub beacons: u64,
    /// What accounts were billed for them, in nanos by currency.
    pub amounts: BTreeMap<String, u64>,
}

/// Most billed beacons that a report holds, at some 100 bytes each.
pub const BILLED_MAX: usize = 10_000_000;

/// A report.
#[derive(Debug)]
pub struct Report {
    /// By what it is grouped.
    pub columns: Columns,
    /// Groups, by their keys.
    pub groups: Vec<Group>,
    /// Everything once: an auction may be in several groups.
    pub totals: Vec<Group>,
    /// What is not in it.
    pub apart: Apart,
    /// What was billed of auctions that are not in the record.
    pub unrecorded: UnrecordedBilling,
    /// How far auctions are known to be recorded, where the record was not stopped cleanly: what came
    /// after may be missing.
    pub known: Option<KnownReach>,
    /// What is wrong with the lane of auctions.
    pub damage: Damage,
    /// What is wrong with the lane of generations.
    pub generations: Problems,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Group {
    /// Values of the columns; none of a total.
    pub key: Vec<String>,
    /// In which its money is: the base currency of the generation; empty when that is not known.
    pub currency: String,
    /// What it adds up to.
    pub sums: Sums,
}

/// What auctions add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Auctions: in which it was on sale, was asked or has bid.
    pub auctions: u64,
    /// Bids.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// Auctions in which one won.
    pub filled: u64,
    /// What DSPs owe, in nanos.
    pub spend_nanos: u64,
    /// What of that is ours, in nanos.
    pub fee_nanos: u64,
    /// Sales that were billed, by their beacons: of offered bids, too, where the caller took one.
    pub billed: u64,
    /// What DSPs owe for those, in nanos.
    pub billed_nanos: u64,
}

/// What auctions add up to, and how long they took.
#[derive(Clone, Debug)]
pub struct Sums {
    /// In numbers.
    pub counts: Counts,
    /// Of auctions; of DSPs' answers in groups by what is a DSP's. In microseconds.
    latency_us: Histogram<u32>,
}

/// What is not in a report, and what is not exact in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Tests, in which no money moved.
    pub tests: u64,
    /// Auctions that were not recorded, by what gaps say.
    pub shed: u64,
    /// Records that are none, or not to be read.
    pub unreadable: u64,
    /// Auctions whose generation is not known: names are missing, and our share.
    pub no_generation: u64,
    /// Bids that are left out of records, and so out of groups of bids.
    pub bids_left_out: u64,
}

impl Default for Sums {
    fn default() -> Self {
        // A hundredth is exact enough, and small: there are thousands of them.
        let latency_us = Histogram::new(2).expect("two digits are in range");
        Self { counts: Counts::default(), latency_us }
    }
}

impl Counts {
    /// Share of auctions in which something was won, in parts per million; `None` without auctions.
    pub fn fill_ppm(&self) -> Option<u64> {
        let filled = u128::from(self.filled) * 1_000_000;
        let ppm = filled.checked_div(self.auctions.into())?;
        u64::try_from(ppm).ok()
    }

    fn add(&mut self, other: &Self) -> Result<(), ReportError> {
        self.auctions += other.auctions;
        self.bids += other.bids;
        self.wins += other.wins;
        self.filled += other.filled;
        self.billed += other.billed;
        self.bill(other.billed_nanos)?;
        self.owe(other.spend_nanos, other.fee_nanos)
    }

    fn bill(&mut self, nanos: u64) -> Result<(), ReportError> {
        self.billed_nanos = self.billed_nanos.checked_add(nanos).ok_or(ReportError::Sum)?;
        Ok(())
    }

    fn owe(&mut self, spend_nanos: u64, fee_nanos: u64) -> Result<(), ReportError> {
        let sum = |one: u64, other: u64| one.checked_add(other).ok_or(ReportError::Sum);
        self.spend_nanos = sum(self.spend_nanos, spend_nanos)?;
        self.fee_nanos = sum(self.fee_nanos, fee_nanos)?;
        Ok(())
    }
}

impl Sums {
    /// A quantile of the latency; `None` without any.
    pub fn latency_us(&self, quantile: f64) -> Option<u64> {
        (!self.latency_us.is_empty()).then(|| self.latency_us.value_at_quantile(quantile))
    }

    fn add(&mut self, other: &Self) -> Result<(), ReportError> {
        self.latency_us.add(&other.latency_us).expect("it resizes itself");
        self.counts.add(&other.counts)
    }

    fn took(&mut self, us: u64) {
        // Moments of a record are below 2^32 microseconds.
        self.latency_us.record(us.min(u32::MAX.into())).expect("it resizes itself");
    }
}

impl Apart {
    fn add(&mut self, other: Self) {
        self.tests += other.tests;
        self.shed += other.shed;
        self.unreadable += other.unreadable;
        self.no_generation += other.no_generation;
        self.bids_left_out += other.bids_left_out;
    }
}
