//! The ledger's thread as the registry asks it: zones by their names.

use pacer_core::ledger::{
    AccountDefinition, AccountId, AccountWhy, DefinitionError, Notice, Spend, Why,
};
use pacer_core::messages::Slot;
use pacer_core::pacing::{Bidding, Curve};
use pacer_core::refusal::Refusal;
use pacer_core::store::{AuditEntry, AuditKey, Change, Definition, DefinitionKey, Kind};
use tracing::{error, warn};

use super::desk::{AccountOrder, CampaignOrder, DeskError, LedgerDesk};
use crate::ZoneError;
use crate::handle::{AskError, CampaignTerms, Delivery, Handle};

impl From<AskError> for DeskError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Denied(denied) => Self::Denied(denied),
            AskError::Over | AskError::Late => Self::Unavailable(error.to_string()),
        }
    }
}

impl LedgerDesk for Handle {
    fn change(&self, change: Change) -> Result<(), DeskError> {
        Ok(Self::change(self, change)?)
    }

    fn define(
        &self,
        accounts: Vec<AccountOrder>,
        campaigns: Vec<CampaignOrder>,
    ) -> Result<(), DeskError> {
        let mut untaken = Vec::new();
        let account = |order: AccountOrder| {
            let zone = self.zones().id(&order.time_zone);
            let unknown = |error: &ZoneError| {
                error!(%error, account = order.id.0, "the ledger is not told of an account");
                untaken.push(error.to_string());
            };
            let zone = zone.inspect_err(unknown).ok()?;
            Some(AccountDefinition {
                id: order.id,
                version: order.version,
                currency: order.currency,
                zone,
                limits: order.limits,
                late_holdback: order.late_holdback,
                is_paused: order.is_paused,
            })
        };
        let accounts = accounts.into_iter().filter_map(account).collect();
        let terms = |CampaignOrder { definition, pacing }| CampaignTerms { definition, pacing };
        let campaigns = campaigns.into_iter().map(terms).collect();
        let defined = Self::define(self, accounts, campaigns)?;
        for (slot, why) in &defined.unpaced {
            warn!(slot = slot.0, %why, "a campaign's strategy goes on as it was");
        }
        untaken.extend(defined.notices.iter().filter_map(refused).map(|it| it.to_string()));
        untaken.into_iter().next().map_or(Ok(()), |first| Err(DeskError::Untaken(first)))
    }

    fn definitions(&self, kind: Kind) -> Result<Vec<(DefinitionKey, Definition)>, DeskError> {
        Ok(Self::definitions(self, kind)?)
    }

    fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError> {
        Ok(Self::audit(self, after, most)?)
    }

    fn audit_before(
        &self,
        before: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, DeskError> {
        Ok(Self::audit_before(self, before, most)?)
    }

    fn next_slot(&self) -> Result<Slot, DeskError> {
        Ok(Self::next_slot(self)?)
    }

    fn why(&self, slot: Slot) -> Result<Why, DeskError> {
        Ok(Self::why(self, slot)?)
    }

    fn why_account(&self, id: AccountId) -> Result<AccountWhy, DeskError> {
        Ok(Self::why_account(self, id)?)
    }

    fn refusals(&self, slots: &[Slot]) -> Result<Vec<Option<Refusal>>, DeskError> {
        Ok(Self::refusals(self, slots)?)
    }

    fn deliveries(&self, slots: &[Slot]) -> Result<Vec<Delivery>, DeskError> {
        Ok(Self::deliveries(self, slots)?)
    }

    fn bidding(&self, slot: Slot) -> Result<Option<Bidding>, DeskError> {
        Ok(Self::bidding(self, slot)?)
    }

    fn spend_account(&self, id: AccountId) -> Result<Option<Spend>, DeskError> {
        Ok(Self::spend_account(self, id)?)
    }

    fn spend(&self, slot: Slot) -> Result<Option<Spend>, DeskError> {
        Ok(Self::spend(self, slot)?)
    }

    fn curve(&self, slot: Slot) -> Result<Option<Curve>, DeskError> {
        Ok(Self::curve(self, slot)?)
    }
}

/// A definition that the ledger does not take was judged before it came there: it does not rest on
/// what somebody has written.
fn refused(notice: &Notice) -> Option<DefinitionError> {
    let refused = match notice {
        Notice::Account(_, Err(refused)) | Notice::Campaign(_, Err(refused)) => *refused,
        Notice::Account(..) | Notice::Campaign(..) => return None,
        Notice::CalendarContradicts(_) | Notice::SettlementMixed(_) => return None,
    };
    error!(%refused, ?notice, "the ledger refuses a definition that is kept");
    Some(refused)
}
