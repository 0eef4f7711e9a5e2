//! How a campaign stands: why it does not spend, and what it has spent.

use units::{Currency, Nanos};

use super::Ledger;
use super::campaign::Context;
use super::exchange::index;
use super::level::{Level, Levels};
use super::tally::{HourSum, Sum};
use crate::calendar::Hour;
use crate::messages::{Period, Slot};
use crate::refusal::Refusal;

/// Why a campaign does not spend, and the figures that make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The first reason that holds. A budget counts as spent when all of it is leased: what shards
    /// still hold of it may be spent.
    pub refusal: Option<Refusal>,
    /// Every limit, in order of precedence, the campaign's before its account's. None without an hour.
    pub levels: Option<[Level; 6]>,
    /// The hour of the account's clocks; `None` where its calendar has ended.
    pub hour: Option<Hour>,
    /// The flight, in milliseconds since 1970: its start, and the first one behind it.
    pub flight_unix_ms: (u64, u64),
    /// At shards: free or reserved.
    pub at_shards: Nanos,
    /// Durably leased, and granted to no shard yet.
    pub ready: Nanos,
    /// What dead epochs had outstanding and is not reclaimed yet.
    pub frozen: Nanos,
    /// Whether the last batch was not committed.
    pub is_store_failing: bool,
}

/// What a campaign has spent, late wins and overprices included, as far as shards and the log have
/// told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// In what.
    pub currency: Currency,
    /// In all.
    pub life: Nanos,
    /// Today, by its account's clocks.
    pub today: Nanos,
    /// In this hour.
    pub now: Nanos,
    /// By hours of today, in their order; hours in which nothing was leased are not there.
    pub hours: Vec<HourSpend>,
}

/// What was spent in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourSpend {
    /// The hour.
    pub period: Period,
    /// Spent in it.
    pub spent: Nanos,
}

impl Ledger {
    /// Why a campaign does not spend, if so, and the figures.
    pub fn why(&self, slot: Slot) -> Why {
        let mut why = Why {
            refusal: Some(Refusal::Unknown),
            levels: None,
            hour: None,
            flight_unix_ms: (0, 0),
            at_shards: Nanos::ZERO,
            ready: Nanos::ZERO,
            frozen: Nanos::ZERO,
            is_store_failing: self.is_store_failing,
        };
        let Some(campaign) = self.campaign(slot) else { return why };
        let account = &self.accounts[index(campaign.account)];
        let hour = self.zones.get(&account.zone).and_then(|zone| zone.hour);
        let (settings, now) = (&self.settings, self.now);
        let ctx =
            Context { settings, now, hour, next: None, is_store_failing: self.is_store_failing };
        why.hour = hour;
        why.flight_unix_ms = campaign.flight;
        why.at_shards = Nanos::new(campaign.outstanding());
        why.frozen = Nanos::new(campaign.frozen());
        why.refusal = campaign.closed(account, &ctx);
        let Some(hour) = hour else {
            why.refusal = why.refusal.or(Some(Refusal::LedgerUnavailable));
            return why;
        };
        let levels = Levels::of(campaign, account, &hour);
        let pool = campaign.pool(hour.period);
        let has_none = pool == 0 && (campaign.is_wanted() || campaign.outstanding() == 0);
        let is_unavailable = has_none && (self.is_store_failing || !self.is_replayed);
        why.refusal = why
            .refusal
            .or(levels.refusal().filter(|_| pool == 0))
            .or(is_unavailable.then_some(Refusal::LedgerUnavailable));
        why.ready = Nanos::new(pool);
        why.levels = Some(levels.0);
        why
    }

    /// What a campaign has spent; `None` if there is no such campaign.
    pub fn spend(&self, slot: Slot) -> Option<Spend> {
        let campaign = self.campaign(slot)?;
        let account = &self.accounts[index(campaign.account)];
        let spent = |sum: Sum, unsettled: u64| (sum.held - unsettled).saturating_add(sum.late);
        let spent_in = |hour: &HourSum| {
            let open = campaign.books.iter().find(|book| book.period == hour.period);
            spent(hour.sum, open.map_or(0, |book| book.counted.held - book.settled()))
        };
        let unsettled: u64 =
            campaign.books.iter().map(|book| book.counted.held - book.settled()).sum();
        let hour = self.zones.get(&account.zone).and_then(|zone| zone.hour);
        let day = hour.as_ref().map(super::level::day_of);
        let of_today = campaign.tally.hours.iter().filter(|hour| Some(hour.day) == day);
        let spend =
            |hour: &HourSum| HourSpend { period: hour.period, spent: Nanos::new(spent_in(hour)) };
        let mut hours: Vec<_> = of_today.map(spend).collect();
        hours.sort_by_key(|hour| hour.period);
        let current = |it: &&HourSpend| Some(it.period) == hour.map(|hour| hour.period);
        Some(Spend {
            currency: account.currency,
            life: Nanos::new(spent(campaign.tally.life, unsettled)),
            today: Nanos::new(
                hours.iter().fold(0, |sum, hour| sum.saturating_add(hour.spent.get())),
            ),
            now: hours.iter().find(current).map_or(Nanos::ZERO, |hour| hour.spent),
            hours,
        })
    }
}
