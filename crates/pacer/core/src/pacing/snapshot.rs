//! The snapshot of a campaign's pacing that outlives the process: encoded to the bit, decoded with
//! every check, and resumed.
//!
//! Owns the format and the conditions of a resume: the same terms, by a digest of flight, hours and
//! strategy. Budgets and pauses are not terms: a resumed strategy takes their present values and
//! chooses its flight anew. With other terms a campaign starts anew, but what it learned of traffic
//! holds while its account's clocks are the same.
//!
//! **Downtime.** A restart within the current slot loses nothing. After its end, one step without
//! requests spans all slots since, as after a pause: the strategy learns nothing from it, and
//! corrects the missing spend like any deviation. Nothing is learned of uncounted traffic either.
//!
//! Integers are little-endian, in this order: version (1), campaign (4), digests of zone and terms
//! and the definition's version (8 each), state (129), totals (32), end of the slot (8); whether
//! there is a plan (1), and then its span (1), begin, joining time, end (8 each), spend (8) and
//! totals (32) by then, the limit that others leave (9), until when it is valid (8) and for which
//! version of the account (8); whether there is a learned week (1), and then the learner (4,049)
//! and, with a plan, the weights that it follows (672). Version 1, which is only read, has a state
//! of 121 bytes; its digests of terms include other gains of the default strategy, so campaigns
//! with those start anew.

use std::hash::{Hash, Hasher as _};

use siphasher::sip::SipHasher13;

use super::terms::PacingPolicy;
use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder, ranged};
use crate::ledger::{Daypart, LimitSpan};
use crate::messages::CampaignIndex;
use crate::strategy::{CampaignFlight, HOURS, Learner, ObservedTotals, StrategyState, TIME_MAX_MS};

/// The current version. With an unknown version, campaigns start anew.
const VERSION: u8 = 2;

/// The previous version, whose states have fewer figures.
const FIRST_VERSION: u8 = 1;

/// Maximum length of one campaign's snapshot. Without a learned week it has 290 bytes.
pub const SNAPSHOT_BYTES_MAX: usize = PLAIN_BYTES_MAX + 17 + HOURS * (3 * 8 + 4);

/// With a plan, without a learned week.
const PLAIN_BYTES_MAX: usize = 1 + 4 + 24 + 129 + 32 + 8 + 1 + 90 + 1;

const _: () = assert!(PLAIN_BYTES_MAX < 300, "a hundred thousand campaigns are 30 MB");

/// A snapshot of a campaign's pacing.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingSnapshot {
    pub(super) slot: CampaignIndex,
    /// Digest of the zone's name.
    pub(super) zone: u64,
    pub(super) terms: u64,
    pub(super) version: u64,
    pub(super) state: StrategyState,
    /// Since the first pacing.
    pub(super) totals: ObservedTotals,
    pub(super) due_ms: u64,
    pub(super) plan: Option<PlanSnapshot>,
    pub(super) learner: Option<Box<Learner>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanSnapshot {
    pub(super) span: LimitSpan,
    pub(super) nominal: CampaignFlight,
    /// When it joined the flight.
    pub(super) from_ms: u64,
    pub(super) before: u64,
    pub(super) base: ObservedTotals,
    pub(super) shared: Option<u64>,
    pub(super) choose_ms: u64,
    pub(super) chosen_for: u64,
    /// Learned weights when it joined.
    pub(super) week: Option<Box<[u32; HOURS]>>,
}

/// The same in every process.
pub(super) fn digest(of: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Digest of all that determines a state, to the bit, including gains added later.
pub(super) fn terms(flight: CampaignFlight, daypart: Daypart, pacing: &PacingPolicy) -> u64 {
    digest(&format!("{flight:?} {daypart:?} {pacing:?}"))
}

impl PacingSnapshot {
    /// The campaign.
    pub const fn slot(&self) -> CampaignIndex {
        self.slot
    }

    /// Appends the encoding, at most [`SNAPSHOT_BYTES_MAX`].
    pub fn encode(&self, into: &mut Vec<u8>) {
        let into = &mut StateEncoder(into);
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

    /// Decodes either version, and accepts only the canonical encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateDecodeError> {
        let mut from = StateDecoder(bytes);
        let found = from.u8()?;
        let state = match found {
            VERSION => StrategyState::decode,
            FIRST_VERSION => StrategyState::decode_first,
            _ => return Err(StateDecodeError::Version { found, known: VERSION }),
        };
        let mut snapshot = Self {
            slot: CampaignIndex(from.u32()?),
            zone: from.u64()?,
            terms: from.u64()?,
            version: from.u64()?,
            state: state(&mut from)?,
            totals: ObservedTotals::decode(&mut from)?,
            due_ms: from.u64()?,
            plan: None,
            learner: None,
        };
        if from.flag("whether there is a plan")? {
            snapshot.plan = Some(PlanSnapshot::decode(&mut from)?);
        }
        if from.flag("whether there is a learned week")? {
            snapshot.learner = Some(Box::new(Learner::decode(&mut from)?));
            if let Some(plan) = &mut snapshot.plan {
                let mut weights = [0; HOURS];
                for weight in &mut weights {
                    *weight = from.u32()?;
                }
                plan.week = Some(Box::new(weights));
            }
        }
        from.end().map(|()| snapshot)
    }
}

impl PlanSnapshot {
    fn encode(&self, into: &mut StateEncoder<'_>) {
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

    fn decode(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        let span = from.u8()?;
        let known = [LimitSpan::Life, LimitSpan::Day, LimitSpan::Hour].into_iter();
        let known = known.clone().find(|known| *known as u8 == span);
        let span = known.ok_or(StateDecodeError::Range("the span"))?;
        let (start_ms, from_ms) = (from.u64()?, from.u64()?);
        let end_ms = from.u64_to("the end of the flight", TIME_MAX_MS)?;
        let is_within = start_ms <= from_ms && from_ms < end_ms;
        let nominal = ranged("the flight", CampaignFlight { start_ms, end_ms }, is_within)?;
        let (before, base) = (from.u64()?, ObservedTotals::decode(from)?);
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

#[cfg(test)]
pub(super) mod tests;
