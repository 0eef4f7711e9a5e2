//! The state of a campaign or an account: why it does not spend, and its spend.

use std::collections::BTreeMap;

use units::{Currency, Nanos};

use super::Ledger;
use super::account::LedgerAccount;
use super::campaign::LedgerCampaign;
use super::limits::definition::AccountId;
use super::limits::level::LimitLevel;
use super::limits::tally::{Exposure, ExposureTally, HourExposure};
use crate::calendar::{CalendarHour, Period};
use crate::messages::{CampaignIndex, index};
use crate::refusal::SpendRefusal;
use crate::strategy::CampaignFlight;

/// Why a campaign does not spend, with the relevant figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendDiagnosis<const LEVELS: usize = 6> {
    /// The first refusal that applies. A fully leased budget counts as spent, although shards may
    /// still spend their part. None if it may spend.
    pub refusal: Option<SpendRefusal>,
    /// Every limit, in order of precedence: the campaign's before its account's. None without an
    /// hour.
    pub levels: Option<[LimitLevel; LEVELS]>,
    /// The hour on the account's clocks. None if its calendar has ended.
    pub hour: Option<CalendarHour>,
    /// The flight. Zeros for an account.
    pub flight: CampaignFlight,
    /// At shards: free or reserved.
    pub at_shards: Nanos,
    /// Durably leased, and not granted to a shard yet.
    pub ready: Nanos,
    /// Outstanding in dead epochs, and not reclaimed yet.
    pub frozen: Nanos,
    /// Whether the last batch was not committed.
    pub is_store_failing: bool,
}

/// Why an account as a whole does not spend. Its campaigns may have reasons of their own.
pub type AccountDiagnosis = SpendDiagnosis<3>;

/// Spend of a campaign or an account, late wins included, as reported so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// The currency.
    pub currency: Currency,
    /// In total.
    pub life: Nanos,
    /// Today, on the account's clocks.
    pub today: Nanos,
    /// In this hour.
    pub now: Nanos,
    /// By hour of today. Hours without leases, or folded before the start, are only in `today`.
    pub hours: Vec<HourSpend>,
}

/// Spend in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourSpend {
    /// The hour.
    pub period: Period,
    /// The spend.
    pub spent: Nanos,
}

impl Ledger {
    /// Why a campaign does not spend, if so, and the figures.
    pub fn why(&self, slot: CampaignIndex) -> SpendDiagnosis {
        let is_store_failing = self.is_store_failing;
        let unknown = Some(SpendRefusal::Unknown);
        let mut why =
            SpendDiagnosis { refusal: unknown, is_store_failing, ..SpendDiagnosis::default() };
        let Some(campaign) = self.campaign(slot) else { return why };
        let account = &self.accounts[index(campaign.account)];
        let hour = self.zones.get(&account.definition.zone).and_then(|zone| zone.hour);
        why.hour = hour;
        let budget = &campaign.definition.budget;
        why.flight = CampaignFlight { start_ms: budget.start_unix_ms, end_ms: budget.end_unix_ms };
        why.at_shards = Nanos::new(campaign.outstanding());
        why.frozen = Nanos::new(campaign.frozen());
        why.refusal = campaign.closed_at(account, self.now.unix_ms, hour.as_ref());
        let Some(hour) = hour else {
            why.refusal = why.refusal.or(Some(SpendRefusal::LedgerUnavailable));
            return why;
        };
        let levels = campaign.levels(account, &hour);
        let pool = campaign.pool(hour.period);
        let has_none = pool == 0 && (campaign.is_wanted() || campaign.outstanding() == 0);
        let is_unavailable = has_none && (self.is_store_failing || !self.is_replayed);
        why.refusal = why
            .refusal
            .or(levels.refusal().filter(|_| pool == 0))
            .or(is_unavailable.then_some(SpendRefusal::LedgerUnavailable));
        why.ready = Nanos::new(pool);
        why.levels = Some(levels.0);
        why
    }

