//! How accounts and campaigns stand: what is spent, what keeps them from it, how campaigns bid; and what
//! was changed.
//!
//! Owns who is asked for what. The figures are the ledger's.

use std::collections::BTreeMap;

use pacer_core::ledger::{AccountDiagnosis, Spend, SpendDiagnosis};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, PacingCurve};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{AuditEntry, AuditKey, StoreQuery, StoredKind};
use units::{Cpm, Currency};

use super::books::record::RecordOrigin;
use super::edits::unknown;
use super::refused::ChangeRefusal;
use super::{CampaignRules, Registry, RegistryState};
use crate::ledger::handle::{DeliveryProgress, LedgerError, LedgerQuery, ReplySender};

/// Campaigns that are asked about at once: a turn takes about a microsecond for each.
const REFUSALS_MAX: usize = 1_000;
/// And whose spend is asked for at once, which takes some microseconds for each.
const DELIVERIES_MAX: usize = 200;

/// Why a campaign does not spend, and how it bids.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignStanding {
    /// Why.
    pub why: SpendDiagnosis,
    /// How, by its strategy; nothing before that has begun.
    pub bidding: Option<BiddingStatus>,
    /// What it bids for 1000 impressions at a multiplier of 1; nothing of one that is removed.
    pub amount: Option<Cpm>,
    /// Of its account, where that is known.
    pub currency: Option<Currency>,
    /// As the ledger numbers it.
    pub slot: CampaignIndex,
    /// Whether it is defined no more.
    pub is_removed: bool,
    /// Whether what is kept of it cannot be read: nothing of it is spent then.
    pub is_unread: bool,
    /// Its account, if that is what is paused.
    pub paused_account: Option<String>,
    /// The file that defines it, if that is refused as it is now: what it said before is in force.
    pub refused_file: Option<String>,
    /// Now, in milliseconds since 1970.
    pub now_unix_ms: u64,
}

/// Why an account as a whole does not spend, and how many of its campaigns do.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountStanding {
    /// Why.
    pub why: AccountDiagnosis,
    /// Why its seats do not; nothing where it has none.
    pub seats: Option<Option<SpendRefusal>>,
    /// How many campaigns, by the first reason that holds for each.
    pub campaigns: BTreeMap<Option<SpendRefusal>, u64>,
    /// Where that is known.
    pub currency: Option<Currency>,
}

