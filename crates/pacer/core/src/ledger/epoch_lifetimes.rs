//! The lifetimes of epochs, and when their frozen budget is free. The campaigns' books contain it.
//!
//! Epochs of a node are consecutive, so a dead epoch ended at least as long ago as all later epochs
//! lasted together, each by its own monotonic clock. Once that reaches the epoch's horizon, its
//! last token has expired. The time between epochs and the wall clock may be wrong, so neither
//! counts; a shorter estimate only freezes budget longer. Batches store their epoch's lifetime, and
//! are written just for that while anything is frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use units::Tick;

use super::settings::LedgerSettings;
use crate::messages::{CampaignIndex, Epoch};
use crate::store::EpochLifetime;

/// A crash may lose this part of the recorded lifetime, or one lease period if that is longer.
const PARTS: u32 = 8;

#[derive(Debug)]
pub(super) struct DeadEpoch {
    until: Tick,
    pub(super) slots: BTreeSet<CampaignIndex>,
}

#[derive(Debug)]
pub(super) struct EpochLifetimes {
    own: Epoch,
    horizon: Duration,
    begun: Tick,
    lease_period: Duration,
    pub(super) dead: BTreeMap<Epoch, DeadEpoch>,
    /// Lifetime of this epoch in the last committed batch.
    said: Duration,
    /// The oldest epoch with frozen budget as of the last committed batch.
    needed_from: Epoch,
}

impl EpochLifetimes {
    pub(super) fn new(settings: &LedgerSettings, begun: Tick) -> Self {
        let LedgerSettings { epoch, horizon, lease_period, .. } = *settings;
        let (dead, said) = (BTreeMap::new(), Duration::ZERO);
        Self { own: epoch, horizon, begun, lease_period, dead, said, needed_from: Epoch(0) }
    }

    pub(super) fn freeze(&mut self, epoch: Epoch) {
        let until = self.begun.after(self.horizon);
        self.dead.entry(epoch).or_insert(DeadEpoch { until, slots: BTreeSet::new() });
    }

    pub(super) fn hold(&mut self, epoch: Epoch, slot: CampaignIndex) {
        self.freeze(epoch);
        self.dead.get_mut(&epoch).expect("it was put there").slots.insert(slot);
    }

    /// Sets the lifetimes of this node's earlier epochs from the store. An unknown one counts as
    /// zero, with this epoch's horizon.
    pub(super) fn know(&mut self, lives: &BTreeMap<Epoch, EpochLifetime>) {
        for (epoch, dead) in &mut self.dead {
            let horizon = lives.get(epoch).map(|life| Duration::from_millis(life.horizon_ms));
            let later = (std::ops::Bound::Excluded(*epoch), std::ops::Bound::Excluded(self.own));
            let lasted = lives
                .range(later)
                .fold(0, |sum: u64, (_, life)| sum.saturating_add(life.lasted_ms));
            let lasted = Duration::from_millis(lasted);
            let left = horizon.unwrap_or(self.horizon).saturating_sub(lasted);
            dead.until = self.begun.after(left);
        }
    }

    /// An epoch whose horizon is over, and its campaigns with frozen budget.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<(Epoch, BTreeSet<CampaignIndex>)> {
        let is_due = |dead: &DeadEpoch| !dead.slots.is_empty() && dead.until <= now;
        let due = self.dead.iter_mut().find(|(_, dead)| is_due(dead));
        due.map(|(epoch, dead)| (*epoch, std::mem::take(&mut dead.slots)))
    }

    /// This epoch's lifetime for a batch, and the first epoch whose lifetime is still needed.
    pub(super) fn say(&self, now: Tick) -> (EpochLifetime, Epoch) {
        let in_ms = |of: Duration| u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
        // Rounded so that nothing is free too early.
        let horizon_ms = in_ms(self.horizon).saturating_add(1);
        (EpochLifetime { lasted_ms: in_ms(now.since(self.begun)), horizon_ms }, self.needed_from)
    }

    /// Notes the commit of a lifetime, with nothing frozen before `needed_from`.
    pub(super) fn saved(&mut self, said: Duration, needed_from: Epoch) {
        self.said = self.said.max(said);
        self.needed_from = self.needed_from.max(needed_from);
    }

    /// Whether a stop now, by crash or shutdown, would lose too much of this epoch's lifetime.
    pub(super) fn is_due(&self, now: Tick, is_closing: bool) -> bool {
        let lasted = now.since(self.begun);
        let part = if is_closing { Duration::ZERO } else { self.said / PARTS };
        self.said + self.lease_period.max(part) <= lasted
    }
}
