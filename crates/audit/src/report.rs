//! Reports: sums over recorded auctions by group: auctions, bids, wins, spend, fill rate, latency.
//!
//! Test auctions and unrecorded ones are counted separately. Sums are exact, or the report fails;
//! the number of groups is limited.

mod billing;
mod builder;
mod column;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use eventlog::LogReadError;
use eventlog::lane::KnownReach;
use hdrhistogram::Histogram;

use crate::generations::GenerationProblems;
use crate::log::lane::LaneDamage;

pub use billing::BilledBeacon;
pub use builder::report;
pub use column::{ColumnError, ReportColumn, ReportColumns};

/// Most groups of a report.
pub const GROUPS_MAX: usize = 10_000;

/// Why a report failed.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// Too many groups.
    #[error("more than {GROUPS_MAX} groups: group by less, or ask for less by a filter")]
    Groups,
    /// Too many billed beacons.
    #[error("more than {BILLED_MAX} beacons were billed in that time: ask for less by a filter")]
    Billed,
    /// A sum of money overflows.
    #[error("the sums are beyond 2^64 nanos: ask for less by a filter")]
    Sum,
}

/// Billed beacons of auctions that are not in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnrecordedBilling {
    /// Number of such beacons.
    pub beacons: u64,
    /// Amounts billed to accounts, in nanos by currency.
    pub amounts: BTreeMap<String, u64>,
}

/// Most billed beacons held in memory, at about 100 bytes each.
pub const BILLED_MAX: usize = 10_000_000;

/// A report.
#[derive(Debug)]
pub struct AuctionReport {
    /// What it is grouped by.
    pub columns: ReportColumns,
    /// Groups, ordered by key.
    pub groups: Vec<ReportGroup>,
    /// Totals that count each auction once, by currency; an auction may be in several groups.
    pub totals: Vec<ReportGroup>,
    /// What is excluded or inexact.
    pub apart: ReportExclusions,
    /// What was billed for auctions that are not in the record.
    pub unrecorded: UnrecordedBilling,
    /// How far auctions are known to be recorded, if the record was not stopped cleanly. Later ones
    /// may be missing.
    pub known: Option<KnownReach>,
    /// Damage of the lane of auctions.
    pub damage: LaneDamage,
    /// Problems of the lane of generations.
    pub generations: GenerationProblems,
}

/// A group or a total.
#[derive(Clone, Debug)]
pub struct ReportGroup {
    /// Values of the columns; empty for a total.
    pub key: Vec<String>,
    /// Currency of its money: the generation's base currency, empty if unknown.
    pub currency: String,
    /// Its sums.
    pub sums: ReportSums,
}

/// Sums over auctions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportCounts {
    /// Auctions in which the group's value was on sale, was called or bid.
    pub auctions: u64,
    /// Bids.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// Auctions with a win.
    pub filled: u64,
    /// What DSPs owe, in nanos.
    pub spend_nanos: u64,
    /// Our share of that, in nanos.
    pub fee_nanos: u64,
    /// Sales whose beacons were billed, including offered bids that the caller took.
    pub billed: u64,
    /// What DSPs owe for these, in nanos.
    pub billed_nanos: u64,
}

/// Sums and latencies.
#[derive(Clone, Debug)]
pub struct ReportSums {
    /// The sums.
    pub counts: ReportCounts,
    /// Latency in microseconds: of DSPs' responses in groups by a DSP's values, otherwise of
    /// auctions.
    latency_us: Histogram<u32>,
}

/// What a report excludes, and what is inexact in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportExclusions {
    /// Test auctions.
    pub tests: u64,
    /// Auctions that were not recorded, according to gaps.
    pub shed: u64,
    /// Unreadable records.
    pub unreadable: u64,
    /// Auctions with an unknown generation: names and our share are missing.
    pub no_generation: u64,
    /// Bids missing from their records, and so from groups of bids.
    pub bids_left_out: u64,
}

impl Default for ReportSums {
    fn default() -> Self {
        // Two significant digits are enough, and keep thousands of histograms small.
        let latency_us = Histogram::new(2).expect("two digits are in range");
        Self { counts: ReportCounts::default(), latency_us }
    }
}

impl ReportCounts {
    /// Share of auctions with a win, in parts per million. None without auctions.
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

impl ReportSums {
    /// A quantile of the latency. None without any.
    pub fn latency_us(&self, quantile: f64) -> Option<u64> {
        (!self.latency_us.is_empty()).then(|| self.latency_us.value_at_quantile(quantile))
    }

    fn add(&mut self, other: &Self) -> Result<(), ReportError> {
        self.latency_us.add(&other.latency_us).expect("it resizes itself");
        self.counts.add(&other.counts)
    }

    fn took(&mut self, us: u64) {
        // Times within a record are below 2^32 microseconds.
        self.latency_us.record(us.min(u32::MAX.into())).expect("it resizes itself");
    }
}

impl ReportExclusions {
    fn add(&mut self, other: Self) {
        self.tests += other.tests;
        self.shed += other.shed;
        self.unreadable += other.unreadable;
        self.no_generation += other.no_generation;
        self.bids_left_out += other.bids_left_out;
    }
}
