//! Asks every campaign's strategy how it goes on, whenever its slot of time is over.
//!
//! Owns which flight a strategy follows, what was observed in it, and when it is asked next. Knows
//! no clock, no thread and no ring: [`Pacer::turn`] is told the time, looks money up in [`Books`],
//! and says which campaigns bid otherwise from now on.
//!
//! **Which flight.** The tightest: that of the campaign's life, unless the limit of the day is used
//! up sooner, and that of the day, unless the limit of the hour is. It is chosen when the shortest
//! span that has a limit ends, and when a definition changes. A flight that is joined midway, at
//! a start that knows nothing of it or after a change, is followed from there on with what is left: nothing is made good that an
//! earlier plan would have spent. What was learned about prices is kept.
//!
//! **What outlives the process.** What decides a pace is given out as [`Kept`], and taken back by the
//! pacer of the next start, which goes on as if there had been no end.
//!
//! A turn looks at campaigns whose slot is over, at most so many; slots of campaigns end spread out.

mod books;
mod curve;
mod kept;
mod plan;
mod sums;
mod weeks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use units::Nanos;

use crate::calendar::Calendar;
use crate::ledger::{AccountId, CampaignDefinition, Daypart, Span, ZoneId};
use crate::messages::{Report, Seen, Slot, index};
use crate::strategy::{
    Flight, Learner, OutOfRange, Pace, Settings, SlotEnd, State, Target, TargetError, Week, Zone,
    step,
};
use curve::{CurveSource, Series};
use plan::{Choice, Plan, ReportedFlight, Shape};
use sums::Sums;
use weeks::Weeks;

pub use crate::encoding::DecodeError;
pub use books::{Books, Funds, Purse};
pub use curve::{CURVE_POINTS, Curve, CurvePoint};
pub use kept::{KEPT_BYTES_MAX, Kept};

/// How a campaign's budget is to be spent.
#[derive(Clone, Debug, PartialEq)]
pub struct Pacing {
    /// By which strategy, with which gains.
    pub settings: Settings,
    /// How far ahead of the traffic: 0 to 1. See [`Target::front_loaded`].
    pub ahead: f64,
    /// What traffic is expected.
    pub forecast: Expected,
    /// Whether its price is not to be changed: then a strategy may only pass requests by.
    pub is_fixed_price: bool,
}

/// What traffic is expected in an open hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// The same in every one.
    #[default]
    Uniform,
    /// What was seen in the same hour of other weeks and days.
    Learned,
    /// By weights of the week's hours on the account's clocks.
    Weekly(Week),
}

/// How a campaign bids now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bidding {
    /// By which strategy.
    pub strategy: &'static str,
    /// Whether it bids its price, and not a part of its value.
    pub is_fixed_price: bool,
    /// Until its slot ends.
    pub pace: Pace,
}

/// Why a campaign cannot be paced so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PacingError {
    /// A gain is out of its range.
    #[error("{0}")]
    Gain(OutOfRange),
    /// How far it is ahead is no number from 0 to 1.
    #[error("ahead = {0}: choose 0 to 1")]
    Ahead(f64),
    /// It would change a price that is fixed.
    #[error("{0} changes prices, and the price is fixed: choose asap, even or throttle")]
    FixedPrice(&'static str),
    /// No hour of the week is open.
    #[error("no hour of the week is open, or none has weight: open one")]
    NeverOpen,
}

impl Pacing {
    /// Everything that is wrong with it.
    pub fn problems(&self) -> Vec<PacingError> {
        let mut problems: Vec<_> =
            self.settings.problems().into_iter().map(PacingError::Gain).collect();
        if !(0.0..=1.0).contains(&self.ahead) {
            problems.push(PacingError::Ahead(self.ahead));
        }
        if self.is_fixed_price && self.settings.changes_prices() {
            problems.push(PacingError::FixedPrice(self.settings.name()));
        }
        problems
    }
}

/// How a pacer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerOptions {
    /// Shards are numbered from 0.
    pub shards: u16,
    /// The usual length of a slot.
    pub slot_ms: u64,
}

impl PacerOptions {
    /// Slots of ten seconds.
    pub const fn new(shards: u16) -> Self {
        Self { shards, slot_ms: 10_000 }
    }
}

