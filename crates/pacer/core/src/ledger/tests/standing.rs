//! The diagnosis and spend of an account as a whole, besides those of its campaigns.

use units::Nanos;

use super::refusals::{Desk, SLOT, account, campaign, usd};
use crate::calendar::QUARTER_MS;
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::LedgerInput;
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Holdback, LimitOwner,
    LimitSpan,
};
use crate::messages::{CampaignIndex, Epoch};
use crate::refusal::SpendRefusal;
use crate::store::CommitOutcome;

const ID: AccountId = AccountId(0);
const OTHER: CampaignIndex = CampaignIndex(1);

/// An account with these limits and two campaigns; `of_campaigns` limits the day of each.
fn desk(limits: BudgetLimits, of_campaigns: u64) -> Desk {
    let limited = BudgetLimits { day: usd(of_campaigns), ..BudgetLimits::default() };
    let first = CampaignTerms {
        budget: CampaignBudget { limits: limited, ..campaign().budget },
        ..campaign()
    };
    let mut desk = Desk::defined(2, AccountTerms { limits, ..account() }, first);
    let second = CampaignTerms { slot: OTHER, ..first };
    desk.step(vec![LedgerInput::Campaign(second)]);
    desk
}

#[test]
fn an_account_has_spent_what_its_campaigns_have() {
    let mut desk = desk(BudgetLimits::default(), 1_000);
    assert_eq!(desk.ledger.spend_account(AccountId(7)), None);
    let nothing = desk.ledger.spend_account(ID).expect("it is known");
    assert_eq!((nothing.life, nothing.hours.len()), (Nanos::ZERO, 0));
    for (shard, slot) in [(0, SLOT), (1, OTHER)] {
        desk.want(shard, slot, 40);
    }
    desk.pass(3);
    // Each settles a part, and more is late, or above its price.
    desk.report(0, SLOT, [0, 10, 2, 0]);
    desk.report(1, OTHER, [0, 20, 0, 1]);
    let sum = |desk: &Desk| {
        let of = |slot| desk.ledger.spend(slot).expect("it is known");
        let (first, second) = (of(SLOT), of(OTHER));
        let whole = desk.ledger.spend_account(ID).expect("it is known");
        for (part, whole) in [
            ((first.life, second.life), whole.life),
            ((first.today, second.today), whole.today),
            ((first.now, second.now), whole.now),
        ] {
            assert_eq!(part.0.get() + part.1.get(), whole.get(), "{first:?} {second:?}");
        }
        assert_eq!(whole.hours.iter().map(|it| it.spent.get()).sum::<u64>(), whole.today.get());
        (whole.now.get(), whole.today.get(), whole.life.get())
    };
    assert_eq!(sum(&desk), (33, 33, 33));
    // The next hour begins at zero, with spend of its own.
    desk.unix_ms += 4 * QUARTER_MS;
    desk.want(0, SLOT, 40);
    desk.pass(3);
    desk.report(0, SLOT, [0, 5, 0, 0]);
    assert_eq!(sum(&desk), (5, 38, 38));
    desk.unix_ms += 96 * QUARTER_MS;
    desk.pass(1);
    assert_eq!(sum(&desk), (0, 0, 38));
}

#[test]
fn what_an_account_holds_is_what_its_campaigns_hold() {
    let mut desk = desk(BudgetLimits { life: usd(1_000), day: usd(500), hour: None }, 400);
    desk.want(0, SLOT, 40);
    desk.want(1, OTHER, 40);
    desk.pass(3);
    let why = desk.ledger.why_account(ID);
    let parts = [SLOT, OTHER].map(|slot| desk.ledger.why(slot));
    let sum =
        |of: fn(&crate::ledger::SpendDiagnosis) -> Nanos| parts.iter().map(|it| of(it).get()).sum();
    let held: [u64; 3] = [sum(|it| it.at_shards), sum(|it| it.ready), sum(|it| it.frozen)];
    assert_eq!([why.at_shards, why.ready, why.frozen].map(Nanos::get), held);
    assert!(held[0] >= 80, "{held:?}");
    // Only its own limits, in the same form as in its campaigns' levels.
    let levels = why.levels.expect("an hour");
    assert_eq!(levels.map(|level| level.span), [LimitSpan::Life, LimitSpan::Day, LimitSpan::Hour]);
    let of_campaign = parts[0].levels.expect("an hour");
    let theirs = of_campaign.iter().filter(|level| level.owner == LimitOwner::Account);
    assert!(levels.iter().eq(theirs), "{levels:?} {of_campaign:?}");
    assert_eq!(levels[0].outstanding.get(), held[0] + held[1]);
    assert_eq!((why.refusal, why.hour), (None, parts[0].hour));
}

