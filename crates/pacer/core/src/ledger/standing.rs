//! The state of a campaign or an account: why it does not spend, and its spend.

use std::collections::BTreeMap;

use units::{Currency, Nanos};

use super::Ledger;
use super::account::LedgerAccount;
use super::campaign::LedgerCampaign;
use super::limits::definition::{AccountId, LimitSpan};
use super::limits::level::{LimitLevel, LimitLevels};
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
    /// On hold for standing bids of lots. Zero for a campaign.
    pub held: Nanos,
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

impl Spend {
    /// Spend in the present span.
    pub const fn of(&self, span: LimitSpan) -> Nanos {
        match span {
            LimitSpan::Life => self.life,
            LimitSpan::Day => self.today,
            LimitSpan::Hour => self.now,
        }
    }
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
        let Some(campaign) = self.campaign(slot) else { return self.diagnosis_of_unknown() };
        let account = &self.accounts[index(campaign.account)];
        let hour = self.hour_of(account);
        let budget = &campaign.definition.budget;
        let pool = hour.map_or(0, |hour| campaign.pool(hour.period));
        let levels = hour.map(|hour| campaign.levels(account, &hour));
        let used_up = levels.as_ref().and_then(LimitLevels::refusal).filter(|_| pool == 0);
        let has_none = pool == 0 && (campaign.is_wanted() || campaign.outstanding() == 0);
        let closed = campaign.closed_at(account, self.now.unix_ms, hour.as_ref());
        SpendDiagnosis {
            refusal: closed.or(used_up).or(self.unavailable(hour.is_none(), has_none)),
            levels: levels.map(|levels| levels.0),
            hour,
            flight: CampaignFlight { start_ms: budget.start_unix_ms, end_ms: budget.end_unix_ms },
            at_shards: Nanos::new(campaign.outstanding()),
            ready: Nanos::new(pool),
            frozen: Nanos::new(campaign.frozen()),
            held: Nanos::ZERO,
            is_store_failing: self.is_store_failing,
        }
    }

    /// Why an account as a whole does not spend, if so, and the figures.
    pub fn why_account(&self, id: AccountId) -> AccountDiagnosis {
        let Some(account) = self.account(id) else { return self.diagnosis_of_unknown() };
        let hour = self.hour_of(account);
        let sum = |of: &dyn Fn(&LedgerCampaign) -> u64| {
            self.members(account).fold(0, |sum: u64, it| sum.saturating_add(of(it)))
        };
        let pool = hour.map_or(0, |hour| sum(&|campaign| campaign.pool(hour.period)));
        let at_shards = sum(&LedgerCampaign::outstanding);
        let levels = hour.map(|hour| account.levels(&hour));
        let is_used_up = |level: &&LimitLevel| level.headroom() == Some(Nanos::ZERO);
        let used_up = levels.iter().flatten().find(is_used_up).filter(|_| pool == 0);
        let paused = account.definition.is_paused.then_some(SpendRefusal::Paused);
        let unavailable = self.unavailable(hour.is_none(), pool == 0 && at_shards == 0);
        AccountDiagnosis {
            refusal: paused.or(used_up.map(LimitLevel::refusal)).or(unavailable),
            levels,
            hour,
            flight: CampaignFlight::default(),
            at_shards: Nanos::new(at_shards),
            ready: Nanos::new(pool),
            frozen: Nanos::new(sum(&LedgerCampaign::frozen)),
            held: Nanos::new(account.held.values().fold(0, |sum, held| sum.saturating_add(*held))),
            is_store_failing: self.is_store_failing,
        }
    }

    fn diagnosis_of_unknown<const LEVELS: usize>(&self) -> SpendDiagnosis<LEVELS> {
        let (refusal, is_store_failing) = (Some(SpendRefusal::Unknown), self.is_store_failing);
        SpendDiagnosis { refusal, is_store_failing, ..SpendDiagnosis::default() }
    }

    fn hour_of(&self, account: &LedgerAccount) -> Option<CalendarHour> {
        self.zones.get(&account.definition.zone).and_then(|zone| zone.hour)
    }

    /// The refusal of the ledger itself: its calendar has ended, or it cannot lease more.
    fn unavailable(&self, is_hourless: bool, has_none: bool) -> Option<SpendRefusal> {
        let cannot_lease = self.is_store_failing || !self.is_replayed;
        (is_hourless || has_none && cannot_lease).then_some(SpendRefusal::LedgerUnavailable)
    }

    /// Spend of all campaigns and seats of an account. None if the account does not exist.
    pub fn spend_account(&self, id: AccountId) -> Option<Spend> {
        let account = self.account(id)?;
        let mut unsettled: BTreeMap<Period, u64> = BTreeMap::new();
        for book in self.members(account).flat_map(|campaign| &campaign.books) {
            let sum = unsettled.entry(book.period).or_default();
            *sum = sum.saturating_add(book.counted.held - book.settled());
        }
        for (period, held) in &account.held {
            let sum = unsettled.entry(*period).or_default();
            *sum = sum.saturating_add(*held);
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
        let hour = self.hour_of(account);
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