impl<R: CampaignRules> Registry<R> {
    /// Why a campaign does not spend, and how it bids.
    ///
    /// # Errors
    ///
    /// When it is unknown, or the ledger does not answer.
    pub fn why(&self, id: &str) -> Result<CampaignStanding, ChangeRefusal> {
        let slot = self.inner.slot(id)?;
        let why = self.inner.ask_of(slot, LedgerQuery::Why)?;
        let bidding = self.inner.ask_of(slot, LedgerQuery::Bidding)?;
        let books = self.inner.books();
        let entry = books.campaigns.get(id).ok_or_else(|| unknown(StoredKind::Campaign, id))?;
        let is_removed = entry.record.is_removed;
        let campaign = entry.value.as_ref().filter(|_| !is_removed);
        let account = campaign.and_then(|campaign| books.accounts.get(&*campaign.account));
        let account = account.and_then(|entry| entry.value.as_ref());
        let refused_file = match &entry.record.origin {
            RecordOrigin::Api => None,
            RecordOrigin::File(file) => Some(file.display().to_string()),
        };
        let is_refused = |file: &String| {
            self.refused_files().iter().any(|problem| problem.file.as_ref() == Some(file))
        };
        Ok(CampaignStanding {
            why,
            bidding,
            amount: campaign.map(|campaign| campaign.rules.amount()),
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
    ///
    /// When it is unknown, or the ledger does not answer.
    pub fn why_account(&self, id: &str) -> Result<AccountStanding, ChangeRefusal> {
        let (_, record) = self.inner.record(StoredKind::Account, id)?;
        let (number, has_seats, slots) = {
            let books = self.inner.books();
            let number = books.number_of(id).ok_or_else(|| unknown(StoredKind::Account, id))?;
            let account = books.accounts.get(id).and_then(|entry| entry.value.as_ref());
            let has_seats = account.is_some_and(|account| !account.seats.is_empty());
            let campaigns = books.campaigns.values().filter(|entry| !entry.record.is_removed);
            let theirs = campaigns.filter_map(|entry| {
                let campaign = entry.value.as_ref().filter(|campaign| *campaign.account == *id);
                campaign.and(entry.record.slot)
            });
            (number, has_seats, theirs.collect::<Vec<_>>())
        };
        let seats = record.slot.filter(|_| has_seats);
        let seats = seats.map(|slot| self.inner.ask_of(slot, LedgerQuery::Why)).transpose()?;
        let seats = seats.map(|why| why.refusal);
        let why = self.inner.ask_of(number, LedgerQuery::WhyAccount)?;
        let of = (&slots[..], REFUSALS_MAX);
        let refusals = self.inner.ledger.ask_of_many(of, LedgerQuery::Refusals)?;
        let mut campaigns = BTreeMap::new();
        for refusal in refusals {
            *campaigns.entry(refusal).or_default() += 1;
        }
        Ok(AccountStanding {
            why,
            seats,
            campaigns,
            currency: self.currency(StoredKind::Account, id),
        })
    }

    /// How far each of these campaigns has come in spending, by their ids; those that have no number, or
    /// are removed, are not there.
    ///
    /// # Errors
    ///
    /// When the ledger does not answer.
    pub fn deliveries(
        &self,
        ids: &[String],
    ) -> Result<Vec<(String, DeliveryProgress)>, ChangeRefusal> {
        let slots: Vec<(String, CampaignIndex)> = {
            let books = self.inner.books();
            let slot = |id: &String| {
                let entry = books.campaigns.get(id.as_str()).filter(|it| !it.record.is_removed)?;
                Some((id.clone(), entry.record.slot?))
            };
            ids.iter().filter_map(slot).collect()
        };
        let of: Vec<CampaignIndex> = slots.iter().map(|(_, slot)| *slot).collect();
        let of = (&of[..], DELIVERIES_MAX);
        let found = self.inner.ledger.ask_of_many(of, LedgerQuery::Deliveries)?;
        Ok(slots.into_iter().map(|(id, _)| id).zip(found).collect())
    }

    /// What a campaign has spent, or an account as a whole; nothing where the ledger does not know it
    /// yet.
    ///
    /// # Errors
    ///
    /// When it is unknown, or the ledger does not answer.
    pub fn spend(&self, kind: StoredKind, id: &str) -> Result<Option<Spend>, ChangeRefusal> {
        self.inner.spend((kind, id))
    }

    /// How a campaign follows its target; nothing where it has none.
    ///
    /// # Errors
    ///
    /// When it is unknown, or the ledger does not answer.
    pub fn curve(&self, id: &str) -> Result<Option<PacingCurve>, ChangeRefusal> {
        self.inner.ask_of(self.inner.slot(id)?, LedgerQuery::Curve)
    }

    /// In which currency it spends, where that is known.
    pub fn currency(&self, kind: StoredKind, id: &str) -> Option<Currency> {
        let books = self.inner.books();
        let account = match kind {
            StoredKind::Account => id,
            StoredKind::Campaign => &*books.campaigns.get(id)?.value.as_ref()?.account,
        };
        Some(books.accounts.get(account)?.value.as_ref()?.facts.currency)
    }

    /// What was changed, behind an entry or from the first.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    pub fn audit(
        &self,
        after: Option<AuditKey>,
        most: u32,
    ) -> Result<Vec<(AuditKey, AuditEntry)>, ChangeRefusal> {
        Ok(self.inner.ledger.audit(StoreQuery::Audit(after, most))?)
    }
}

impl<R: CampaignRules> RegistryState<R> {
    pub(super) fn spend(
        &self,
        (kind, id): (StoredKind, &str),
    ) -> Result<Option<Spend>, ChangeRefusal> {
        match kind {
            StoredKind::Campaign => self.ask_of(self.slot(id)?, LedgerQuery::Spend),
            StoredKind::Account => {
                let number = self.books().number_of(id);
                self.ask_of(number.ok_or_else(|| unknown(kind, id))?, LedgerQuery::SpendAccount)
            }
        }
    }

    fn ask_of<K, T>(
        &self,
        of: K,
        query: impl FnOnce(K, ReplySender<T>) -> LedgerQuery,
    ) -> Result<T, ChangeRefusal> {
        Ok(self.ledger.ask_of(of, query)?)
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
