//! How long each epoch has lasted, and when what it left frozen is free.
//!
//! Owns the end of each dead epoch's horizon. What is frozen is in the campaigns' books.
//!
//! Epochs of a node follow each other: while one lasts, none before it reserves anything. So a dead
//! epoch ended at least as long ago as all epochs behind it have lasted together, each by its own clock
//! that never goes back. Once that is as much as the epoch's horizon, its last token has expired. Neither
//! the time between two epochs nor any clock on the wall counts: both may be wrong, and too little only
//! keeps money frozen for longer. What an epoch lasted is durable with each of its batches, and, as long
//! as anything is frozen, with batches that say nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use units::Tick;

use super::bug::{LedgerBug, planted};
use super::settings::LedgerSettings;
use crate::messages::{CampaignIndex, Epoch};
use crate::store::EpochLifetime;

/// A crash may lose this part of the lifetime that is recorded, or one lease period if that is longer.
const PARTS: u32 = 8;

/// A dead epoch of which something is frozen.
#[derive(Debug)]
pub(super) struct DeadEpoch {
    /// When its horizon is over.
    until: Tick,
    /// Campaigns that have something frozen of it, as far as they are known.
    pub(super) slots: BTreeSet<CampaignIndex>,
}

/// The epochs of this node.
#[derive(Debug)]
pub(super) struct EpochLifetimes {
    own: Epoch,
    horizon: Duration,
    begun: Tick,
    lease_period: Duration,
    pub(super) dead: BTreeMap<Epoch, DeadEpoch>,
    /// How long this epoch had lasted by the last batch that was committed.
    said: Duration,
    /// The oldest epoch with frozen money as of the last batch that was committed.
    needed_from: Epoch,
}

impl EpochLifetimes {
    pub(super) fn new(settings: &LedgerSettings, begun: Tick) -> Self {
        let LedgerSettings { epoch, horizon, lease_period, .. } = *settings;
        let (dead, said) = (BTreeMap::new(), Duration::ZERO);
        Self { own: epoch, horizon, begun, lease_period, dead, said, needed_from: Epoch(0) }
    }

    /// A dead epoch has something frozen.
    pub(super) fn freeze(&mut self, epoch: Epoch) {
        let until = self.begun.after(self.horizon);
        self.dead.entry(epoch).or_insert(DeadEpoch { until, slots: BTreeSet::new() });
    }

    /// A campaign has something frozen of a dead epoch.
    pub(super) fn hold(&mut self, epoch: Epoch, slot: CampaignIndex) {
        self.freeze(epoch);
        self.dead.get_mut(&epoch).expect("it was put there").slots.insert(slot);
    }

    /// What the store knows of earlier epochs of this node. Where it knows nothing of one, that lasted no
    /// time, and has the horizon of this one.
    pub(super) fn know(&mut self, lives: &BTreeMap<Epoch, EpochLifetime>) {
        for (epoch, dead) in &mut self.dead {
            let horizon = lives.get(epoch).map(|life| Duration::from_millis(life.horizon_ms));
            let later = (std::ops::Bound::Excluded(*epoch), std::ops::Bound::Excluded(self.own));
            let lasted = lives
                .range(later)
                .fold(0, |sum: u64, (_, life)| sum.saturating_add(life.lasted_ms));
            let times = if planted(LedgerBug::CountLivesTwice) { 2 } else { 1 };
            let lasted = Duration::from_millis(lasted.saturating_mul(times));
            let left = horizon.unwrap_or(self.horizon).saturating_sub(lasted);
            dead.until = self.begun.after(left);
        }
    }

    /// An epoch whose horizon is over, and the campaigns that have something frozen of it.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<(Epoch, BTreeSet<CampaignIndex>)> {
        let is_due =
            |dead: &DeadEpoch| dead.until <= now || planted(LedgerBug::ReclaimBeforeHorizon);
        let is_any = planted(LedgerBug::ReclaimAllAtFirst) && self.dead.values().any(is_due);
        let held = |dead: &DeadEpoch| !dead.slots.is_empty();
        let due = self.dead.iter_mut().find(|(_, dead)| held(dead) && (is_any || is_due(dead)));
        due.map(|(epoch, dead)| (*epoch, std::mem::take(&mut dead.slots)))
    }

    /// What a batch says of this epoch, and which epochs are not needed any more.
    pub(super) fn say(&self, now: Tick) -> (EpochLifetime, Epoch) {
        let in_ms = |of: Duration| u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
        // What is rounded is rounded so that nothing is free too early.
        let horizon_ms = in_ms(self.horizon).saturating_add(1);
        (EpochLifetime { lasted_ms: in_ms(now.since(self.begun)), horizon_ms }, self.needed_from)
    }

    /// A batch is committed that says how long this epoch has lasted, and behind which nothing of epochs
    /// before `needed_from` is frozen.
    pub(super) fn saved(&mut self, said: Duration, needed_from: Epoch) {
        self.said = self.said.max(said);
        self.needed_from = self.needed_from.max(needed_from);
    }

    /// Whether an end now would lose more of this epoch's lifetime than it may: a crash, or a clean stop.
    pub(super) fn is_due(&self, now: Tick, is_closing: bool) -> bool {
        let lasted = now.since(self.begun);
        let part = if is_closing { Duration::ZERO } else { self.said / PARTS };
        self.said + self.lease_period.max(part) <= lasted
    }
}
