//! One campaign: the flight that its strategy follows, and its progress.

mod resume;

use std::sync::Arc;

use super::curve::Series;
use super::funds::Funds;
use super::look::PacingContext;
use super::plan::{self, CurveShape, FlightChoice, FlightPlan, LimitFlight, ReportedFlight};
use super::snapshot::terms as terms_digest;
use super::sums::ObservedSums;
use super::terms::{PacingPolicy, TrafficForecast};
use crate::ledger::{AccountId, CampaignTerms, Daypart};
use crate::strategy::{BidPace, CampaignFlight, Learner, SlotEnd, StrategyState, Week, step};

/// A campaign's pacing state: about a kilobyte, plus a curve's points.
pub(super) struct CampaignPacing {
    pub(super) version: u64,
    pub(super) account: AccountId,
    pub(super) flight: CampaignFlight,
    pub(super) daypart: Daypart,
    pub(super) pacing: Option<Arc<PacingPolicy>>,
    pub(super) week: Week,
    pub(super) learner: Option<Box<Learner>>,
    pub(super) terms: u64,
    pub(super) sums: ObservedSums,
    pub(super) state: Option<StrategyState>,
    pub(super) plan: Option<FlightPlan>,
    /// When to choose a plan anew, and the account's version of the present choice.
    pub(super) choose_ms: u64,
    pub(super) chosen_for: u64,
    pub(super) series: Series,
    /// While it follows an hour: the longer flight of its curve.
    pub(super) reported: Option<Box<ReportedFlight>>,
    /// Whether it resumed from a snapshot, which does not contain that longer flight.
    pub(super) lacks_reported: bool,
    pub(super) pace: Option<BidPace>,
    pub(super) due_ms: u64,
}

impl CampaignPacing {
    pub(super) fn new(definition: &CampaignTerms, flight: CampaignFlight, week: Week) -> Self {
        Self {
            version: 0,
            account: definition.account,
            flight,
            daypart: definition.budget.daypart,
            pacing: None,
            week,
            learner: None,
            terms: 0,
            sums: ObservedSums::default(),
            state: None,
            plan: None,
            choose_ms: 0,
            chosen_for: 0,
            series: Series::default(),
            reported: None,
            lacks_reported: false,
            pace: None,
            due_ms: u64::MAX,
        }
    }

    /// Applies a new definition. If the curve is the same, its strategy continues along it.
    pub(super) fn redefine(
        &mut self,
        flight: CampaignFlight,
        daypart: Daypart,
        pacing: Option<&Arc<PacingPolicy>>,
        week: Week,
    ) {
        let shape = |pacing: &PacingPolicy| (pacing.ahead.to_bits(), pacing.forecast.clone());
        let was = self.pacing.as_deref().map(shape);
        if (self.flight, self.daypart, was) != (flight, daypart, pacing.map(|it| shape(it))) {
            self.plan = None;
        }
        (self.flight, self.daypart, self.week) = (flight, daypart, week);
        self.terms = pacing.map_or(0, |pacing| terms_digest(flight, daypart, pacing));
        self.choose_ms = 0;
        match pacing {
            Some(pacing) => {
                let start = || StrategyState::start(&pacing.settings);
                self.state = Some(self.state.unwrap_or_else(start));
                let is_learned = pacing.forecast == TrafficForecast::Learned;
                self.learner = is_learned.then(|| self.learner.take().unwrap_or_default());
            }
            None => (self.plan, self.state, self.learner) = (None, None, None),
        }
        self.pacing = pacing.cloned();
    }

