//! One shard's account with the governor: tokens and permits granted, used and returned, as
//! reported, and its demand. Must not know limits.

use super::message::{EpochCounts, GuardReport};
use super::window::OutcomeCounts;

const MEAN_ONE: u64 = 1 << 10;
/// Fixed point of peaks, so that small ones fade over a few steps.
const PEAK_ONE: u64 = 4;
/// The same for permits, which are reused and therefore wanted for longer.
const PERMITS_ONE: u64 = 16;
/// Steps of demand for which a shard holds tokens: its report, the governor's step, the grant.
const STEPS_HELD: u64 = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct CallLease {
    reports: u64,
    attempts: u64,
    pub(super) granted: u64,
    consumed: u64,
    returned: u64,
    /// Number of granted tokens that are void, the oldest.
    pub(super) void: u64,
    in_epoch: EpochCounts,
    pub(super) permits_granted: u64,
    permits_returned: u64,
    pub(super) in_use: u32,
    in_flight_refused: u64,
    arrived: u64,
    /// Whether a call was refused for lack of a permit since the last step.
    lacked_permit: bool,
    mean: u64,
    peak: u64,
    permits_peak: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportDelta {
    pub(super) returned: u64,
    pub(super) returned_in_epoch: u64,
    pub(super) results: OutcomeCounts,
    pub(super) attempts: u64,
}

impl ReportDelta {
    pub(super) fn add(&mut self, other: Self) {
        self.returned += other.returned;
        self.returned_in_epoch += other.returned_in_epoch;
        self.results.add(other.results);
        self.attempts += other.attempts;
    }
}

impl CallLease {
    pub(super) fn take(&mut self, report: &GuardReport, epoch: u32) -> ReportDelta {
        if report.seq <= self.reports {
            return ReportDelta::default();
        }
        let since =
            |now: u64, then: u64| now.checked_sub(then).expect("a shard's counts only grow");
        let mut news = ReportDelta {
            returned: since(report.returned, self.returned),
            attempts: since(report.attempts, self.attempts),
            ..ReportDelta::default()
        };
        if report.epoch.epoch == epoch {
            let known = Some(self.in_epoch).filter(|known| known.epoch == epoch);
            let known = known.unwrap_or_default();
            news.returned_in_epoch = since(report.epoch.returned, known.returned);
            news.results = OutcomeCounts {
                good: since(report.epoch.good, known.good),
                bad: since(report.epoch.bad, known.bad),
            };
            self.in_epoch = report.epoch;
        }
        assert!(self.consumed <= report.consumed, "a shard's counts only grow");
        assert!(
            report.consumed + report.returned <= self.granted
                && report.permits_returned <= self.permits_granted,
            "a shard spends and gives back at most what it was granted",
        );
        self.reports = report.seq;
        self.attempts = report.attempts;
        self.consumed = report.consumed;
        self.returned = report.returned;
        self.permits_returned = report.permits_returned;
        self.in_use = report.in_use;
        self.permits_peak = self.permits_peak.max(u64::from(report.in_use_peak) * PERMITS_ONE);
        self.lacked_permit |= report.in_flight_refused > self.in_flight_refused;
        self.in_flight_refused = report.in_flight_refused;
        self.arrived += news.attempts;
        news
    }

    /// Follows demand: adds what was wanted since the last step; earlier demand fades.
    pub(super) fn follow_demand(&mut self) {
        let arrived = std::mem::take(&mut self.arrived);
        self.mean = (self.mean * 7 + arrived * MEAN_ONE) / 8;
        let faded = |peak: u64| peak - peak.div_ceil(PEAK_ONE);
        self.peak = faded(self.peak).max(arrived * PEAK_ONE);
    }

    /// Tokens that may be unused: at the shard or on their way to it.
    pub(super) fn outstanding(&self) -> u64 {
        self.granted - self.consumed - self.returned
    }

    pub(super) fn outstanding_in(&self, epoch: u32) -> u64 {
        let known = Some(self.in_epoch).filter(|known| known.epoch == epoch).unwrap_or_default();
        self.granted - self.void - known.consumed - known.returned
    }

    /// The shard's permits, including calls made when none were needed.
    pub(super) fn permits_held(&self) -> u64 {
        (self.permits_granted - self.permits_returned).max(u64::from(self.in_use))
    }

    pub(super) fn tokens_wanted(&self) -> u64 {
        (self.peak * STEPS_HELD).div_ceil(PEAK_ONE)
    }

    /// Permits it wants to hold, of `cap`. Call it once per step.
    pub(super) fn permits_wanted(&mut self, cap: u64) -> u64 {
        let peak = self.permits_peak;
        self.permits_peak =
            (peak - peak.div_ceil(PERMITS_ONE)).max(u64::from(self.in_use) * PERMITS_ONE);
        let peak = peak.div_ceil(PERMITS_ONE);
        let is_pressed = std::mem::take(&mut self.lacked_permit);
        match peak {
            _ if is_pressed => cap,
            0 => u64::from(self.peak > 0),
            _ => (peak + peak.div_ceil(2)).min(cap),
        }
    }

    pub(super) fn weight(&self) -> u64 {
        self.mean.max(1)
    }
}
