//! Campaigns that count what sold lots deliver, and cap it.
//!
//! Their money limit is an impression limit: an impression costs exactly the sold price. What was
//! paid at the close is the budget of an account of its own. Both are defined by sales alone; files
//! and the API do not change them.

use std::sync::Arc;

use jiff::Timestamp;
use pacer_core::definitions::overrides::FileOverrides;
use pacer_core::messages::CampaignIndex;
use pacer_core::store::StoredKind;
use runtime::config::ConfigProblem;
use serde_json::{Value, json};
use units::{Currency, Nanos};

use crate::registry::changes::{AuditAction, DefinitionStep};
use crate::registry::definition::{DefinedAccount, DefinedCampaign, LOT_PREFIX};
use crate::registry::read::{self, KnownAccounts};
use crate::registry::refused::ChangeRefusal;
use crate::registry::table::record::{DefinitionRecord, RecordOrigin};
use crate::registry::text::json::problem;
use crate::registry::text::packed;
use crate::registry::{CampaignRules, Registry};

/// What a sold lot may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotBudget {
    /// The lot's id.
    pub lot: String,
    /// The account that pays.
    pub account: String,
    /// Whether it has paid already. Then an account of the lot's own has `cost` to spend.
    pub is_prepaid: bool,
    /// The cost of all impressions.
    pub cost: Nanos,
    /// The currency of `cost`, which must be the account's.
    pub currency: Currency,
    /// Start of the delivery, in milliseconds of Unix time.
    pub starts_ms: u64,
    /// End of the delivery, in milliseconds of Unix time.
    pub ends_ms: u64,
}

/// The id of a lot's campaign, and of its account.
fn definition_id(lot: &str) -> String {
    format!("{LOT_PREFIX}{lot}")
}

/// Reads an account from its record; also returns the JSON to store.
///
/// # Errors
/// Every problem, by its path.
pub(in crate::registry) fn stored_account(
    record: &DefinitionRecord,
) -> Result<(DefinedAccount, Arc<str>), Vec<ConfigProblem>> {
    let (mut account, given) = read::account(&record.in_force())?;
    if record.origin == RecordOrigin::Lot {
        account.id = definition_id(&account.id);
    }
    Ok((account, given))
}

/// Reads a campaign from its record; also returns the JSON to store.
///
/// # Errors
/// Every problem, by its path.
pub(in crate::registry) fn stored_campaign<R: CampaignRules>(
    record: &DefinitionRecord,
    facts: &KnownAccounts,
) -> Result<(DefinedCampaign<R>, Arc<str>), Vec<ConfigProblem>> {
    let (mut campaign, given) = read::campaign(&record.in_force(), facts)?;
    if record.origin == RecordOrigin::Lot {
        campaign.id = definition_id(&campaign.id).into();
    }
    Ok((campaign, given))
}

impl<R: CampaignRules> Registry<R> {
    /// Defines the lot's campaign durably, unless it is defined, and returns its number. Before
    /// that, its account if it is prepaid.
    ///
    /// # Errors
    /// When it is unknown whether it is defined, or cannot be: also if an earlier lot had this id.
    pub fn ensure_lot(&self, budget: &LotBudget) -> Result<CampaignIndex, ChangeRefusal> {
        let id = definition_id(&budget.lot);
        let mut changing = self.inner.changing();
        self.inner.resolve_uncertain(&mut changing)?;
        let campaign = campaign_of(budget)?;
        if let Ok((_, record)) = self.record(StoredKind::Campaign, &id)
            && let Some(slot) = record.slot
        {
            return if Value::from(record.given()) == campaign {
                Ok(slot)
            } else {
                let remedy = "was an earlier lot's, whose campaign is kept: give each its own";
                let used = problem("id", Some(format!("\"{}\"", budget.lot)), remedy.to_owned());
                Err(ChangeRefusal::Invalid(vec![used]))
            };
        }
        let is_known = self.record(StoredKind::Account, &id).is_ok();
        if budget.is_prepaid && !is_known {
            let step = self.created(StoredKind::Account, &account_of(budget))?;
            self.inner.commit(&mut changing, vec![step])?;
        }
        let step = self.created(StoredKind::Campaign, &campaign)?;
        let (_, record) = step.becomes.entry();
        let slot = record.slot.expect("a campaign has a number");
        self.inner.commit(&mut changing, vec![step])?;
        Ok(slot)
    }

    fn created(&self, kind: StoredKind, given: &Value) -> Result<DefinitionStep<R>, ChangeRefusal> {
        let record = DefinitionRecord {
            slot: None,
            origin: RecordOrigin::Lot,
            is_removed: false,
            given: packed::pack(&given.to_string()),
            overrides: FileOverrides::default(),
        };
        let step = self.judge(kind, None, AuditAction::Create, record)?;
        Ok(DefinitionStep { actor: Some(Arc::from("lots")), ..step })
    }
}

fn account_of(budget: &LotBudget) -> Value {
    json!({
        "id": budget.lot,
        "currency": budget.currency.code(),
        "budget": budget.cost.to_string(),
    })
}

fn campaign_of(budget: &LotBudget) -> Result<Value, ChangeRefusal> {
    let time = |key: &str, unix_ms: u64| {
        let at = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let late = || problem(key, None, "is beyond the year 9999".to_owned());
        at.map(|at| at.to_string()).ok_or_else(|| ChangeRefusal::Invalid(vec![late()]))
    };
    let account =
        if budget.is_prepaid { definition_id(&budget.lot) } else { budget.account.clone() };
    Ok(json!({
        "id": budget.lot,
        "account": account,
        "start": time("start", budget.starts_ms)?,
        "end": time("end", budget.ends_ms)?,
        "budget": format!("{} {}", budget.cost, budget.currency),
        "strategy": { "name": "asap" },
    }))
}