    /// Ends its slot. Returns the new pace and the end of the next slot.
    pub(super) fn look(
        &mut self,
        hour: &PacingContext<'_>,
        funds: &Funds,
    ) -> (Option<BidPace>, u64) {
        let now_ms = hour.now_ms;
        let (Some(pacing), Some(state)) = (self.pacing.clone(), self.state) else {
            // A campaign that loses its strategy bids at value.
            return (self.pace.map(|_| BidPace::FULL), u64::MAX);
        };
        let settings = &pacing.settings;
        if let Some(learner) = &mut self.learner {
            learner.learn(&hour.clocks.zone, now_ms, self.sums.totals().requests);
        }
        if now_ms < self.flight.start_ms {
            return (Some(state.pace(settings)), self.flight.start_ms);
        }
        if self.flight.end_ms <= now_ms {
            self.plan = None;
            return (self.pace, u64::MAX);
        }
        let is_stale = self.choose_ms <= now_ms || self.chosen_for != hour.payer.version;
        let is_new = is_stale && self.choose(&pacing, hour, funds);
        let state = self.state.unwrap_or(state);
        let Some(plan) = &mut self.plan else { return (Some(BidPace::FULL), self.choose_ms) };
        if is_new {
            let first_ms = plan.target.slot_end(now_ms, hour.phase_ms);
            return (Some(state.pace(settings)), first_ms.min(self.choose_ms));
        }
        let (observed, budget) = (plan.observed(&self.sums, funds), plan.budget(funds));
        let next_ms = plan.target.slot_end(now_ms, hour.slot_ms).min(self.choose_ms);
        let slot = SlotEnd { now_ms, next_ms, budget };
        let state = step(settings, &plan.target, state, observed, slot);
        self.state = Some(state);
        let (span, planned, spent) = match &self.reported {
            Some(reported) => {
                let purse = funds.of(reported.span);
                let limit = purse.limit().unwrap_or_default();
                (reported.span, reported.planned(limit, now_ms), purse.spent)
            }
            None => (plan.span, plan.planned(&state, now_ms), plan.spent(observed)),
        };
        self.series.limit_to(funds.of(span).limit());
        self.series.note(now_ms, planned, spent);
        (Some(state.pace(settings)), next_ms)
    }

    fn shape(&self, pacing: &PacingPolicy) -> CurveShape {
        let week = match &self.learner {
            Some(learner) => opened(&learner.week(), self.daypart),
            None => self.week.clone(),
        };
        CurveShape { flight: self.flight, week, ahead: pacing.ahead }
    }

    fn report_by(
        &mut self,
        shape: &CurveShape,
        reported: Option<LimitFlight>,
        hour: &PacingContext<'_>,
        funds: &Funds,
    ) {
        self.lacks_reported = false;
        self.reported = reported.and_then(|LimitFlight { span, flight }| {
            let target = shape.target(flight, hour).ok()?;
            Some(Box::new(ReportedFlight { span, flight, target }))
        });
        if let Some(reported) = &self.reported {
            self.series.begin(reported.flight);
            self.series.limit_to(funds.of(reported.span).limit());
        }
    }

    /// Chooses the flight to follow. Returns whether it changed.
    fn choose(&mut self, pacing: &PacingPolicy, hour: &PacingContext<'_>, funds: &Funds) -> bool {
        let shape = self.shape(pacing);
        let FlightChoice { followed, reported, until_ms } = plan::choose(&shape, hour, funds);
        self.report_by(&shape, reported, hour, funds);
        (self.choose_ms, self.chosen_for) = (until_ms, hour.payer.version);
        let Some(LimitFlight { span, flight: nominal }) = followed else {
            self.plan = None;
            return false;
        };
        // Learned traffic changes the curve once a day.
        let is_kept = self.learner.is_none() || hour.now_ms < nominal.start_ms + hour.slot_ms;
        let is_same = |plan: &FlightPlan| (plan.span, plan.nominal) == (span, nominal) && is_kept;
        if self.plan.as_ref().is_some_and(is_same) {
            return false;
        }
        // A slightly late start gets the whole flight.
        let is_begun = nominal.start_ms + 2 * hour.slot_ms <= hour.now_ms;
        let from = if is_begun { hour.now_ms } else { nominal.start_ms };
        let rest = CampaignFlight { start_ms: from, ..nominal };
        let Ok(target) = shape.target(rest, hour) else {
            self.plan = None;
            return false;
        };
        let spent = funds.of(span).spent.get();
        let before = if is_begun { spent } else { 0 };
        self.plan = Some(FlightPlan::new(span, nominal, target, before, self.sums.totals()));
        self.state = self.state.map(|state| state.next_flight(&pacing.settings));
        if self.reported.is_none() {
            self.series.begin(nominal);
            self.series.limit_to(funds.of(span).limit());
        }
        true
    }
}

pub(super) fn opened(week: &Week, daypart: Daypart) -> Week {
    week.opened(|hour| u8::try_from(hour).is_ok_and(|hour| daypart.contains(hour)))
}
