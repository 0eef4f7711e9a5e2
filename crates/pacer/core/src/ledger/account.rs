//! What the ledger keeps of an account.

use units::{Currency, Tick};

use super::bug::{Bug, planted};
use super::definition::{AccountDefinition, DefinitionError, Holdback, ZoneId};
use super::tally::{Caps, Tally};
use crate::messages::Slot;

/// Who pays.
pub(super) struct Account {
    pub(super) version: u64,
    pub(super) currency: Currency,
    pub(super) zone: ZoneId,
    pub(super) caps: Caps,
    pub(super) holdback: Holdback,
    pub(super) is_paused: bool,
    /// Sums of all its campaigns.
    pub(super) tally: Tally,
    pub(super) members: Vec<Slot>,
    /// Campaigns that have nothing for want of this account's headroom.
    pub(super) waiting: Vec<Slot>,
    /// Whether exposure has gone down since they were last looked at.
    pub(super) is_freed: bool,
    /// When it last looked for campaigns that hold rights and do not use them.
    pub(super) searched_at: Option<Tick>,
}

impl Account {
    pub(super) fn new(definition: &AccountDefinition) -> Result<Self, DefinitionError> {
        Ok(Self {
            version: definition.version,
            currency: definition.currency,
            zone: definition.zone,
            caps: definition.limits.caps(definition.currency)?,
            holdback: definition.late_holdback.checked(definition.currency)?,
            is_paused: definition.is_paused,
            tally: Tally::default(),
            members: Vec::new(),
            waiting: Vec::new(),
            is_freed: false,
            searched_at: None,
        })
    }

    /// Takes a newer definition; whether it was newer.
    pub(super) fn define(&mut self, next: &AccountDefinition) -> Result<bool, DefinitionError> {
        if next.currency != self.currency {
            return Err(DefinitionError::CurrencyChanged(self.currency));
        }
        if next.zone != self.zone {
            return Err(DefinitionError::ZoneChanged);
        }
        let caps = next.limits.caps(self.currency)?;
        let holdback = next.late_holdback.checked(self.currency)?;
        if next.version <= self.version && !planted(Bug::OlderWins) {
            return Ok(false);
        }
        self.version = next.version;
        self.is_paused = next.is_paused;
        self.caps = applied(self.caps, caps);
        self.holdback = holdback;
        Ok(true)
    }
}

/// The limits of a newer definition.
pub(super) fn applied(old: Caps, new: Caps) -> Caps {
    if !planted(Bug::IgnoreCut) {
        return new;
    }
    Caps { life: old.life.max(new.life), day: old.day.max(new.day), hour: old.hour.max(new.hour) }
}
