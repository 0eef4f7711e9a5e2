//! The zones whose hours the rules have, and until when.

use std::collections::BTreeMap;

use pacer_core::ledger::{LedgerInput, ZoneId};
use pacer_core::pacing::CampaignPacer;
use tracing::error;

use crate::ledger::zones::Zones;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Past hours stay known for late settlements, and for leases from before a restart.
const BACK_MS: u64 = 3 * DAY_MS;
const AHEAD_MS: u64 = 40 * DAY_MS;
const RENEW_MS: u64 = DAY_MS;

pub(super) struct ZoneTables {
    zones: Zones,
    renew_ms: BTreeMap<ZoneId, u64>,
    next_ms: u64,
}

impl ZoneTables {
    pub(super) const fn new(zones: Zones) -> Self {
        Self { zones, renew_ms: BTreeMap::new(), next_ms: u64::MAX }
    }

    /// Passes a zone's hours to the rules, unless they have them.
    pub(super) fn need(
        &mut self,
        id: ZoneId,
        now_ms: u64,
        inbox: &mut Vec<LedgerInput>,
        pacer: &mut CampaignPacer,
    ) {
        if !self.renew_ms.contains_key(&id) {
            self.make(id, now_ms, inbox, pacer);
        }
    }

    /// Extends the hours of one zone, if one is due.
    pub(super) fn renew(
        &mut self,
        now_ms: u64,
        inbox: &mut Vec<LedgerInput>,
        pacer: &mut CampaignPacer,
    ) {
        if now_ms < self.next_ms {
            return;
        }
        let due = self.renew_ms.iter().find(|(_, at)| **at <= now_ms).map(|(id, _)| *id);
        if let Some(id) = due {
            self.make(id, now_ms, inbox, pacer);
        }
        self.next_ms = self.renew_ms.values().copied().min().unwrap_or(u64::MAX);
    }

    fn make(
        &mut self,
        id: ZoneId,
        now_ms: u64,
        inbox: &mut Vec<LedgerInput>,
        pacer: &mut CampaignPacer,
    ) {
        // The ledger refuses the account in that case.
        let Some(name) = self.zones.name(id) else { return };
        let from_ms = now_ms.saturating_sub(BACK_MS);
        let made = self.zones.calendar(id, from_ms, now_ms.saturating_add(AHEAD_MS));
        let made = made.and_then(|calendar| Ok((calendar, self.zones.clocks(id, from_ms)?)));
        match made {
            Ok((calendar, clocks)) => {
                pacer.take_zone(id, &name, calendar.clone(), clocks);
                inbox.push(LedgerInput::Calendar(id, calendar));
            }
            Err(error) => error!(%error, "a time zone's hours end: its accounts will stop"),
        }
        self.renew_ms.insert(id, now_ms.saturating_add(RENEW_MS));
        self.next_ms = self.next_ms.min(now_ms.saturating_add(RENEW_MS));
    }
}

#[cfg(test)]
mod tests {
    use pacer_core::pacing::PacerOptions;

    use super::*;

    #[test]
    fn hours_are_told_once_and_a_day_later_further_ahead() {
        let zones = Zones::default();
        let [berlin, lagos] = ["Europe/Berlin", "Africa/Lagos"].map(|name| zones.id(name).unwrap());
        let mut tables = ZoneTables::new(zones);
        let mut pacer = CampaignPacer::new(PacerOptions::new(1));
        let now_ms = 1_792_000_000_000;
        let mut told = |tables: &mut ZoneTables, at_ms: u64, needed: &[ZoneId]| {
            let mut inbox = Vec::new();
            for id in needed {
                tables.need(*id, at_ms, &mut inbox, &mut pacer);
            }
            tables.renew(at_ms, &mut inbox, &mut pacer);
            let tables = inbox.into_iter().map(|incoming| match incoming {
                LedgerInput::Calendar(id, calendar) => {
                    assert!(calendar.at(at_ms + 39 * DAY_MS).is_some());
                    assert!(calendar.at(at_ms - 2 * DAY_MS).is_some());
                    id
                }
                other => panic!("{other:?}"),
            });
            tables.collect::<Vec<_>>()
        };
        assert_eq!(told(&mut tables, now_ms, &[berlin, lagos, berlin]), [berlin, lagos]);
        assert_eq!(told(&mut tables, now_ms + RENEW_MS - 1, &[berlin]), []);
        // One per turn.
        let later = now_ms + RENEW_MS;
        assert_eq!(told(&mut tables, later, &[]), [berlin]);
        assert_eq!(told(&mut tables, later, &[]), [lagos]);
        assert_eq!(told(&mut tables, later, &[]), []);
        assert_eq!(told(&mut tables, later, &[ZoneId(99)]), [], "nobody knows it");
    }
}