/// The clocks of a zone, in both ways in which they are asked.
struct Clocks {
    /// Of its name: the same in every process, which its number is not.
    digest: u64,
    calendar: Calendar,
    zone: Zone,
}

/// An account as far as its campaigns' plans depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Payer {
    zone: ZoneId,
    /// Changes with its limits: then plans are made anew.
    version: u64,
}

/// What is kept of a campaign: about a kilobyte, and a curve's points.
struct Paced {
    version: u64,
    account: AccountId,
    flight: Flight,
    daypart: Daypart,
    /// None where it has no strategy.
    pacing: Option<Arc<Pacing>>,
    week: Week,
    learner: Option<Box<Learner>>,
    /// Of what its state is made by.
    terms: u64,
    sums: Sums,
    state: Option<State>,
    plan: Option<Plan>,
    /// When a plan is to be made anew, and for which version of its account it was made.
    choose_ms: u64,
    chosen_for: u64,
    series: Series,
    /// Where it follows an hour, the longer flight that its curve is drawn by.
    reported: Option<Box<ReportedFlight>>,
    /// Whether it goes on from what was kept, which does not say what that longer flight is.
    lacks_reported: bool,
    told: Option<Pace>,
    /// When it is looked at next; `MAX` is never.
    due_ms: u64,
}

/// How every campaign is paced.
pub struct Pacer {
    options: PacerOptions,
    now_ms: u64,
    zones: BTreeMap<ZoneId, Clocks>,
    payers: BTreeMap<AccountId, Payer>,
    campaigns: Vec<Option<Box<Paced>>>,
    /// By when the slot of each is over. What is not a campaign's `due_ms` any more is passed over.
    due: BinaryHeap<Reverse<(u64, Slot)>>,
    /// What the process before kept of campaigns that have not been looked at since.
    restored: BTreeMap<Slot, Kept>,
    uniform: Week,
    weeks: Weeks,
    campaigns_known: u64,
    looked: u64,
}

impl Pacer {
    /// Without campaigns.
    pub fn new(options: PacerOptions) -> Self {
        Self {
            options,
            now_ms: 0,
            zones: BTreeMap::new(),
            payers: BTreeMap::new(),
            campaigns: Vec::new(),
            due: BinaryHeap::new(),
            restored: BTreeMap::new(),
            uniform: Week::uniform(),
            weeks: Weeks::default(),
            campaigns_known: 0,
            looked: 0,
        }
    }

    /// The clocks of a zone of that name, as a table of hours and as changes of their offset.
    pub fn take_zone(&mut self, id: ZoneId, name: &str, calendar: Calendar, zone: Zone) {
        self.zones.insert(id, Clocks { digest: kept::digest(&name), calendar, zone });
    }

    /// An account, new or changed.
    pub fn take_account(&mut self, id: AccountId, zone: ZoneId, version: u64) {
        let payer = self.payers.entry(id).or_insert(Payer { zone, version });
        payer.version = payer.version.max(version);
    }

    /// A campaign, new or changed, whose strategy takes over from the one before; `None` is without.
    /// A definition that is no newer than the one before changes nothing.
    ///
    /// # Errors
    /// The first thing that is wrong with it; nothing is changed then.
    pub fn define(
        &mut self,
        definition: &CampaignDefinition,
        pacing: Option<&Arc<Pacing>>,
        now_ms: u64,
    ) -> Result<(), PacingError> {
        let week = self.week_of(definition.budget.daypart, pacing.map(|pacing| &**pacing))?;
        let (slot, at) = (definition.slot, index(definition.slot.0));
        let flight = Flight {
            start_ms: definition.budget.start_unix_ms,
            end_ms: definition.budget.end_unix_ms,
        };
        if self.campaigns.len() <= at {
            self.campaigns.resize_with(at + 1, || None);
        }
        self.campaigns_known += u64::from(self.campaigns[at].is_none());
        let new = || Paced::new(definition, flight, week.clone()).into();
        let known = self.campaigns[at].get_or_insert_with(new);
        if definition.version <= known.version {
            return Ok(());
        }
        known.version = definition.version;
        known.account = definition.account;
        known.redefine(flight, definition.budget.daypart, pacing, week);
        let now_ms = self.now_ms.max(now_ms);
        self.schedule(slot, now_ms);
        Ok(())
    }

