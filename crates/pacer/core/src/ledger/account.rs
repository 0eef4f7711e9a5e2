//! An account in the ledger.

pub(super) mod holds;

use std::collections::BTreeMap;

use units::Tick;

use super::limits::definition::{AccountTerms, DefinitionError};
use super::limits::level::{LimitLevel, LimitOwner, levels_of};
use super::limits::tally::Exposure;
use super::limits::tally::ExposureTally;
use crate::calendar::{CalendarHour, Period};
use crate::messages::CampaignIndex;
use crate::store::StoredHold;
use holds::CountedHold;

pub(super) struct LedgerAccount {
    pub(super) definition: AccountTerms,
    pub(super) tally: ExposureTally,
    /// On hold for bids of lots, by the hour that counts it.
    pub(super) held: BTreeMap<Period, u64>,
    pub(super) members: Vec<CampaignIndex>,
    /// Campaigns without budget because this account has no headroom.
    pub(super) waiting: Vec<CampaignIndex>,
    /// Whether exposure has fallen since their last look.
    pub(super) is_freed: bool,
    pub(super) searched_at: Option<Tick>,
}

impl LedgerAccount {
    pub(super) fn new(definition: &AccountTerms) -> Result<Self, DefinitionError> {
        definition.limits.check(definition.late_holdback, definition.currency)?;
        Ok(Self {
            definition: *definition,
            tally: ExposureTally::default(),
            held: BTreeMap::new(),
            members: Vec::new(),
            waiting: Vec::new(),
            is_freed: false,
            searched_at: None,
        })
    }

    /// Takes a definition. Returns false if it is not newer.
    pub(super) fn define(&mut self, next: &AccountTerms) -> Result<bool, DefinitionError> {
        let known = &self.definition;
        if next.currency != known.currency {
            return Err(DefinitionError::CurrencyChanged(known.currency));
        }
        if next.zone != known.zone {
            return Err(DefinitionError::ZoneChanged);
        }
        next.limits.check(next.late_holdback, known.currency)?;
        if next.version <= known.version {
            return Ok(false);
        }
        self.definition = *next;
        Ok(true)
    }

    /// Changes the contribution of a hold.
    pub(super) fn count_hold(&mut self, row: &StoredHold, from: CountedHold, to: CountedHold) {
        let exposure = |it: CountedHold| Exposure { held: it.amount, late: 0 };
        self.tally.change(row.period, row.day, exposure(from), exposure(to));
        let held = self.held.entry(row.period).or_default();
        let rest = held.checked_sub(from.standing).expect("a sum contains each of its parts");
        *held = rest.checked_add(to.standing).expect("what is on hold fits the books");
        if *held == 0 {
            self.held.remove(&row.period);
        }
    }

    pub(super) fn levels(&self, hour: &CalendarHour) -> [LimitLevel; 3] {
        let AccountTerms { limits, late_holdback, .. } = &self.definition;
        levels_of(LimitOwner::Account, limits, *late_holdback, &self.tally, hour)
    }
}
