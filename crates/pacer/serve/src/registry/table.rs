//! The table of all accounts and campaigns, and their forms for the ledger and the exchange.

pub(super) mod catalogue;
pub(super) mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use pacer_core::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::store::StoredKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::definition::{DefinedAccount, DefinedCampaign};
use super::read::KnownAccounts;
use super::refused::RegistryStartError;
use crate::ledger::handle::PacedCampaign;
use crate::ledger::zones::{ZoneError, Zones};
use catalogue::{PublishedAccount, PublishedCampaign, PublishedCatalogue};
use record::{DefinitionRecord, RecordOrigin};

/// End of campaigns without one: the last millisecond of the year 9999, which RFC 3339 can write.
const ENDLESS_UNIX_MS: u64 = 253_402_300_799_999;

#[derive(Debug)]
pub(super) struct DefinitionEntry<T> {
    pub(super) version: u64,
    pub(super) record: DefinitionRecord,
    /// None if it is removed, or stored in an unreadable form: it then spends nothing.
    pub(super) value: Option<Arc<T>>,
}

impl<R> DefinitionEntry<DefinedCampaign<R>> {
    /// Id of the campaign's account, even if the campaign is removed or unreadable.
    pub(super) fn account(&self) -> Option<Arc<str>> {
        match &self.value {
            Some(campaign) => Some(Arc::clone(&campaign.account)),
            None => self.record.given().get("account")?.as_str().map(Arc::from),
        }
    }
}

#[derive(Debug)]
pub(super) struct DefinitionTable<R> {
    pub(super) accounts: BTreeMap<Arc<str>, DefinitionEntry<DefinedAccount>>,
    pub(super) campaigns: BTreeMap<Arc<str>, DefinitionEntry<DefinedCampaign<R>>>,
    numbers: BTreeMap<Arc<str>, AccountId>,
    /// The first number that no campaign or account has or had.
    pub(super) next_slot: u32,
}

impl<R> Default for DefinitionTable<R> {
    fn default() -> Self {
        Self {
            accounts: BTreeMap::new(),
            campaigns: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_slot: 0,
        }
    }
}

impl<R> DefinitionTable<R> {
    /// Skips numbers that leases name: they are not given to another definition.
    pub(super) fn reserve_below(&mut self, next_slot: CampaignIndex) {
        self.next_slot = self.next_slot.max(next_slot.0);
    }

    pub(super) fn put_account(&mut self, id: Arc<str>, entry: DefinitionEntry<DefinedAccount>) {
        self.reserve(entry.record.slot);
        self.assign_account_id(&id);
        self.accounts.insert(id, entry);
    }

    pub(super) fn put_campaign(
        &mut self,
        id: Arc<str>,
        entry: DefinitionEntry<DefinedCampaign<R>>,
    ) {
        self.reserve(entry.record.slot);
        self.campaigns.insert(id, entry);
    }

    /// Refuses a number that two definitions have: each would spend the other's money.
    pub(super) fn check_slots(&self) -> Result<(), RegistryStartError> {
        let accounts =
            self.accounts.iter().map(|(id, entry)| (StoredKind::Account, id, &entry.record));
        let campaigns =
            self.campaigns.iter().map(|(id, entry)| (StoredKind::Campaign, id, &entry.record));
        let mut taken = BTreeMap::new();
        for (kind, id, record) in accounts.chain(campaigns) {
            let Some(CampaignIndex(slot)) = record.slot else { continue };
            let name = |(kind, id): (StoredKind, &Arc<str>)| format!("{} `{id}`", kind.label());
            if let Some(first) = taken.insert(slot, (kind, id)) {
                return Err(RegistryStartError::SharedSlot {
                    first: name(first),
                    second: name((kind, id)),
                    slot,
                });
            }
        }
        Ok(())
    }

    fn reserve(&mut self, slot: Option<CampaignIndex>) {
        let behind = slot.map_or(0, |slot| slot.0.saturating_add(1));
        self.next_slot = self.next_slot.max(behind);
    }

    /// The ledger's number of an account, assigned at the first call.
    pub(super) fn assign_account_id(&mut self, id: &Arc<str>) -> AccountId {
        let next = u32::try_from(self.numbers.len()).expect("accounts are fewer than slots");
        *self.numbers.entry(Arc::clone(id)).or_insert(AccountId(next))
    }

    pub(super) fn account_id(&self, id: &str) -> Option<AccountId> {
        self.numbers.get(id).copied()
    }

    /// Facts of the accounts that `wanted` picks, for their campaigns.
    pub(super) fn facts(
        &self,
        wanted: impl Fn(&DefinitionEntry<DefinedAccount>) -> bool,
    ) -> KnownAccounts {
        let known = self.accounts.iter().filter(|(_, entry)| wanted(entry));
        known
            .filter_map(|(id, entry)| Some((Arc::clone(id), entry.value.as_ref()?.facts.clone())))
            .collect()
    }

