//! What decides a campaign's pace, as it outlives the process: given out, written to the bit, read back
//! with every check, and gone on from.
//!
//! Owns the form, and to what a campaign must have come back for it to hold: the same terms, by a digest
//! of flight, hours and strategy. Budgets and pauses are no part of them: as while a process runs, a
//! strategy goes on with what they are by then, and chooses its flight anew. By other terms a campaign
//! begins anew; what was learned of its traffic holds as long as its account's clocks are the same.
//!
//! **What was missed.** Within the slot that was going on, nothing was. Behind its end a step without
//! requests spans all slots since, as after a pause: a strategy learns nothing from it, and what was not
//! spent is made good as any other deviation. Traffic that nobody counted teaches nothing either.
//!
//! Integers are little-endian, in this order: version (1), campaign (4), digests of zone and terms and the
//! definition's version (8 each), state (129), what was seen (32), end of the slot (8); whether there is a
//! plan (1), and then its span (1), begin, from where it was joined, end (8 each), what had been spent (8)
//! and seen (32) by then, the limit that others leave (9), until when it holds (8) and for which version of
//! the account (8); whether there is a learned week (1), and then the learner (4,049) and, with a plan, the
//! weights that it follows (672). Version 1, which is read and not written, has a state of 121 bytes; its
//! digests of terms hold other gains of the default, so campaigns that have those begin anew.

use std::hash::{Hash, Hasher as _};

use siphasher::sip::SipHasher13;

use super::plan::{self, Plan};
use super::{Daypart, DecodeError, Funds, Hour, Paced, Pacer, Pacing, Shape, index};
use crate::encoding::{Decoder, Encoder, ranged};
use crate::ledger::Span;
use crate::messages::Slot;
use crate::strategy::{Flight, HOURS, Learner, Observed, Pace, State, TIME_MAX_MS, Week};

/// The form. One that is neither this nor the first is not read: campaigns begin anew.
const VERSION: u8 = 2;

/// The form before, whose states have fewer figures.
const FIRST_VERSION: u8 = 1;

/// The most bytes of one campaign. Without a learned week it has 290.
pub const KEPT_BYTES_MAX: usize = PLAIN_BYTES_MAX + 17 + HOURS * (3 * 8 + 4);

/// With a plan, and without a learned week.
const PLAIN_BYTES_MAX: usize = 1 + 4 + 24 + 129 + 32 + 8 + 1 + 90 + 1;

const _: () = assert!(PLAIN_BYTES_MAX < 300, "a hundred thousand campaigns are 30 MB");

/// What decides a campaign's pace.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    slot: Slot,
    /// Whose clocks count.
    zone: u64,
    terms: u64,
    /// Of its definition.
    version: u64,
    state: State,
    /// Since it was paced first.
    totals: Observed,
    /// When it is to be looked at next; `MAX` is never.
    due_ms: u64,
    plan: Option<KeptPlan>,
    pub(super) learner: Option<Box<Learner>>,
}

/// The flight that it follows.
#[derive(Clone, Debug, PartialEq)]
struct KeptPlan {
    span: Span,
    nominal: Flight,
    /// From when on it was joined.
    from_ms: u64,
    before: u64,
    base: Observed,
    shared: Option<u64>,
    choose_ms: u64,
    chosen_for: u64,
    /// What was learned when it was joined.
    week: Option<Box<[u32; HOURS]>>,
}

