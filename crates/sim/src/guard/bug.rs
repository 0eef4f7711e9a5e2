//! Faults planted in the code under test, at its edges: in what is reported, granted and counted.
//! Each is one that a careless change could bring in; the checks must notice every one.

use exchange_core::guard::{CallGrant, CallVerdict, GuardMode, GuardReport};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardBug {
    /// Nothing.
    None,
    /// A lost report is made good by granting again what the shard was to use.
    TokensMintedOnLoss,
    /// Tokens that were used are given back too.
    UsedTokensReturned,
    /// Permits of calls under way are given back.
    UsedPermitsReturned,
    /// A call's permit is never given back, now and then.
    PermitsLeaked,
    /// A reload starts from nothing and forgets what is under way.
    ReloadForgets,
    /// A grant that was overtaken is applied all the same.
    OldGrantsApplied,
    /// One shard does not hear of the pause.
    PauseIgnored,
    /// Errors that are fast count as health.
    FastErrorsHealthy,
    /// A timeout counts whether or not the DSP had its time.
    HurriedTimeoutsCount,
    /// Healthy answers are not counted.
    HealthUncounted,
    /// A throttled shard asks as ever.
    ThrottleIgnored,
    /// Shards keep what they do not use.
    TokensHoarded,
    /// The last shard's demand is not seen.
    DemandUnseen,
}

/// A bug at work, with what it must remember of each shard.
#[derive(Debug)]
pub(super) struct Planted {
    pub(super) bug: GuardBug,
    /// Tokens or permits that the bug made up, by shard.
    forged: Vec<u64>,
    /// The latest grant's number, by shard.
    grants: Vec<u64>,
    releases: u64,
}

impl Planted {
    pub(super) fn new(bug: GuardBug, shards: usize) -> Self {
        Self { bug, forged: vec![0; shards], grants: vec![0; shards], releases: 0 }
    }

    /// What is reported instead.
    pub(super) fn report(&mut self, mut report: GuardReport) -> GuardReport {
        let forged = &mut self.forged[report.shard];
        match self.bug {
            GuardBug::TokensMintedOnLoss => {
                // The books do not know them.
                report.consumed = report.consumed.saturating_sub(*forged);
            }
            GuardBug::UsedTokensReturned => {
                *forged = report.consumed / 2;
                report.returned += *forged;
                report.consumed -= *forged;
            }
            GuardBug::UsedPermitsReturned if report.in_use > 0 && report.seq.is_multiple_of(8) => {
                *forged += 1;
                report.permits_returned += *forged;
            }
            GuardBug::UsedPermitsReturned => report.permits_returned += *forged,
            GuardBug::DemandUnseen if report.shard + 1 == self.grants.len() => {
                report.attempts = 0;
                report.in_flight_refused = 0;
            }
            _ => (),
        }
        report
    }

    /// A report was lost.
    pub(super) fn report_lost(&mut self, report: &GuardReport) {
        if self.bug == GuardBug::TokensMintedOnLoss {
            self.forged[report.shard] += 1;
        }
    }

    /// What is granted instead.
    pub(super) fn grant(&mut self, mut grant: CallGrant) -> CallGrant {
        let forged = self.forged[grant.shard];
        match self.bug {
            GuardBug::TokensMintedOnLoss => grant.tokens += forged,
            GuardBug::UsedPermitsReturned => {
                // The shard still has them.
                grant.permits = grant.permits.map(|permits| permits.saturating_sub(forged));
            }
            GuardBug::OldGrantsApplied => {
                self.grants[grant.shard] += 1;
                grant.seq = self.grants[grant.shard];
            }
            GuardBug::PauseIgnored if grant.shard == 0 && grant.mode == GuardMode::Paused => {
                grant.mode = GuardMode::Open;
            }
            GuardBug::ThrottleIgnored if grant.mode == GuardMode::Throttled => {
                grant.mode = GuardMode::Open;
            }
            GuardBug::TokensHoarded => grant.tokens_keep = u64::MAX,
            _ => (),
        }
        grant
    }

    /// How a call is counted instead.
    pub(super) fn end(&self, end: CallVerdict) -> CallVerdict {
        match (self.bug, end) {
            (GuardBug::FastErrorsHealthy, CallVerdict::Bad) => CallVerdict::Good,
            (GuardBug::HurriedTimeoutsCount, CallVerdict::TimedOut { .. }) => {
                CallVerdict::TimedOut { had_min_time: true }
            }
            (GuardBug::HealthUncounted, CallVerdict::Good) => CallVerdict::Neutral,
            _ => end,
        }
    }

    /// Whether a permit goes back.
    pub(super) fn releases(&mut self) -> bool {
        self.releases += 1;
        !(self.bug == GuardBug::PermitsLeaked && self.releases.is_multiple_of(50))
    }
}