#[test]
fn why_an_account_does_not_spend() {
    let none = BudgetLimits::default();
    let refusal = |desk: &Desk| desk.ledger.why_account(ID).refusal;
    let mut open = desk(none, 1_000);
    assert_eq!(open.ledger.why_account(AccountId(7)).refusal, Some(SpendRefusal::Unknown));
    assert_eq!(refusal(&open), None);
    let mut spent = desk(none, 30);
    spent.want(0, SLOT, 30);
    spent.pass(3);
    assert_eq!(spent.ledger.why(SLOT).refusal, Some(SpendRefusal::DayExhausted));
    assert_eq!(refusal(&spent), None);
    for (limits, want) in [
        (BudgetLimits { life: usd(30), ..none }, SpendRefusal::BudgetExhausted),
        (BudgetLimits { day: usd(30), ..none }, SpendRefusal::DayExhausted),
        (BudgetLimits { hour: usd(30), ..none }, SpendRefusal::HourExhausted),
        // The first of several.
        (BudgetLimits { life: None, day: usd(30), hour: usd(30) }, SpendRefusal::DayExhausted),
    ] {
        let mut desk = desk(limits, 1_000);
        desk.want(0, SLOT, 30);
        desk.pass(3);
        assert_eq!(desk.granted(0, SLOT), 30);
        assert_eq!(refusal(&desk), Some(want), "{limits:?}");
        let paused = AccountTerms { version: 2, limits, is_paused: true, ..account() };
        desk.step(vec![LedgerInput::Account(paused)]);
        assert_eq!(refusal(&desk), Some(SpendRefusal::Paused), "{limits:?}");
    }
    // A failing store stops an account without budget.
    open.ended = CommitOutcome::Refused;
    open.want(0, SLOT, 30);
    open.pass(3);
    let why = open.ledger.why_account(ID);
    assert_eq!((why.refusal, why.is_store_failing), (Some(SpendRefusal::LedgerUnavailable), true));
    open.ended = CommitOutcome::Committed;
    open.pass(3);
    assert_eq!(refusal(&open), None);
    // So does an unread log, and an ended calendar.
    let mut unready = Desk::unready(LedgerSettings::new(1, Epoch(1), 1), Vec::new());
    unready.step(vec![LedgerInput::Account(account()), LedgerInput::Campaign(campaign())]);
    assert_eq!(refusal(&unready), Some(SpendRefusal::LedgerUnavailable));
    unready.step(vec![LedgerInput::Replayed]);
    assert_eq!(refusal(&unready), None);
    unready.unix_ms += 30 * 96 * QUARTER_MS;
    unready.pass(1);
    let why = unready.ledger.why_account(ID);
    assert_eq!((why.refusal, why.levels), (Some(SpendRefusal::LedgerUnavailable), None));
}

#[test]
fn holdbacks_are_of_campaigns() {
    let limits = BudgetLimits { life: usd(100), ..BudgetLimits::default() };
    let kept = CampaignTerms {
        budget: CampaignBudget {
            limits,
            late_holdback: Holdback::Amount(usd(10).expect("an amount")),
            ..campaign().budget
        },
        ..campaign()
    };
    let desk = Desk::defined(1, AccountTerms { limits, ..account() }, kept);
    let of_campaign = desk.ledger.why(SLOT).levels.expect("an hour");
    assert_eq!((of_campaign[0].holdback.get(), of_campaign[1].holdback.get()), (10, 0));
    let levels = desk.ledger.why_account(ID).levels.expect("an hour");
    assert_eq!(levels.map(|level| level.holdback), [Nanos::ZERO; 3]);
}