/// Of anything, the same in every process.
pub(super) fn digest(of: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Of all by which a state is made. The text has every figure to the bit, and a gain that is added some
/// day.
pub(super) fn terms(flight: Flight, daypart: Daypart, pacing: &Pacing) -> u64 {
    digest(&format!("{flight:?} {daypart:?} {pacing:?}"))
}

impl Kept {
    /// Whose it is.
    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// Appends its bytes, at most [`KEPT_BYTES_MAX`].
    pub fn encode(&self, into: &mut Vec<u8>) {
        let into = &mut Encoder(into);
        into.u8(VERSION);
        into.u32(self.slot.0);
        into.u64(self.zone);
        into.u64(self.terms);
        into.u64(self.version);
        self.state.encode(into);
        self.totals.encode(into);
        into.u64(self.due_ms);
        into.flag(self.plan.is_some());
        if let Some(plan) = &self.plan {
            plan.encode(into);
        }
        into.flag(self.learner.is_some());
        if let Some(learner) = &self.learner {
            learner.encode(into);
        }
        let week = self.plan.as_ref().and_then(|plan| plan.week.as_deref());
        week.into_iter().flatten().for_each(|weight| into.u32(*weight));
    }

    /// The one encoding of what it says, or the first form of it, or why it is neither.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder(bytes);
        let found = from.u8()?;
        let state = match found {
            VERSION => State::decode,
            FIRST_VERSION => State::decode_first,
            _ => return Err(DecodeError::Version { found, known: VERSION }),
        };
        let mut kept = Self {
            slot: Slot(from.u32()?),
            zone: from.u64()?,
            terms: from.u64()?,
            version: from.u64()?,
            state: state(&mut from)?,
            totals: Observed::decode(&mut from)?,
            due_ms: from.u64()?,
            plan: None,
            learner: None,
        };
        if from.flag("whether there is a plan")? {
            kept.plan = Some(KeptPlan::decode(&mut from)?);
        }
        if from.flag("whether there is a learned week")? {
            kept.learner = Some(Box::new(Learner::decode(&mut from)?));
            if let Some(plan) = &mut kept.plan {
                let mut weights = [0; HOURS];
                for weight in &mut weights {
                    *weight = from.u32()?;
                }
                plan.week = Some(Box::new(weights));
            }
        }
        from.end().map(|()| kept)
    }
}

impl KeptPlan {
    fn of(paced: &Paced, plan: &Plan) -> Self {
        // Without a learner its week is the definition's.
        let learned = paced.learner.as_ref().and_then(|_| plan.target.week());
        Self {
            span: plan.span,
            nominal: plan.nominal,
            from_ms: plan.target.flight().start_ms,
            before: plan.before,
            base: plan.base,
            shared: plan.shared,
            choose_ms: paced.choose_ms,
            chosen_for: paced.chosen_for,
            week: learned.map(|week| Box::new(week.weights())),
        }
    }

    fn encode(&self, into: &mut Encoder<'_>) {
        into.u8(self.span as u8);
        into.u64(self.nominal.start_ms);
        into.u64(self.from_ms);
        into.u64(self.nominal.end_ms);
        into.u64(self.before);
        self.base.encode(into);
        into.flag(self.shared.is_some());
        into.u64(self.shared.unwrap_or(0));
        into.u64(self.choose_ms);
        into.u64(self.chosen_for);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let span = from.u8()?;
        let known = [Span::Life, Span::Day, Span::Hour].into_iter();
        let known = known.clone().find(|known| *known as u8 == span);
        let span = known.ok_or(DecodeError::Range("the span"))?;
        let (start_ms, from_ms) = (from.u64()?, from.u64()?);
        let end_ms = from.u64_to("the end of the flight", TIME_MAX_MS)?;
        let is_within = start_ms <= from_ms && from_ms < end_ms;
        let nominal = ranged("the flight", Flight { start_ms, end_ms }, is_within)?;
        let (before, base) = (from.u64()?, Observed::decode(from)?);
        let has_shared = from.flag("whether others leave a limit")?;
        let shared = from.u64_to("the limit", if has_shared { u64::MAX } else { 0 })?;
        Ok(Self {
            span,
            nominal,
            from_ms,
            before,
            base,
            shared: has_shared.then_some(shared),
            choose_ms: from.u64_to("until when it holds", end_ms)?,
            chosen_for: from.u64()?,
            week: None,
        })
    }
}

impl Pacer {
    /// What the process before kept of a campaign: to be given before it is defined. It is gone on from
    /// when the campaign is looked at first.
    pub fn restore(&mut self, kept: Kept) {
        self.restored.insert(kept.slot, kept);
    }

    /// Forgets what was kept of campaigns that nobody has defined since.
    pub fn forget_undefined(&mut self) {
        let (mut restored, campaigns) = (std::mem::take(&mut self.restored), &self.campaigns);
        restored.retain(|slot, _| campaigns.get(index(slot.0)).is_some_and(Option::is_some));
        self.restored = restored;
    }

