//! The operator, who defines accounts and campaigns and changes them at any time. Definitions
//! outlive processes.

use pacer_core::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback,
    LedgerInput, Money, ZoneId,
};
use pacer_core::messages::CampaignIndex;
use units::{Currency, Nanos, Ppm};

use super::options::BudgetScenario;
use super::zone::DAY_MS;
use faults::Chance;

const CURRENCIES: [Currency; 2] = [Currency::USD, Currency::parse("EUR").expect("three letters")];

/// All current definitions.
#[derive(Clone, Debug)]
pub(super) struct SimOperator {
    pub(super) accounts: Vec<AccountTerms>,
    pub(super) campaigns: Vec<CampaignTerms>,
}

pub(super) fn currency_of(account: u32) -> Currency {
    CURRENCIES[usize::try_from(account).expect("an index") % CURRENCIES.len()]
}

fn money(account: u32, amount: u64) -> Option<Money> {
    Some(Money { amount: Nanos::new(amount), currency: currency_of(account) })
}

impl SimOperator {
    pub(super) fn new(options: &BudgetScenario, chance: &mut Chance) -> Self {
        let accounts = u32::try_from(options.zones.len()).expect("few");
        let account = |id: u32, chance: &mut Chance| AccountTerms {
            id: AccountId(id),
            version: 1,
            currency: currency_of(id),
            zone: ZoneId(id),
            limits: BudgetLimits {
                life: money(id, chance.within(6_000..=20_000)),
                day: money(id, chance.within(1_000..=3_000)),
                hour: money(id, chance.within(400..=1_500)).filter(|_| chance.happens(500_000)),
            },
            late_holdback: holdback(chance),
            is_paused: false,
        };
        let campaign = |slot: u32, chance: &mut Chance| {
            let id = slot % accounts;
            let maybe = |limit: Option<Money>, chance: &mut Chance| {
                limit.filter(|_| chance.happens(600_000))
            };
            let limits = BudgetLimits {
                life: maybe(money(id, chance.within(3_000..=12_000)), chance),
                day: maybe(money(id, chance.within(500..=2_000)), chance),
                hour: maybe(money(id, chance.within(150..=900)), chance),
            };
            CampaignTerms {
                slot: CampaignIndex(slot),
                version: 1,
                account: AccountId(id),
                budget: CampaignBudget {
                    limits,
                    start_unix_ms: 0,
                    end_unix_ms: options.start_unix_ms + 400 * DAY_MS,
                    daypart: Daypart::ALWAYS,
                    late_holdback: holdback(chance),
                    is_paused: false,
                },
            }
        };
        Self {
            accounts: (0..accounts).map(|id| account(id, chance)).collect(),
            campaigns: (0..options.campaigns).map(|slot| campaign(slot, chance)).collect(),
        }
    }

    /// All definitions, for a ledger that has none.
    pub(super) fn all(&self) -> Vec<LedgerInput> {
        let accounts = self.accounts.iter().map(|it| LedgerInput::Account(*it));
        accounts.chain(self.campaigns.iter().map(|it| LedgerInput::Campaign(*it))).collect()
    }

    /// Changes one definition and returns it.
    pub(super) fn edit(&mut self, unix_ms: u64, chance: &mut Chance) -> LedgerInput {
        let campaigns = self.campaigns.len() as u64;
        let which = chance.within(0..=campaigns + self.accounts.len() as u64 - 1);
        let which = usize::try_from(which).expect("an index");
        let Some(campaign) = self.campaigns.get_mut(which) else {
            let account = &mut self.accounts[which - self.campaigns.len()];
            account.version += 1;
            match chance.within(0..=9) {
                0 => account.is_paused = !account.is_paused,
                1 => account.late_holdback = holdback(chance),
                _ => change(&mut account.limits, chance),
            }
            return LedgerInput::Account(*account);
        };
        campaign.version += 1;
        match chance.within(0..=9) {
            0 => campaign.budget.is_paused = !campaign.budget.is_paused,
            1 => {
                campaign.budget.start_unix_ms = unix_ms - 1_000 + chance.within(0..=20_000);
            }
            2 => campaign.budget.end_unix_ms = unix_ms + chance.within(1_000..=DAY_MS),
            3 => {
                let hours = (0..168).filter(|_| chance.happens(700_000));
                campaign.budget.daypart = hours.fold(Daypart::NEVER, Daypart::with);
            }
            4 => campaign.budget.late_holdback = holdback(chance),
            _ => change(&mut campaign.budget.limits, chance),
        }
        if campaign.budget.end_unix_ms <= campaign.budget.start_unix_ms {
            campaign.budget.end_unix_ms = campaign.budget.start_unix_ms + DAY_MS;
        }
        LedgerInput::Campaign(*campaign)
    }

    /// Lets every campaign spend until a time.
    pub(super) fn open(&mut self, until_unix_ms: u64) {
        for account in &mut self.accounts {
            account.version += 1;
            account.is_paused = false;
        }
        for campaign in &mut self.campaigns {
            campaign.version += 1;
            campaign.budget.is_paused = false;
            (campaign.budget.start_unix_ms, campaign.budget.end_unix_ms) = (0, until_unix_ms);
            campaign.budget.daypart = Daypart::ALWAYS;
        }
    }
}

fn holdback(chance: &mut Chance) -> Holdback {
    let share = chance.one_of(&[0, 0, 50_000, 200_000]);
    Holdback::Share(Ppm::new(share).expect("a share"))
}

/// Scales one limit by a factor of 0.4 to 1.6.
fn change(limits: &mut BudgetLimits, chance: &mut Chance) {
    let limit = match chance.within(0..=2) {
        0 => &mut limits.life,
        1 => &mut limits.day,
        _ => &mut limits.hour,
    };
    if let Some(money) = limit {
        let tenths = chance.within(4..=16);
        money.amount = Nanos::new(money.amount.get() * tenths / 10 + 1);
    }
}