    fn week_of(&mut self, daypart: Daypart, pacing: Option<&Pacing>) -> Result<Week, PacingError> {
        let Some(pacing) = pacing else { return Ok(self.uniform.clone()) };
        if let Some(problem) = pacing.problems().first() {
            return Err(*problem);
        }
        let week = match &pacing.forecast {
            Expected::Weekly(week) => self.weeks.share(opened(week, daypart)),
            Expected::Uniform | Expected::Learned if daypart == Daypart::ALWAYS => {
                self.uniform.clone()
            }
            Expected::Uniform | Expected::Learned => {
                self.weeks.share(opened(&self.uniform, daypart))
            }
        };
        let is_open = (0..crate::strategy::HOURS).any(|hour| week.weight(hour) > 0);
        is_open.then_some(week).ok_or(PacingError::NeverOpen)
    }

    /// What became of a shard's grants.
    pub fn report(&mut self, shard: u16, report: &Report) {
        let shards = self.options.shards;
        if let Some(paced) = self.paced(report.slot).filter(|_| shard < shards) {
            paced.sums.report(shard, report, shards);
        }
    }

    /// How many requests a campaign came to at a shard.
    pub fn seen(&mut self, shard: u16, slot: Slot, seen: Seen) {
        let shards = self.options.shards;
        if let Some(paced) = self.paced(slot).filter(|_| shard < shards) {
            paced.sums.see(shard, seen, shards);
        }
    }

    /// Ends the slots that are over at `now_ms`, at most so many; says who bids otherwise now.
    pub fn turn(
        &mut self,
        now_ms: u64,
        books: &impl Books,
        most: usize,
        told: &mut Vec<(Slot, Pace)>,
    ) {
        self.now_ms = self.now_ms.max(now_ms);
        for _ in 0..most {
            let Some(&Reverse((at, slot))) = self.due.peek() else { break };
            if self.now_ms < at {
                break;
            }
            self.due.pop();
            if self.paced(slot).is_some_and(|paced| paced.due_ms == at) {
                self.look(slot, books, told);
            }
        }
    }

