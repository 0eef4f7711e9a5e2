//! Snapshots of every campaign: taken and restored.

use super::CampaignPacer;
use crate::messages::{CampaignIndex, index};
use crate::pacing::snapshot::PacingSnapshot;

impl CampaignPacer {
    /// Restores a snapshot before its campaign is defined. The campaign resumes at its first look.
    pub fn restore(&mut self, snapshot: PacingSnapshot) {
        self.restored.insert(snapshot.slot, snapshot);
    }

    /// Drops snapshots of campaigns that were not defined.
    pub fn forget_undefined(&mut self) {
        let (mut restored, campaigns) = (std::mem::take(&mut self.restored), &self.campaigns);
        restored.retain(|slot, _| campaigns.get(index(slot.0)).is_some_and(Option::is_some));
        self.restored = restored;
    }

    /// Takes snapshots from a campaign on, visiting up to `most`. Returns where to continue, None
    /// at the end. Campaigns without a strategy have no snapshot.
    pub fn keep(
        &self,
        from: CampaignIndex,
        most: u32,
        mut take: impl FnMut(&PacingSnapshot),
    ) -> Option<CampaignIndex> {
        let defined = u32::try_from(self.campaigns.len()).expect("slots are numbered by 32 bits");
        if from.0 < defined {
            let end = from.0.saturating_add(most).min(defined);
            for slot in (from.0..end).map(CampaignIndex) {
                match self.restored.get(&slot) {
                    Some(snapshot) => take(snapshot),
                    None => self.snapshot(slot).iter().for_each(&mut take),
                }
            }
            let has_more =
                end < defined || self.restored.range(CampaignIndex(end)..).next().is_some();
            return has_more.then_some(CampaignIndex(end));
        }
        // Not defined yet.
        let mut undefined = self.restored.range(from..);
        undefined.by_ref().take(index(most)).for_each(|(_, snapshot)| take(snapshot));
        undefined.next().map(|(slot, _)| *slot)
    }

    fn snapshot(&self, slot: CampaignIndex) -> Option<PacingSnapshot> {
        let paced = self.campaigns.get(index(slot.0))?.as_deref()?;
        let zone = self.payers.get(&paced.account)?.zone;
        let (state, _) = (paced.state?, paced.pacing.as_ref()?);
        Some(PacingSnapshot {
            slot,
            zone: self.zones.get(&zone)?.digest,
            terms: paced.terms,
            version: paced.version,
            state,
            totals: paced.sums.totals(),
            due_ms: paced.due_ms,
            plan: paced.plan_snapshot(),
            learner: paced.learner.clone(),
        })
    }
}
