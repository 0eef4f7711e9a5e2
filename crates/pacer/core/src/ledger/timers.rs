//! When campaigns are to be looked at again though nothing happens: by one clock, once for each.

use std::collections::BTreeSet;

use crate::messages::CampaignIndex;

/// Campaigns by their times.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, CampaignIndex)>);

impl Timers {
    /// Sets a campaign's timer, unless it is to go off before. `known` is when, `MAX` for never.
    pub(super) fn set(&mut self, slot: CampaignIndex, known: &mut u64, at: u64) {
        if at < *known {
            self.0.remove(&(*known, slot));
            self.0.insert((at, slot));
            *known = at;
        }
    }

    /// The next campaign whose time has come; its timer is not set any more.
    pub(super) fn take_due(&mut self, now: u64) -> Option<CampaignIndex> {
        self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first().map(|(_, slot)| slot)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
