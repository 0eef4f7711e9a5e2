//! All campaigns, and when each needs its next look.

mod snapshots;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use units::Nanos;

use super::curve::{CurveSource, PacingCurve};
use super::funds::FundsSource;
use super::look::{AccountClocks, PacingContext, PayingAccount};
use super::paced::{CampaignPacing, opened};
use super::snapshot::{PacingSnapshot, digest};
use super::terms::{BiddingStatus, PacingError, PacingPolicy, TrafficForecast};
use super::weeks::Weeks;
use crate::calendar::Calendar;
use crate::ledger::{AccountId, CampaignTerms, Daypart, LimitSpan, ZoneId};
use crate::messages::{CampaignIndex, RequestCounts, SpendReport, index};
use crate::strategy::{BidPace, CampaignFlight, HOURS, Week, ZoneOffsets};

/// Options of a pacer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerOptions {
    /// Number of shards, which count from 0.
    pub shards: u16,
    /// Usual length of a slot.
    pub slot_ms: u64,
}

impl PacerOptions {
    /// With slots of ten seconds.
    pub const fn new(shards: u16) -> Self {
        Self { shards, slot_ms: 10_000 }
    }
}

/// Paces every campaign.
pub struct CampaignPacer {
    options: PacerOptions,
    now_ms: u64,
    zones: BTreeMap<ZoneId, AccountClocks>,
    payers: BTreeMap<AccountId, PayingAccount>,
    campaigns: Vec<Option<Box<CampaignPacing>>>,
    /// End of each campaign's slot. Entries other than the campaign's `due_ms` are outdated.
    due: BinaryHeap<Reverse<(u64, CampaignIndex)>>,
    /// Snapshots of campaigns without a look since the start.
    restored: BTreeMap<CampaignIndex, PacingSnapshot>,
    uniform: Week,
    weeks: Weeks,
    campaigns_known: u64,
    looked: u64,
}

impl CampaignPacer {
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

    /// Sets a zone's clocks, as a table of hours and as offset changes.
    pub fn take_zone(&mut self, id: ZoneId, name: &str, calendar: Calendar, zone: ZoneOffsets) {
        self.zones.insert(id, AccountClocks { digest: digest(&name), calendar, zone });
    }

    /// Takes an account, new or changed.
    pub fn take_account(&mut self, id: AccountId, zone: ZoneId, version: u64) {
        let payer = self.payers.entry(id).or_insert(PayingAccount { zone, version });
        payer.version = payer.version.max(version);
    }

    /// Takes a campaign, new or changed; its strategy takes over from the previous one. `pacing` is
    /// None without a strategy. Ignores a definition that is not newer.
    ///
    /// # Errors
    /// The first problem of the definition; then nothing changes.
    pub fn define(
        &mut self,
        definition: &CampaignTerms,
        pacing: Option<&Arc<PacingPolicy>>,
        now_ms: u64,
    ) -> Result<(), PacingError> {
        let week = self.week_of(definition.budget.daypart, pacing.map(|pacing| &**pacing))?;
        let (slot, at) = (definition.slot, index(definition.slot.0));
        let flight = CampaignFlight {
            start_ms: definition.budget.start_unix_ms,
            end_ms: definition.budget.end_unix_ms,
        };
        if self.campaigns.len() <= at {
            self.campaigns.resize_with(at + 1, || None);
        }
        self.campaigns_known += u64::from(self.campaigns[at].is_none());
        let new = || CampaignPacing::new(definition, flight, week.clone()).into();
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

    fn week_of(
        &mut self,
        daypart: Daypart,
        pacing: Option<&PacingPolicy>,
    ) -> Result<Week, PacingError> {
        let Some(pacing) = pacing else { return Ok(self.uniform.clone()) };
        if let Some(problem) = pacing.problems().first() {
            return Err(*problem);
        }
        let week = match &pacing.forecast {
            TrafficForecast::Weekly(week) => self.weeks.share(opened(week, daypart)),
            TrafficForecast::Uniform | TrafficForecast::Learned if daypart == Daypart::ALWAYS => {
                self.uniform.clone()
            }
            TrafficForecast::Uniform | TrafficForecast::Learned => {
                self.weeks.share(opened(&self.uniform, daypart))
            }
        };
        let is_open = (0..HOURS).any(|hour| week.weight(hour) > 0);
        is_open.then_some(week).ok_or(PacingError::NeverOpen)
    }

    /// Takes a shard's report.
    pub fn report(&mut self, shard: u16, report: &SpendReport) {
        let shards = self.options.shards;
        if let Some(paced) = self.paced(report.slot).filter(|_| shard < shards) {
            paced.sums.report(shard, report, shards);
        }
    }

    /// Takes a shard's request counts.
    pub fn seen(&mut self, shard: u16, slot: CampaignIndex, seen: RequestCounts) {
        let shards = self.options.shards;
        if let Some(paced) = self.paced(slot).filter(|_| shard < shards) {
            paced.sums.see(shard, seen, shards);
        }
    }

    /// Ends up to `most` slots that are over at `now_ms`. Returns changed paces.
    pub fn turn(
        &mut self,
        now_ms: u64,
        source: &impl FundsSource,
        most: usize,
        changed: &mut Vec<(CampaignIndex, BidPace)>,
    ) {
        self.now_ms = self.now_ms.max(now_ms);
        for _ in 0..most {
            let Some(&Reverse((at, slot))) = self.due.peek() else { break };
            if self.now_ms < at {
                break;
            }
            self.due.pop();
            if self.paced(slot).is_some_and(|paced| paced.due_ms == at) {
                self.look(slot, source, changed);
            }
        }
    }

    /// The latest pace of a campaign. None without a strategy.
    pub fn pace(&self, slot: CampaignIndex) -> Option<BidPace> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        paced.pacing.as_ref().and(paced.pace)
    }