    pub(super) fn published(&self, number: u64) -> PublishedCatalogue<R>
    where
        R: Clone,
    {
        let live = self.accounts.iter().filter(|(_, entry)| !entry.record.is_removed);
        let accounts = live.filter_map(|(id, entry)| {
            let account = entry.value.as_ref()?;
            Some(PublishedAccount {
                id: Arc::clone(id),
                currency: account.facts.currency,
                slot: entry.record.slot,
                seats: account.seats.clone(),
            })
        });
        let campaigns = self.campaigns.iter().filter(|(_, entry)| !entry.record.is_removed);
        let campaigns = campaigns.filter_map(|(id, entry)| {
            let campaign = entry.value.as_ref()?;
            let (account, of) = self.accounts.get_key_value(&*campaign.account)?;
            let is_account_open = of.value.as_ref().is_some_and(|account| !account.is_paused);
            Some(PublishedCampaign {
                id: Arc::clone(id),
                slot: entry.record.slot?,
                version: entry.version,
                account: Arc::clone(account),
                rules: campaign.rules.clone(),
                is_lot: entry.record.origin == RecordOrigin::Lot,
                is_open: is_account_open && !campaign.budget.is_paused && !of.record.is_removed,
            })
        });
        PublishedCatalogue { number, accounts: accounts.collect(), campaigns: campaigns.collect() }
    }

    pub(super) fn account_terms(
        &mut self,
        id: &Arc<str>,
        zones: &Zones,
    ) -> Option<Result<AccountTerms, ZoneError>> {
        let number = self.assign_account_id(id);
        let entry = self.accounts.get(id)?;
        let account = entry.value.as_ref()?;
        Some(zones.id(&account.time_zone).map(|zone| AccountTerms {
            id: number,
            version: entry.version,
            currency: account.facts.currency,
            zone,
            limits: account.limits,
            late_holdback: account.late_holdback,
            is_paused: account.is_paused || entry.record.is_removed,
        }))
    }

    /// An account's seats for the ledger. None if it never had any.
    pub(super) fn paced_seats(&mut self, id: &Arc<str>) -> Option<PacedCampaign> {
        let number = self.assign_account_id(id);
        let entry = self.accounts.get(id)?;
        let (account, slot) = (entry.value.as_ref()?, entry.record.slot?);
        let is_paused = account.seats.is_empty() || entry.record.is_removed;
        let (version, budget) = (entry.version, always(is_paused));
        let terms = CampaignTerms { slot, version, account: number, budget };
        Some(PacedCampaign { terms, pacing: None })
    }

    /// A campaign for the ledger. A removed one's spend still counts.
    pub(super) fn paced_campaign(&mut self, id: &str) -> Option<PacedCampaign> {
        let entry = self.campaigns.get(id)?;
        let (slot, version) = (entry.record.slot?, entry.version);
        let campaign = entry.value.as_ref().filter(|_| !entry.record.is_removed);
        let budget = campaign.map_or_else(|| always(true), |campaign| campaign.budget);
        let pacing = campaign.map(|campaign| Arc::clone(&campaign.pacing));
        let account = entry.account()?;
        let account = self.assign_account_id(&account);
        let terms = CampaignTerms { slot, version, account, budget };
        Some(PacedCampaign { terms, pacing })
    }

    /// The version and the record of a definition.
    pub(super) fn record(&self, kind: StoredKind, id: &str) -> Option<(u64, &DefinitionRecord)> {
        match kind {
            StoredKind::Account => self.accounts.get(id).map(|it| (it.version, &it.record)),
            StoredKind::Campaign => self.campaigns.get(id).map(|it| (it.version, &it.record)),
        }
    }

    pub(super) fn view(&self, kind: StoredKind, id: &str) -> Option<Value> {
        let (version, record) = self.record(kind, id)?;
        let campaign = self.campaigns.get(id).filter(|_| kind == StoredKind::Campaign);
        let campaign = campaign.and_then(|entry| entry.value.as_ref());
        let notes = campaign.map_or(&[][..], |campaign| &campaign.notes);
        Some(view(id, version, record, notes))
    }
}

fn always(is_paused: bool) -> CampaignBudget {
    CampaignBudget {
        limits: BudgetLimits::default(),
        start_unix_ms: 0,
        end_unix_ms: ENDLESS_UNIX_MS,
        daypart: Daypart::ALWAYS,
        late_holdback: Holdback::default(),
        is_paused,
    }
}

pub(super) fn view(
    id: &str,
    version: u64,
    record: &DefinitionRecord,
    warnings: &[String],
) -> Value {
    let view = DefinitionView {
        id,
        version,
        slot: record.slot.map(|slot| slot.0),
        file: record.origin.file().map(|path| path.display().to_string()),
        lot: record.origin == RecordOrigin::Lot,
        removed: record.is_removed,
        definition: record.in_force(),
        held: record.overrides.keys().collect(),
        warnings,
    };
    serde_json::to_value(view).expect("the names of members are text")
}

/// The current definition, as the API shows it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DefinitionView<'v> {
    id: &'v str,
    /// Grows by one with every change; also the ETag.
    version: u64,
    /// The ledger's permanent number; null for an account that never had seats.
    slot: Option<u32>,
    /// The file that defines it; null if the API does.
    file: Option<String>,
    /// Whether it counts what a sold lot delivers; then it cannot be changed. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lot: bool,
    removed: bool,
    #[schemars(skip)]
    definition: Map<String, Value>,
    /// Keys that the API has overridden, until the file changes them.
    held: Vec<&'v str>,
    /// Notes on its interpretation, and limits below the present spend.
    warnings: &'v [String],
}
