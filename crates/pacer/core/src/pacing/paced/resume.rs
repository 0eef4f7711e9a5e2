//! How a campaign resumes from its snapshot.

use super::CampaignPacing;
use crate::ledger::LimitSpan;
use crate::pacing::funds::Funds;
use crate::pacing::look::PacingContext;
use crate::pacing::plan::{self, CurveShape, FlightPlan};
use crate::pacing::snapshot::{PacingSnapshot, PlanSnapshot};
use crate::strategy::{BidPace, CampaignFlight, StrategyState, Week};

impl CampaignPacing {
    /// Resumes from a snapshot, as far as it applies. Returns the pace and the end of the slot if
    /// that slot still runs. None if the campaign needs a look now.
    pub(in crate::pacing) fn resume(
        &mut self,
        snapshot: PacingSnapshot,
        hour: &PacingContext<'_>,
    ) -> Option<(BidPace, u64)> {
        let pacing = self.pacing.as_ref().filter(|_| snapshot.zone == hour.clocks.digest)?;
        let pace = snapshot.state.pace(&pacing.settings);
        if self.learner.is_some() {
            self.learner = snapshot.learner.or_else(|| self.learner.take());
        }
        // A state from the future would not be stepped until then.
        if snapshot.terms != self.terms || hour.now_ms < snapshot.state.at_ms() {
            self.pause_learning();
            return None;
        }
        self.state = Some(snapshot.state);
        self.sums.carry(snapshot.totals);
        self.follow(snapshot.plan, pacing.ahead, hour);
        let is_same = snapshot.version == self.version;
        if !is_same {
            self.choose_ms = 0;
        }
        if !(hour.now_ms..=hour.now_ms.saturating_add(hour.slot_ms)).contains(&snapshot.due_ms) {
            self.pause_learning();
            self.state = Some(self.skipped(snapshot.state));
            return None;
        }
        let has_time = is_same && self.plan.is_some() && hour.now_ms < snapshot.due_ms;
        has_time.then_some((pace, snapshot.due_ms))
    }

    /// The interrupted slot's counts do not show what was missed since.
    fn skipped(&self, state: StrategyState) -> StrategyState {
        let Some(plan) = &self.plan else { return state };
        state.skipped(plan.observed(&self.sums, &Funds::default()))
    }

    fn pause_learning(&mut self) {
        if let Some(learner) = &mut self.learner {
            learner.pause();
        }
    }

    fn follow(&mut self, snapshot: Option<PlanSnapshot>, ahead: f64, hour: &PacingContext<'_>) {
        let Some(snapshot) = snapshot else { return };
        let learned = snapshot.week.map(|weights| Week::weighted(&weights));
        let week = learned.unwrap_or_else(|| self.week.clone());
        let rest = CampaignFlight { start_ms: snapshot.from_ms, ..snapshot.nominal };
        let shape = CurveShape { flight: self.flight, week, ahead };
        // A flight without an open hour cannot be followed: choose anew.
        let Ok(target) = shape.target(rest, hour) else { return };
        let plan = FlightPlan::new(
            snapshot.span,
            snapshot.nominal,
            target,
            snapshot.before,
            snapshot.base,
        );
        self.plan = Some(FlightPlan { shared: snapshot.shared, ..plan });
        (self.choose_ms, self.chosen_for) = (snapshot.choose_ms, snapshot.chosen_for);
        self.lacks_reported = snapshot.span == LimitSpan::Hour;
        self.series.begin(snapshot.nominal);
    }

    /// Restores the longer flight of a campaign that resumed within an hour's.
    pub(in crate::pacing) fn complete_resumed(&mut self, hour: &PacingContext<'_>, funds: &Funds) {
        let Some(pacing) = self.pacing.clone().filter(|_| self.lacks_reported) else { return };
        let shape = self.shape(&pacing);
        let reported = plan::choose(&shape, hour, funds).reported;
        self.report_by(&shape, reported, hour, funds);
    }

    pub(in crate::pacing) fn plan_snapshot(&self) -> Option<PlanSnapshot> {
        let plan = self.plan.as_ref()?;
        // Without a learner its week is the definition's.
        let learned = self.learner.as_ref().and_then(|_| plan.target.week());
        Some(PlanSnapshot {
            span: plan.span,
            nominal: plan.nominal,
            from_ms: plan.target.flight().start_ms,
            before: plan.before,
            base: plan.base,
            shared: plan.shared,
            choose_ms: self.choose_ms,
            chosen_for: self.chosen_for,
            week: learned.map(|week| Box::new(week.weights())),
        })
    }
}