    /// The latest pace of a campaign that has a strategy.
    pub fn pace(&self, slot: Slot) -> Option<Pace> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        paced.pacing.as_ref().and(paced.told)
    }

    /// How a campaign that has a strategy bids; `None` before its first slot, too.
    pub fn bidding(&self, slot: Slot) -> Option<Bidding> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let pacing = paced.pacing.as_ref()?;
        let (strategy, is_fixed_price) = (pacing.settings.name(), pacing.is_fixed_price);
        Some(Bidding { strategy, is_fixed_price, pace: paced.told? })
    }

    /// What should have been spent and what was, by the time of the flight that is followed.
    pub fn curve(&self, slot: Slot, now_ms: u64) -> Option<Curve> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let (pacing, state, plan) =
            (paced.pacing.as_ref()?, paced.state.as_ref()?, paced.plan.as_ref()?);
        let drawn = CurveSource { plan, reported: paced.reported.as_deref() };
        Some(paced.series.curve(pacing, state, &drawn, self.now_ms.max(now_ms)))
    }

    /// Whose limit a campaign follows; `None` without a strategy or a limit.
    #[cfg(test)]
    fn followed(&self, slot: Slot) -> Option<Span> {
        Some(self.campaigns.get(index(slot.0))?.as_deref()?.plan.as_ref()?.span)
    }

    /// The limit that a campaign's progress is measured against, as in [`Self::curve`], and how much of it
    /// should be spent by now. `None` without a strategy or a limit.
    pub fn planned(&self, slot: Slot, now_ms: u64) -> Option<(Span, Nanos)> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let (state, plan) = (paced.state.as_ref()?, paced.plan.as_ref()?);
        let now_ms = self.now_ms.max(now_ms);
        Some(match &paced.reported {
            Some(reported) => (reported.span, reported.planned(paced.series.limit(), now_ms)),
            None => (plan.span, plan.planned(state, now_ms)),
        })
    }

    /// How many accounts and campaigns it was told.
    pub fn counts(&self) -> (u64, u64) {
        (self.payers.len() as u64, self.campaigns_known)
    }

    /// How many times a campaign has been looked at.
    pub const fn looked(&self) -> u64 {
        self.looked
    }

    fn look(&mut self, slot: Slot, books: &impl Books, told: &mut Vec<(Slot, Pace)>) {
        self.looked += 1;
        let (now_ms, slot_ms) = (self.now_ms, self.options.slot_ms);
        let phase_ms = phase(slot, slot_ms);
        let Some(paced) = self.campaigns[index(slot.0)].as_deref_mut() else { return };
        let payer = self.payers.get(&paced.account).copied();
        let clocks = payer.and_then(|payer| self.zones.get(&payer.zone));
        let (Some(payer), Some(clocks)) = (payer, clocks) else {
            return self.schedule(slot, now_ms + slot_ms);
        };
        let hour = Hour { now_ms, slot_ms, phase_ms, payer, clocks };
        let kept = self.restored.remove(&slot);
        let resumed = kept.and_then(|kept| paced.resume(kept, &hour));
        let funds = books.funds(slot);
        if let Some(funds) = &funds {
            paced.complete_resumed(&hour, funds);
        }
        let (pace, next_ms) = match (resumed, funds) {
            (Some((pace, due_ms)), _) => (Some(pace), due_ms),
            (None, Some(funds)) => paced.look(&hour, &funds),
            (None, None) => (paced.told, now_ms + slot_ms),
        };
        if pace != paced.told {
            paced.told = pace;
            told.push((slot, pace.unwrap_or(Pace::FULL)));
        }
        self.schedule(slot, next_ms);
    }

    fn schedule(&mut self, slot: Slot, at_ms: u64) {
        let Some(paced) = self.paced(slot) else { return };
        paced.due_ms = at_ms;
        if at_ms < u64::MAX {
            self.due.push(Reverse((at_ms, slot)));
        }
    }

    fn paced(&mut self, slot: Slot) -> Option<&mut Paced> {
        self.campaigns.get_mut(index(slot.0))?.as_deref_mut()
    }
}

/// What a look at a campaign knows besides it.
struct Hour<'a> {
    now_ms: u64,
    slot_ms: u64,
    /// How far into a slot its own begin.
    phase_ms: u64,
    payer: Payer,
    clocks: &'a Clocks,
}

impl Paced {
    fn new(definition: &CampaignDefinition, flight: Flight, week: Week) -> Self {
        Self {
            version: 0,
            account: definition.account,
            flight,
            daypart: definition.budget.daypart,
            pacing: None,
            week,
            learner: None,
            terms: 0,
            sums: Sums::default(),
            state: None,
            plan: None,
            choose_ms: 0,
            chosen_for: 0,
            series: Series::default(),
            reported: None,
            lacks_reported: false,
            told: None,
            due_ms: u64::MAX,
        }
    }

    /// Another definition: unless the curve is another one, its strategy goes on along it.
    fn redefine(
        &mut self,
        flight: Flight,
        daypart: Daypart,
        pacing: Option<&Arc<Pacing>>,
        week: Week,
    ) {
        let shape = |pacing: &Pacing| (pacing.ahead.to_bits(), pacing.forecast.clone());
        let was = self.pacing.as_deref().map(shape);
        if (self.flight, self.daypart, was) != (flight, daypart, pacing.map(|it| shape(it))) {
            self.plan = None;
        }
        (self.flight, self.daypart, self.week) = (flight, daypart, week);
        self.terms = pacing.map_or(0, |pacing| kept::terms(flight, daypart, pacing));
        self.choose_ms = 0;
        match pacing {
            Some(pacing) => {
                let start = || State::start(&pacing.settings);
                self.state = Some(self.state.unwrap_or_else(start));
                let is_learned = pacing.forecast == Expected::Learned;
                self.learner = is_learned.then(|| self.learner.take().unwrap_or_default());
            }
            None => (self.plan, self.state, self.learner) = (None, None, None),
        }
        self.pacing = pacing.cloned();
    }

