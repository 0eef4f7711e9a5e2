//! The limits that an amount counts towards: the campaign's account, and the hour and day of a time
//! in its zone. Computed independently of the cores, to check theirs.

use pacer_core::calendar::{CalendarHour, Period, QUARTER_MS};
use pacer_core::ledger::BudgetLimits;
use pacer_core::messages::CampaignIndex;

use super::zone::SimZone;

/// The owner of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimLimitOwner {
    Campaign(u32),
    Account(u32),
}

/// The period of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimLimitSpan {
    Life,
    Day(u32),
    Hour(Period),
}

pub(super) type SimLimit = (SimLimitOwner, SimLimitSpan);

/// Accounts and their campaigns.
#[derive(Clone, Debug)]
pub(super) struct SimAccounts {
    zones: Vec<SimZone>,
}

impl SimAccounts {
    pub(super) fn new(zones: Vec<SimZone>) -> Self {
        Self { zones }
    }

    /// Campaigns are dealt to the accounts in turn.
    pub(super) fn account(&self, slot: CampaignIndex) -> u32 {
        slot.0 % u32::try_from(self.zones.len()).expect("few accounts")
    }

    /// The calendar hour in the account's zone.
    pub(super) fn hour(&self, slot: CampaignIndex, unix_ms: u64) -> CalendarHour {
        self.zone(self.account(slot)).hour(unix_ms)
    }

    pub(super) fn zone(&self, account: u32) -> SimZone {
        self.zones[usize::try_from(account).expect("an index")]
    }

    /// The limits that an amount of a campaign and period counts towards.
    pub(super) fn levels(&self, slot: CampaignIndex, period: Period) -> [SimLimit; 6] {
        let day = self.hour(slot, start_of(period)).day;
        let account = self.account(slot);
        let spans = [SimLimitSpan::Life, SimLimitSpan::Day(day), SimLimitSpan::Hour(period)];
        std::array::from_fn(|at| match at % 2 {
            0 => (SimLimitOwner::Campaign(slot.0), spans[at / 2]),
            _ => (SimLimitOwner::Account(account), spans[at / 2]),
        })
    }
}

pub(super) fn start_of(period: Period) -> u64 {
    u64::from(period.0) * QUARTER_MS
}

/// The limit of a span, or `u64::MAX` if there is none.
pub(super) fn limit_of(limits: &BudgetLimits, span: SimLimitSpan) -> u64 {
    let limit = match span {
        SimLimitSpan::Life => limits.life,
        SimLimitSpan::Day(_) => limits.day,
        SimLimitSpan::Hour(_) => limits.hour,
    };
    limit.map_or(u64::MAX, |limit| limit.amount.get())
}
