//! Bugs planted at the edges of the code under test: in reports, grants and counters. Each is one
//! that a careless change could introduce; the checks must catch every one.

use exchange_core::guard::{CallGrant, CallVerdict, GuardMode, GuardReport};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardBug {
    /// No bug.
    None,
    /// After a lost report, the governor grants again the tokens that the shard was to use.
    TokensMintedOnLoss,
    /// Shards also return tokens that they used.
    UsedTokensReturned,
    /// Shards return permits of calls in flight.
    UsedPermitsReturned,
    /// Every 50th permit is never returned.
    PermitsLeaked,
    /// A reload starts afresh and forgets calls in flight.
    ReloadForgets,
    /// Shards apply grants that a newer grant has overtaken.
    OldGrantsApplied,
    /// Shard 0 ignores the pause.
    PauseIgnored,
    /// Fast errors count as successes.
    FastErrorsHealthy,
    /// A timeout counts even if the DSP had too little time.
    HurriedTimeoutsCount,
    /// Successes are not counted.
    HealthUncounted,
    /// A throttled shard calls at its full rate.
    ThrottleIgnored,
    /// Shards never return unused tokens.
    TokensHoarded,
    /// The governor does not see the last shard's demand.
    DemandUnseen,
}

/// The planted bug, with its state per shard.
#[derive(Debug)]
pub(super) struct Planted {
    pub(super) bug: GuardBug,
    /// Tokens or permits that the bug invented, by shard.
    forged: Vec<u64>,
    /// Sequence number of the latest grant, by shard.
    grants: Vec<u64>,
    releases: u64,
}

impl Planted {
    pub(super) fn new(bug: GuardBug, shards: usize) -> Self {
        Self { bug, forged: vec![0; shards], grants: vec![0; shards], releases: 0 }
    }

    /// The report that the governor gets instead.
    pub(super) fn report(&mut self, mut report: GuardReport) -> GuardReport {
        let forged = &mut self.forged[report.shard];
        match self.bug {
            GuardBug::TokensMintedOnLoss => {
                // The governor's books do not contain the forged tokens.
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

    pub(super) fn report_lost(&mut self, report: &GuardReport) {
        if self.bug == GuardBug::TokensMintedOnLoss {
            self.forged[report.shard] += 1;
        }
    }

    /// The grant that the shard gets instead.
    pub(super) fn grant(&mut self, mut grant: CallGrant) -> CallGrant {
        let forged = self.forged[grant.shard];
        match self.bug {
            GuardBug::TokensMintedOnLoss => grant.tokens += forged,
            GuardBug::UsedPermitsReturned => {
                // The shard still has these permits.
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

    /// The verdict that is counted instead.
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

    /// Whether the shard returns a permit.
    pub(super) fn releases(&mut self) -> bool {
        self.releases += 1;
        !(self.bug == GuardBug::PermitsLeaked && self.releases.is_multiple_of(50))
    }
}