    /// What is to be kept of campaigns from one on, looking at so many at most; then where to go on,
    /// nowhere behind the last. Campaigns without a strategy keep nothing.
    pub fn keep(&self, from: Slot, most: u32, mut take: impl FnMut(&Kept)) -> Option<Slot> {
        let defined = u32::try_from(self.campaigns.len()).expect("slots are numbered by 32 bits");
        if from.0 < defined {
            let end = from.0.saturating_add(most).min(defined);
            for slot in (from.0..end).map(Slot) {
                match self.restored.get(&slot) {
                    Some(kept) => take(kept),
                    None => self.kept(slot).iter().for_each(&mut take),
                }
            }
            let has_more = end < defined || self.restored.range(Slot(end)..).next().is_some();
            return has_more.then_some(Slot(end));
        }
        // Nobody has defined these, so far.
        let mut undefined = self.restored.range(from..);
        undefined.by_ref().take(index(most)).for_each(|(_, kept)| take(kept));
        undefined.next().map(|(slot, _)| *slot)
    }

    fn kept(&self, slot: Slot) -> Option<Kept> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let zone = self.payers.get(&paced.account)?.zone;
        let (state, _) = (paced.state?, paced.pacing.as_ref()?);
        Some(Kept {
            slot,
            zone: self.zones.get(&zone)?.digest,
            terms: paced.terms,
            version: paced.version,
            state,
            totals: paced.sums.totals(),
            due_ms: paced.due_ms,
            plan: paced.plan.as_ref().map(|plan| KeptPlan::of(paced, plan)),
            learner: paced.learner.clone(),
        })
    }
}

impl Paced {
    /// Goes on from what was kept, as far as that holds. Within the slot that was going on: how it bids,
    /// and when that ends; else it is to be looked at now.
    pub(super) fn resume(&mut self, kept: Kept, hour: &Hour<'_>) -> Option<(Pace, u64)> {
        let pacing = self.pacing.as_ref().filter(|_| kept.zone == hour.clocks.digest)?;
        let pace = kept.state.pace(&pacing.settings);
        if self.learner.is_some() {
            self.learner = kept.learner.or_else(|| self.learner.take());
        }
        // A state of a time to come would not be stepped until then.
        if kept.terms != self.terms || hour.now_ms < kept.state.at_ms() {
            self.pause_learning();
            return None;
        }
        self.state = Some(kept.state);
        self.sums.carry(kept.totals);
        self.follow(kept.plan, pacing.ahead, hour);
        let is_same = kept.version == self.version;
        if !is_same {
            self.choose_ms = 0;
        }
        if !(hour.now_ms..=hour.now_ms.saturating_add(hour.slot_ms)).contains(&kept.due_ms) {
            self.pause_learning();
            self.state = Some(self.skipped(kept.state));
            return None;
        }
        let has_time = is_same && self.plan.is_some() && hour.now_ms < kept.due_ms;
        has_time.then_some((pace, kept.due_ms))
    }

    /// What came of the slot in which the process ended says nothing of all that was missed since.
    fn skipped(&self, state: State) -> State {
        let Some(plan) = &self.plan else { return state };
        state.skipped(plan.observed(&self.sums, &Funds::default()))
    }

    fn pause_learning(&mut self) {
        if let Some(learner) = &mut self.learner {
            learner.pause();
        }
    }

    fn follow(&mut self, kept: Option<KeptPlan>, ahead: f64, hour: &Hour<'_>) {
        let Some(kept) = kept else { return };
        let learned = kept.week.map(|weights| Week::weighted(&weights));
        let week = learned.unwrap_or_else(|| self.week.clone());
        let rest = Flight { start_ms: kept.from_ms, ..kept.nominal };
        let shape = Shape { flight: self.flight, week, ahead };
        // A flight without an open hour is nothing that was followed: it is chosen anew.
        let Ok(target) = shape.target(rest, hour) else { return };
        let plan = Plan::new((kept.span, kept.nominal), target, kept.before, kept.base);
        self.plan = Some(Plan { shared: kept.shared, ..plan });
        (self.choose_ms, self.chosen_for) = (kept.choose_ms, kept.chosen_for);
        self.lacks_reported = kept.span == Span::Hour;
        self.series.begin(kept.nominal);
    }

    /// Works out again by which longer flight a campaign is looked at that goes on within an hour's.
    pub(super) fn complete_resumed(&mut self, hour: &Hour<'_>, funds: &Funds) {
        let Some(pacing) = self.pacing.clone().filter(|_| self.lacks_reported) else { return };
        let shape = self.shape(&pacing);
        let reported = plan::choose(&shape, hour, funds).reported;
        self.report_by((&shape, reported), hour, funds);
    }
}

#[cfg(test)]
pub(super) mod tests;