    /// Ends its slot: how it bids from now on, and until when.
    fn look(&mut self, hour: &Hour<'_>, funds: &Funds) -> (Option<Pace>, u64) {
        let now_ms = hour.now_ms;
        let (Some(pacing), Some(state)) = (self.pacing.clone(), self.state) else {
            // Whoever had a strategy and has none any more bids at value.
            return (self.told.map(|_| Pace::FULL), u64::MAX);
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
            return (self.told, u64::MAX);
        }
        let is_stale = self.choose_ms <= now_ms || self.chosen_for != hour.payer.version;
        let is_new = is_stale && self.choose(&pacing, hour, funds);
        let state = self.state.unwrap_or(state);
        let Some(plan) = &mut self.plan else { return (Some(Pace::FULL), self.choose_ms) };
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

    fn shape(&self, pacing: &Pacing) -> Shape {
        let week = match &self.learner {
            Some(learner) => opened(&learner.week(), self.daypart),
            None => self.week.clone(),
        };
        Shape { flight: self.flight, week, ahead: pacing.ahead }
    }

    /// Takes a longer flight than the hour's as that which its curve is drawn by, or none.
    fn report_by(
        &mut self,
        (shape, reported): (&Shape, Option<(Span, Flight)>),
        hour: &Hour<'_>,
        funds: &Funds,
    ) {
        self.lacks_reported = false;
        self.reported = reported.and_then(|(span, flight)| {
            let target = shape.target(flight, hour).ok()?;
            Some(Box::new(ReportedFlight::new((span, flight), target)))
        });
        if let Some(reported) = &self.reported {
            self.series.begin(reported.flight);
            self.series.limit_to(funds.of(reported.span).limit());
        }
    }

    /// Chooses the flight to follow; whether that is another one.
    fn choose(&mut self, pacing: &Pacing, hour: &Hour<'_>, funds: &Funds) -> bool {
        let shape = self.shape(pacing);
        let Choice { followed, reported, until_ms } = plan::choose(&shape, hour, funds);
        self.report_by((&shape, reported), hour, funds);
        (self.choose_ms, self.chosen_for) = (until_ms, hour.payer.version);
        let Some((span, nominal)) = followed else {
            self.plan = None;
            return false;
        };
        // What was learned makes another curve, once a day.
        let is_kept = self.learner.is_none() || hour.now_ms < nominal.start_ms + hour.slot_ms;
        let is_same = |plan: &Plan| (plan.span, plan.nominal) == (span, nominal) && is_kept;
        if self.plan.as_ref().is_some_and(is_same) {
            return false;
        }
        // Whoever comes a little late has the whole flight.
        let is_begun = nominal.start_ms + 2 * hour.slot_ms <= hour.now_ms;
        let from = if is_begun { hour.now_ms } else { nominal.start_ms };
        let rest = Flight { start_ms: from, ..nominal };
        let Ok(target) = shape.target(rest, hour) else {
            self.plan = None;
            return false;
        };
        let spent = funds.of(span).spent.get();
        let before = if is_begun { spent } else { 0 };
        self.plan = Some(Plan::new((span, nominal), target, before, self.sums.totals()));
        self.state = self.state.map(|state| state.next_flight(&pacing.settings));
        if self.reported.is_none() {
            self.series.begin(nominal);
            self.series.limit_to(funds.of(span).limit());
        }
        true
    }
}

impl Shape {
    /// The curve of a flight.
    fn target(&self, flight: Flight, hour: &Hour<'_>) -> Result<Target, TargetError> {
        let (week, zone) = (self.week.clone(), hour.clocks.zone.clone());
        let forecast = crate::strategy::Forecast::Weekly { week, zone };
        Target::new(flight, forecast)?.front_loaded(self.ahead)
    }
}

fn opened(week: &Week, daypart: Daypart) -> Week {
    week.opened(|hour| u8::try_from(hour).is_ok_and(|hour| daypart.contains(hour)))
}

/// Where in a slot those of a campaign end: 1 to the length of a slot.
fn phase(slot: Slot, slot_ms: u64) -> u64 {
    // Multiplied by the golden ratio, numbers in a row are spread evenly (Knuth, volume 3, 6.4).
    let spread = u64::from(slot.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    1 + spread % slot_ms.max(1)
}

#[cfg(test)]
mod tests;
