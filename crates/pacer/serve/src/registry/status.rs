//! How accounts and campaigns stand: what they spend, what prevents it, how campaigns bid, and the
//! audit. The figures are the ledger's.

use std::collections::BTreeMap;

use pacer_core::ledger::{AccountDiagnosis, Spend, SpendDiagnosis};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingCurve};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{AuditEntry, AuditKey, StoreQuery, StoredKind};
use units::{Cpm, Currency};

use super::edits::unknown;
use super::refused::ChangeRefusal;
use super::{CampaignRules, Registry};
use crate::ledger::handle::{DeliveryProgress, LedgerError, LedgerQuery};

/// Most campaigns in a query for refusals: a turn takes about a microsecond for each.
const REFUSALS_MAX: usize = 1_000;
/// Most campaigns in a query for deliveries: some microseconds for each.
const DELIVERIES_MAX: usize = 200;

/// Why a campaign does not spend, and how it bids.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignStatus {
    /// The diagnosis.
    pub why: SpendDiagnosis,
    /// How its strategy bids. None before it has begun.
    pub bidding: Option<BiddingStatus>,
    /// Its bid for 1000 impressions at a multiplier of 1. None if it is removed.
    pub amount: Option<Cpm>,
    /// Its account's currency, if known.
    pub currency: Option<Currency>,
    /// Its number in the ledger.
    pub slot: CampaignIndex,
    /// Whether it is removed.
    pub is_removed: bool,
    /// Whether the stored definition is unreadable: it then spends nothing.
    pub is_unread: bool,
    /// Its account, if that is paused.
    pub paused_account: Option<String>,
    /// Its file, if the current text is refused: the earlier one is in force.
    pub refused_file: Option<String>,
    /// Now, in milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// Why an account as a whole does not spend, and how many of its campaigns do.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountStatus {
    /// The diagnosis.
    pub why: AccountDiagnosis,
    /// Why its seats do not spend. None if it has no seats.
    pub seats: Option<Option<SpendRefusal>>,
    /// Campaigns counted by their first reason.
    pub campaigns: BTreeMap<Option<SpendRefusal>, u64>,
    /// Its currency, if known.
    pub currency: Option<Currency>,
}

impl<R: CampaignRules> Registry<R> {
    /// Why a campaign does not spend, and how it bids.
    ///
    /// # Errors
    /// If it is unknown, or the ledger does not answer.
    pub fn why(&self, id: &str) -> Result<CampaignStatus, ChangeRefusal> {
        let (slot, ledger) = (self.slot(id)?, &self.inner.ledger);
        let why = ledger.ask_of(slot, LedgerQuery::Why)?;
        let bidding = ledger.ask_of(slot, LedgerQuery::Bidding)?;
        let definitions = self.inner.definitions();
        let entry =
            definitions.campaigns.get(id).ok_or_else(|| unknown(StoredKind::Campaign, id))?;
        let is_removed = entry.record.is_removed;
        let campaign = entry.value.as_ref().filter(|_| !is_removed);
        let account = campaign.and_then(|campaign| definitions.accounts.get(&*campaign.account));
        let account = account.and_then(|entry| entry.value.as_ref());
        let refused_file = entry.record.origin.file().map(|file| file.display().to_string());
        let is_refused = |file: &String| {
            self.refused_files().iter().any(|problem| problem.file.as_ref() == Some(file))
        };
        Ok(CampaignStatus {
            why,
            bidding,
            amount: campaign.and_then(|campaign| campaign.rules.amount()),
            currency: account.map(|account| account.facts.currency),
            slot,
            is_removed,
            is_unread: !is_removed && campaign.is_none(),
            paused_account: account.filter(|it| it.is_paused).map(|it| it.id.clone()),
            refused_file: refused_file.filter(is_refused),
            now_unix_ms: (self.inner.clock)(),
        })
    }

