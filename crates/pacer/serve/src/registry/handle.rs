//! The ledger's thread as the registry asks it: zones by their names, strategies and curves in the
//! registry's words.

use pacer_core::ledger::{AccountDefinition, DefinitionError, Notice, Spend, Why};
use pacer_core::messages::Slot;
use pacer_core::pacing::{self, Expected};
use pacer_core::store::{AuditEntry, AuditKey, Change, Definition, DefinitionKey, Kind};
use pacer_core::strategy::Week;
use tracing::{error, warn};

use super::desk::{AccountOrder, CampaignOrder, Curve, CurvePoint, DeskError, LedgerDesk};
use super::pacing::{Forecast, Pacing};
use crate::handle::{AskError, CampaignTerms, Handle};

impl From<AskError> for DeskError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Denied(denied) => Self::Denied(denied),
            AskError::Over | AskError::Late => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Pacing> for pacing::Pacing {
    fn from(given: Pacing) -> Self {
        let forecast = match given.forecast {
            Forecast::Uniform => Expected::Uniform,
            Forecast::Learned => Expected::Learned,
            Forecast::Weekly(weights) => Expected::Weekly(Week::weighted(&weights)),
        };
        let Pacing { settings, ahead, is_fixed_price, .. } = given;
        Self { settings, ahead, forecast, is_fixed_price }
    }
}

impl From<pacing::Curve> for Curve {
    fn from(curve: pacing::Curve) -> Self {
        let point = |point: pacing::CurvePoint| CurvePoint {
            at_unix_ms: point.at_unix_ms,
            target: point.target,
            spent: point.spent,
        };
        Self {
            span: curve.span,
            start_unix_ms: curve.flight.start_ms,
            end_unix_ms: curve.flight.end_ms,
            strategy: curve.strategy,
            points: curve.points.into_iter().map(point).collect(),
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
        let account = |order: AccountOrder| {
            let zone = self.zones().id(&order.time_zone);
            let zone = zone.map_err(|error| DeskError::Unavailable(error.to_string()))?;
            let AccountOrder { id, version, currency, limits, is_paused, .. } = order;
            Ok(AccountDefinition { id, version, currency, zone, limits, is_paused })
        };
        let accounts: Result<Vec<_>, DeskError> = accounts.into_iter().map(account).collect();
        let terms = |order: CampaignOrder| CampaignTerms {
            definition: order.definition,
            pacing: order.pacing.map(pacing::Pacing::from),
        };
        let campaigns = campaigns.into_iter().map(terms).collect();
        let defined = Self::define(self, accounts?, campaigns)?;
        for (slot, why) in &defined.unpaced {
            warn!(slot = slot.0, %why, "a campaign's strategy goes on as it was");
        }
        defined.notices.iter().try_for_each(judged)
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

    fn next_slot(&self) -> Result<Slot, DeskError> {
        Ok(Self::next_slot(self)?)
    }

    fn why(&self, slot: Slot) -> Result<Why, DeskError> {
        Ok(Self::why(self, slot)?)
    }

    fn spend(&self, slot: Slot) -> Result<Option<Spend>, DeskError> {
        Ok(Self::spend(self, slot)?)
    }

    fn curve(&self, slot: Slot) -> Result<Option<Curve>, DeskError> {
        Ok(Self::curve(self, slot)?.map(Curve::from))
    }
}

/// A definition that the ledger does not take was judged before it came there: it does not rest on
/// what somebody has written.
fn judged(notice: &Notice) -> Result<(), DeskError> {
    let refused: DefinitionError = match notice {
        Notice::Account(_, Err(refused)) | Notice::Campaign(_, Err(refused)) => *refused,
        Notice::Account(..) | Notice::Campaign(..) => return Ok(()),
        Notice::CalendarContradicts(_) | Notice::SettlementMixed(_) => return Ok(()),
    };
    error!(%refused, ?notice, "the ledger refuses a definition that is kept");
    Err(DeskError::Unavailable(refused.to_string()))
}
