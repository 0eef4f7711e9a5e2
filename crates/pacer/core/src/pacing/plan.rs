//! The flight that a strategy follows, and its progress: the total, a day or an hour.

use units::Nanos;

use super::funds::Funds;
use super::look::PacingContext;
use super::sums::ObservedSums;
use crate::calendar::Calendar;
use crate::ledger::LimitSpan;
use crate::strategy::{
    CampaignFlight, Forecast, ObservedTotals, SpendTarget, StrategyState, TargetError, Week,
};

/// The share of an account's limit is updated only if it differs by more than one part in this
/// many: otherwise the plan would change with every lease of other campaigns.
const STEADY: u64 = 64;

/// What determines a campaign's curve, for any part of its flight.
pub(super) struct CurveShape {
    pub(super) flight: CampaignFlight,
    pub(super) week: Week,
    pub(super) ahead: f64,
}

impl CurveShape {
    pub(super) fn target(
        &self,
        flight: CampaignFlight,
        hour: &PacingContext<'_>,
    ) -> Result<SpendTarget, TargetError> {
        let (week, zone) = (self.week.clone(), hour.clocks.zone.clone());
        let forecast = Forecast::Weekly { week, zone };
        SpendTarget::new(flight, forecast)?.front_loaded(self.ahead)
    }
}

/// The flight over which a limit applies.
#[derive(Clone, Copy)]
pub(super) struct LimitFlight {
    pub(super) span: LimitSpan,
    pub(super) flight: CampaignFlight,
}

pub(super) struct FlightChoice {
    /// The span of the limit to follow, and its flight. None if there is no limit.
    pub(super) followed: Option<LimitFlight>,
    /// The longer flight that a campaign would follow without the hour's limit, for reports.
    pub(super) reported: Option<LimitFlight>,
    pub(super) until_ms: u64,
}

/// The longer flight for progress reports while an hour's limit is followed.
pub(super) struct ReportedFlight {
    pub(super) span: LimitSpan,
    pub(super) flight: CampaignFlight,
    pub(super) target: SpendTarget,
}

impl ReportedFlight {
    pub(super) fn planned(&self, limit: Nanos, at_ms: u64) -> Nanos {
        Nanos::new(whole(limit.get() as f64 * self.target.share(at_ms)))
    }

    /// The same for a future time, from the present spend.
    pub(super) fn planned_from(
        &self,
        limit: Nanos,
        spent: Nanos,
        now_ms: u64,
        at_ms: u64,
    ) -> Nanos {
        let left = limit.get().saturating_sub(spent.get());
        let part = whole(left as f64 * self.target.share_of_rest(now_ms, at_ms));
        Nanos::new(spent.get().saturating_add(part))
    }
}

/// A flight in progress, from its start or from where it was joined.
pub(super) struct FlightPlan {
    pub(super) span: LimitSpan,
    /// The flight of the limit.
    pub(super) nominal: CampaignFlight,
    /// Over the rest of the flight from joining.
    pub(super) target: SpendTarget,
    pub(super) before: u64,
    pub(super) base: ObservedTotals,
    /// Share of the account's limit when last updated.
    pub(super) shared: Option<u64>,
}

/// Chooses the tightest flight: the total one, unless the day's limit runs out before its curve
/// does; likewise for the hour.
pub(super) fn choose(shape: &CurveShape, hour: &PacingContext<'_>, funds: &Funds) -> FlightChoice {
    let (flight, now_ms) = (shape.flight, hour.now_ms);
    let within = |(start, end): (u64, u64)| CampaignFlight {
        start_ms: flight.start_ms.max(start),
        end_ms: flight.end_ms.min(end),
    };
    let calendar = &hour.clocks.calendar;
    let day = day_of(calendar, now_ms).map(within);
    let clock = calendar.at(now_ms).map(|hour| within((hour.start_unix_ms, hour.end_unix_ms)));
    let mut until_ms = day.map_or(flight.end_ms, |day| day.end_ms);
    let mut chosen: Option<(LimitFlight, SpendTarget, u64)> = None;
    let mut reported = None;
    let spans = [(LimitSpan::Life, Some(flight)), (LimitSpan::Day, day), (LimitSpan::Hour, clock)];
    for (span, bounds) in spans {
        let (Some(bounds), Some(limit)) = (bounds, funds.of(span).limit()) else { continue };
        until_ms = until_ms.min(bounds.end_ms);
        let Ok(target) = shape.target(bounds, hour) else { continue };
        let left = limit.get().saturating_sub(funds.of(span).spent.get());
        let is_tighter = chosen.as_ref().is_none_or(|(_, longer, longer_left)| {
            let part = longer.share_of_rest(now_ms, bounds.end_ms);
            left as f64 <= *longer_left as f64 * part
        });
        if is_tighter {
            let before = chosen.take().map(|(before, ..)| before);
            reported = before.filter(|_| span == LimitSpan::Hour);
            chosen = Some((LimitFlight { span, flight: bounds }, target, left));
        }
    }
    let followed = chosen.map(|(followed, ..)| followed);
    FlightChoice { followed, reported, until_ms }
}

fn day_of(calendar: &Calendar, now_ms: u64) -> Option<(u64, u64)> {
    const LONGEST_MS: u64 = 26 * 60 * 60 * 1000;
    let day = calendar.at(now_ms)?.day;
    let hours = calendar.from(now_ms.saturating_sub(LONGEST_MS));
    let mut of_day = hours.iter().filter(|hour| hour.day == day);
    let first = of_day.clone().next()?;
    let behind = hours.iter().find(|hour| hour.day > day).map(|hour| hour.start_unix_ms);
    let end = behind.or_else(|| of_day.next_back().map(|hour| hour.end_unix_ms))?;
    Some((first.start_unix_ms, end))
}

impl FlightPlan {
    pub(super) fn new(
        span: LimitSpan,
        nominal: CampaignFlight,
        target: SpendTarget,
        before: u64,
        base: ObservedTotals,
    ) -> Self {
        Self { span, nominal, target, before, base, shared: None }
    }

    pub(super) fn observed(&self, sums: &ObservedSums, funds: &Funds) -> ObservedTotals {
        let (totals, base) = (sums.totals(), self.base);
        ObservedTotals {
            requests: totals.requests.saturating_sub(base.requests),
            bids: totals.bids.saturating_sub(base.bids),
            wins: totals.wins.saturating_sub(base.wins),
            spent: funds.of(self.span).spent.get().saturating_sub(self.before),
        }
    }

    /// Budget from joining to the end.
    pub(super) fn budget(&mut self, funds: &Funds) -> Nanos {
        let purse = funds.of(self.span);
        let shared = purse.shared.map(Nanos::get);
        let is_steady = |was: u64, is: u64| was.abs_diff(is) <= was / STEADY;
        self.shared = match (self.shared, shared) {
            (Some(was), Some(is)) if is_steady(was, is) => Some(was),
            (_, shared) => shared,
        };
        let own = purse.own.map_or(u64::MAX, Nanos::get);
        Nanos::new(own.min(self.shared.unwrap_or(u64::MAX)).saturating_sub(self.before))
    }

    pub(super) fn planned(&self, state: &StrategyState, at_ms: u64) -> Nanos {
        Nanos::new(self.before.saturating_add(whole(state.planned(&self.target, at_ms))))
    }

    pub(super) const fn spent(&self, observed: ObservedTotals) -> Nanos {
        Nanos::new(self.before.saturating_add(observed.spent))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float casts to the nearest integer in range; it is to be looked at, never booked"
)]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}
