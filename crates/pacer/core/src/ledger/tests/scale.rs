//! A hundred thousand campaigns: what a step touches, and the memory of each.

use units::Nanos;

use super::refusals::{Desk, account, campaign, usd};
use crate::ledger::campaign::LedgerCampaign;
use crate::ledger::campaign::book::{PeriodLeases, ShardPart};
use crate::ledger::folding::ClosedLease;
use crate::ledger::limits::tally::HourExposure;
use crate::ledger::step::LedgerInput;
use crate::ledger::{BudgetLimits, CampaignBudget, CampaignTerms};
use crate::messages::{CampaignIndex, RefillRequest};

const CAMPAIGNS: u32 = 100_000;

fn many(count: u32) -> Desk {
    let limits = BudgetLimits { life: usd(1_000_000), day: usd(100_000), hour: None };
    let mut desk = Desk::new(1);
    let mut inbox = vec![LedgerInput::Account(account())];
    inbox.extend((0..count).map(|slot| {
        LedgerInput::Campaign(CampaignTerms {
            slot: CampaignIndex(slot),
            budget: CampaignBudget { limits, ..campaign().budget },
            ..campaign()
        })
    }));
    desk.step(inbox);
    desk
}

#[test]
fn a_step_touches_what_changed_and_one_batch_leases_for_all() {
    let mut desk = many(CAMPAIGNS);
    assert_eq!(desk.gates.len(), 100_000);
    let touched = desk.ledger.touched;
    desk.pass(2);
    assert_eq!(desk.ledger.touched, touched, "nothing has changed");
    desk.want(0, CampaignIndex(77), 10);
    desk.pass(3);
    assert!(desk.ledger.touched - touched < 10, "one has changed");
    let before = desk.batches;
    let want = |slot| {
        LedgerInput::Refill(
            0,
            RefillRequest {
                slot: CampaignIndex(slot),
                amount: Nanos::new(10),
                refused: Nanos::new(10),
            },
        )
    };
    desk.step((0..CAMPAIGNS).map(want).collect());
    desk.pass(2);
    assert!(desk.batches - before <= 2, "one batch by lease period");
    for slot in [0, 1, CAMPAIGNS - 1] {
        assert!(desk.granted(0, CampaignIndex(slot)) >= 10, "campaign {slot}");
    }
}

/// Four shards all day: four fifths of 300 MiB for 100,000 campaigns that spend in every hour.
#[test]
fn a_campaign_costs_two_and_a_half_kilobytes_at_most() {
    // This hour's, the previous one's, and briefly the next one's.
    let (shards, open) = (4, 3);
    let books = open * (size_of::<PeriodLeases>() + shards * size_of::<ShardPart>());
    let hours = 25 * size_of::<HourExposure>();
    let timers = 2 * size_of::<(u64, CampaignIndex)>();
    // The rows of a day, and of the hour about to be folded.
    let rows = 26 * size_of::<ClosedLease>();
    let campaign = size_of::<LedgerCampaign>() + books + hours + timers + rows;
    let most = (240 << 20) / 100_000;
    assert!(campaign <= most, "{campaign} bytes: {books} of books, {hours} of hours");
    assert!(size_of::<LedgerCampaign>() <= 512, "{}", size_of::<LedgerCampaign>());
}

#[test]
fn a_step_looks_at_so_many_whose_hour_has_come_and_the_next_at_the_rest() {
    let mut desk = many(6_000);
    let want = |slot| {
        LedgerInput::Refill(
            0,
            RefillRequest {
                slot: CampaignIndex(slot),
                amount: Nanos::new(10),
                refused: Nanos::new(10),
            },
        )
    };
    desk.step((0..6_000).map(want).collect());
    desk.pass(3);
    let touched = desk.ledger.touched;
    desk.tick += 3_600_000_000_000;
    desk.unix_ms += 3_600_000;
    desk.step(Vec::new());
    let first = desk.ledger.touched - touched;
    assert_eq!(first, 4_096);
    let held = |desk: &Desk, slot| {
        desk.ledger.why(CampaignIndex(slot)).levels.expect("an hour")[0].outstanding
    };
    // The pool is returned; campaign 1,023 is among the first looked at.
    assert_eq!((held(&desk, 1_023), held(&desk, 0)), (Nanos::new(10), Nanos::new(20)));
    desk.step(Vec::new());
    assert_eq!((held(&desk, 1_023), held(&desk, 0)), (Nanos::new(10), Nanos::new(10)));
}
