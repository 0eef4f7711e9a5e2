//! Timers of campaigns on one clock, one per campaign.

use std::collections::BTreeSet;

use crate::messages::CampaignIndex;

#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, CampaignIndex)>);

impl Timers {
    /// Sets a campaign's timer, unless it is due earlier. `known` is its present time, or `MAX`.
    pub(super) fn set(&mut self, slot: CampaignIndex, known: &mut u64, at: u64) {
        if at < *known {
            self.0.remove(&(*known, slot));
            self.0.insert((at, slot));
            *known = at;
        }
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<CampaignIndex> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, slot)| slot)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