    /// Why an account as a whole does not spend, and how many of its campaigns do.
    ///
    /// # Errors
    /// If it is unknown, or the ledger does not answer.
    pub fn why_account(&self, id: &str) -> Result<AccountStatus, ChangeRefusal> {
        let (_, record) = self.record(StoredKind::Account, id)?;
        let (number, has_seats, slots) = {
            let definitions = self.inner.definitions();
            let number =
                definitions.account_id(id).ok_or_else(|| unknown(StoredKind::Account, id))?;
            let account = definitions.accounts.get(id).and_then(|entry| entry.value.as_ref());
            let has_seats = account.is_some_and(|account| !account.seats.is_empty());
            let campaigns = definitions.campaigns.values().filter(|entry| !entry.record.is_removed);
            let theirs = campaigns.filter_map(|entry| {
                let campaign = entry.value.as_ref().filter(|campaign| *campaign.account == *id);
                campaign.and(entry.record.slot)
            });
            (number, has_seats, theirs.collect::<Vec<_>>())
        };
        let seats = record.slot.filter(|_| has_seats);
        let ledger = &self.inner.ledger;
        let seats = seats.map(|slot| ledger.ask_of(slot, LedgerQuery::Why)).transpose()?;
        let seats = seats.map(|why| why.refusal);
        let why = ledger.ask_of(number, LedgerQuery::WhyAccount)?;
        let refusals = ledger.ask_of_many(&slots, REFUSALS_MAX, LedgerQuery::Refusals)?;
        let mut campaigns = BTreeMap::new();
        for refusal in refusals {
            *campaigns.entry(refusal).or_default() += 1;
        }
        Ok(AccountStatus {
            why,
            seats,
            campaigns,
            currency: self.currency(StoredKind::Account, id),
        })
    }

    /// Progress of these campaigns, without those that are removed or have no number.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub fn deliveries(
        &self,
        ids: &[String],
    ) -> Result<Vec<(String, DeliveryProgress)>, ChangeRefusal> {
        let slots: Vec<(String, CampaignIndex)> = {
            let definitions = self.inner.definitions();
            let slot = |id: &String| {
                let entry =
                    definitions.campaigns.get(id.as_str()).filter(|it| !it.record.is_removed)?;
                Some((id.clone(), entry.record.slot?))
            };
            ids.iter().filter_map(slot).collect()
        };
        let of: Vec<CampaignIndex> = slots.iter().map(|(_, slot)| *slot).collect();
        let ledger = &self.inner.ledger;
        let found = ledger.ask_of_many(&of, DELIVERIES_MAX, LedgerQuery::Deliveries)?;
        Ok(slots.into_iter().map(|(id, _)| id).zip(found).collect())
    }

    /// What a campaign or an account has spent. None if the ledger does not know it yet.
    ///
    /// # Errors
    /// If it is unknown, or the ledger does not answer.
    pub fn spend(&self, kind: StoredKind, id: &str) -> Result<Option<Spend>, ChangeRefusal> {
        let ledger = &self.inner.ledger;
        Ok(match kind {
            StoredKind::Campaign => ledger.ask_of(self.slot(id)?, LedgerQuery::Spend)?,
            StoredKind::Account => {
                let number =
                    self.inner.definitions().account_id(id).ok_or_else(|| unknown(kind, id))?;
                ledger.ask_of(number, LedgerQuery::SpendAccount)?
            }
        })
    }

    /// A campaign's target curve and its spend. None if it has no target.
    ///
    /// # Errors
    /// If it is unknown, or the ledger does not answer.
    pub fn curve(&self, id: &str) -> Result<Option<PacingCurve>, ChangeRefusal> {
        Ok(self.inner.ledger.ask_of(self.slot(id)?, LedgerQuery::Curve)?)
    }

    /// Its currency, if known.
    pub fn currency(&self, kind: StoredKind, id: &str) -> Option<Currency> {
        let definitions = self.inner.definitions();
        let account = match kind {
            StoredKind::Account => id,
            StoredKind::Campaign => &*definitions.campaigns.get(id)?.value.as_ref()?.account,
        };
        Some(definitions.accounts.get(account)?.value.as_ref()?.facts.currency)
    }

    /// Audit entries after `after`, or from the first.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, ChangeRefusal> {
        Ok(self.inner.ledger.audit(StoreQuery::Audit(after, most))?)
    }

    fn slot(&self, campaign: &str) -> Result<CampaignIndex, ChangeRefusal> {
        let (_, record) = self.record(StoredKind::Campaign, campaign)?;
        record.slot.ok_or_else(|| unknown(StoredKind::Campaign, campaign))
    }
}

impl From<LedgerError> for ChangeRefusal {
    fn from(error: LedgerError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