    /// How a campaign bids. None without a strategy, or before its first slot.
    pub fn bidding(&self, slot: CampaignIndex) -> Option<BiddingStatus> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let pacing = paced.pacing.as_ref()?;
        let (strategy, is_fixed_price) = (pacing.settings.name(), pacing.is_fixed_price);
        Some(BiddingStatus { strategy, is_fixed_price, pace: paced.pace? })
    }

    /// Planned and actual spend over the current flight.
    pub fn curve(&self, slot: CampaignIndex, now_ms: u64) -> Option<PacingCurve> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let (pacing, state, plan) =
            (paced.pacing.as_ref()?, paced.state.as_ref()?, paced.plan.as_ref()?);
        let drawn = CurveSource { plan, reported: paced.reported.as_deref() };
        Some(paced.series.curve(pacing, state, &drawn, self.now_ms.max(now_ms)))
    }

    #[cfg(test)]
    pub(super) fn followed(&self, slot: CampaignIndex) -> Option<LimitSpan> {
        Some(self.campaigns.get(index(slot.0))?.as_deref()?.plan.as_ref()?.span)
    }

    /// The limit that a campaign's progress is measured against, as in [`Self::curve`], and how
    /// much of it should be spent by now. None without a strategy or a limit.
    pub fn planned(&self, slot: CampaignIndex, now_ms: u64) -> Option<(LimitSpan, Nanos)> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let (state, plan) = (paced.state.as_ref()?, paced.plan.as_ref()?);
        let now_ms = self.now_ms.max(now_ms);
        Some(match &paced.reported {
            Some(reported) => (reported.span, reported.planned(paced.series.limit(), now_ms)),
            None => (plan.span, plan.planned(state, now_ms)),
        })
    }

    /// Number of known accounts and campaigns.
    pub fn counts(&self) -> (u64, u64) {
        (self.payers.len() as u64, self.campaigns_known)
    }

    /// How often a campaign was looked at.
    pub const fn looked(&self) -> u64 {
        self.looked
    }

    fn look(
        &mut self,
        slot: CampaignIndex,
        source: &impl FundsSource,
        changed: &mut Vec<(CampaignIndex, BidPace)>,
    ) {
        self.looked += 1;
        let (now_ms, slot_ms) = (self.now_ms, self.options.slot_ms);
        let phase_ms = phase(slot, slot_ms);
        let Some(paced) = self.campaigns[index(slot.0)].as_deref_mut() else { return };
        let payer = self.payers.get(&paced.account).copied();
        let clocks = payer.and_then(|payer| self.zones.get(&payer.zone));
        let (Some(payer), Some(clocks)) = (payer, clocks) else {
            return self.schedule(slot, now_ms + slot_ms);
        };
        let hour = PacingContext { now_ms, slot_ms, phase_ms, payer, clocks };
        let snapshot = self.restored.remove(&slot);
        let resumed = snapshot.and_then(|snapshot| paced.resume(snapshot, &hour));
        let funds = source.funds(slot);
        if let Some(funds) = &funds {
            paced.complete_resumed(&hour, funds);
        }
        let (pace, next_ms) = match (resumed, funds) {
            (Some((pace, due_ms)), _) => (Some(pace), due_ms),
            (None, Some(funds)) => paced.look(&hour, &funds),
            (None, None) => (paced.pace, now_ms + slot_ms),
        };
        if pace != paced.pace {
            paced.pace = pace;
            changed.push((slot, pace.unwrap_or(BidPace::FULL)));
        }
        self.schedule(slot, next_ms);
    }

    fn schedule(&mut self, slot: CampaignIndex, at_ms: u64) {
        let Some(paced) = self.paced(slot) else { return };
        paced.due_ms = at_ms;
        if at_ms < u64::MAX {
            self.due.push(Reverse((at_ms, slot)));
        }
    }

    fn paced(&mut self, slot: CampaignIndex) -> Option<&mut CampaignPacing> {
        self.campaigns.get_mut(index(slot.0))?.as_deref_mut()
    }
}

/// The offset at which a campaign's slots end: 1 to the length of a slot.
fn phase(slot: CampaignIndex, slot_ms: u64) -> u64 {
    // Hashing with the golden ratio spreads consecutive numbers (Knuth, volume 3, 6.4).
    let spread = u64::from(slot.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    1 + spread % slot_ms.max(1)
}