    /// Why an account as a whole does not spend, if so, and the figures.
    pub fn why_account(&self, id: AccountId) -> AccountDiagnosis {
        let is_store_failing = self.is_store_failing;
        let unknown = Some(SpendRefusal::Unknown);
        let mut why =
            AccountDiagnosis { refusal: unknown, is_store_failing, ..AccountDiagnosis::default() };
        let Some(account) = self.account(id) else { return why };
        why.hour = self.zones.get(&account.definition.zone).and_then(|zone| zone.hour);
        let sum = |of: &dyn Fn(&LedgerCampaign) -> u64| {
            Nanos::new(self.members(account).fold(0, |sum: u64, it| sum.saturating_add(of(it))))
        };
        why.at_shards = sum(&LedgerCampaign::outstanding);
        why.frozen = sum(&LedgerCampaign::frozen);
        why.refusal = account.definition.is_paused.then_some(SpendRefusal::Paused);
        let Some(hour) = why.hour else {
            why.refusal = why.refusal.or(Some(SpendRefusal::LedgerUnavailable));
            return why;
        };
        why.ready = sum(&|campaign| campaign.pool(hour.period));
        let levels = account.levels(&hour);
        let used_up = levels.iter().find(|level| level.headroom() == Some(Nanos::ZERO));
        let has_none = why.ready == Nanos::ZERO;
        let is_unavailable = has_none
            && why.at_shards == Nanos::ZERO
            && (self.is_store_failing || !self.is_replayed);
        why.refusal = why
            .refusal
            .or(used_up.filter(|_| has_none).map(LimitLevel::refusal))
            .or(is_unavailable.then_some(SpendRefusal::LedgerUnavailable));
        why.levels = Some(levels);
        why
    }

    /// Spend of all campaigns and seats of an account. None if the account does not exist.
    pub fn spend_account(&self, id: AccountId) -> Option<Spend> {
        let account = self.account(id)?;
        let mut unsettled: BTreeMap<Period, u64> = BTreeMap::new();
        for book in self.members(account).flat_map(|campaign| &campaign.books) {
            let sum = unsettled.entry(book.period).or_default();
            *sum = sum.saturating_add(book.counted.held - book.settled());
        }
        let of = |period| unsettled.get(&period).copied().unwrap_or(0);
        Some(self.spent(account, &account.tally, of, unsettled.values().sum()))
    }

    fn account(&self, id: AccountId) -> Option<&LedgerAccount> {
        self.account_at.get(&id).map(|at| &self.accounts[index(*at)])
    }

    fn members<'l>(
        &'l self,
        account: &'l LedgerAccount,
    ) -> impl Iterator<Item = &'l LedgerCampaign> {
        account.members.iter().filter_map(|slot| self.campaign(*slot))
    }

    /// Spend of a campaign. None if the campaign does not exist.
    pub fn spend(&self, slot: CampaignIndex) -> Option<Spend> {
        let campaign = self.campaign(slot)?;
        let account = &self.accounts[index(campaign.account)];
        let open = |period| campaign.books.iter().find(|book| book.period == period);
        let of = |period| open(period).map_or(0, |book| book.counted.held - book.settled());
        let all = campaign.books.iter().map(|book| book.counted.held - book.settled()).sum();
        Some(self.spent(account, &campaign.tally, of, all))
    }

    /// Spend from the tally of exposure, less the unsettled part, by period and in total.
    fn spent(
        &self,
        account: &LedgerAccount,
        tally: &ExposureTally,
        unsettled: impl Fn(Period) -> u64,
        unsettled_in_all: u64,
    ) -> Spend {
        let spent = |sum: Exposure, unsettled: u64| (sum.held - unsettled).saturating_add(sum.late);
        let hour = self.zones.get(&account.definition.zone).and_then(|zone| zone.hour);
        let day = hour.map(|hour| hour.day);
        let of_today = tally.hours.iter().filter(|hour| Some(hour.day) == day);
        let spend = |hour: &HourExposure| {
            let spent = spent(hour.sum, unsettled(hour.period));
            HourSpend { period: hour.period, spent: Nanos::new(spent) }
        };
        let mut hours: Vec<_> = of_today.map(spend).collect();
        hours.sort_by_key(|hour| hour.period);
        let folded = day.map_or(0, |day| tally.folded(day).exposure());
        let current = |it: &&HourSpend| Some(it.period) == hour.map(|hour| hour.period);
        Spend {
            currency: account.definition.currency,
            life: Nanos::new(spent(tally.life, unsettled_in_all)),
            today: Nanos::new(
                hours.iter().fold(folded, |sum, hour| sum.saturating_add(hour.spent.get())),
            ),
            now: hours.iter().find(current).map_or(Nanos::ZERO, |hour| hour.spent),
            hours,
        }
    }
}
