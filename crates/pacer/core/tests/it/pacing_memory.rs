//! The memory of pacing per campaign, after its definition and after a day of slots.
//!
//! Counts, never times, in a process without other allocations.

use std::alloc::System;
use std::sync::Arc;

use faults::process::isolated;
use pacer_core::calendar::{Calendar, CalendarHour, Period};
use pacer_core::ledger::{
    AccountId, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback, ZoneId,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{
    CampaignPacer, Funds, FundsSource, PacerOptions, PacingPolicy, SpanFunds, TrafficForecast,
};
use pacer_core::strategy::{StrategySettings, ZoneOffsets};
use stats_alloc::Region;
use units::Nanos;

use crate::ALLOCATOR;

const CAMPAIGNS: u32 = 1_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// A Monday.
const START_MS: u64 = 20_451 * DAY_MS;
const SLOT_MS: u64 = 300_000;
const DAILY: u64 = 1_000_000_000_000;

/// Every second campaign spends evenly, as if each slot had wins.
struct Steady {
    now_ms: u64,
}

impl FundsSource for Steady {
    fn funds(&self, slot: CampaignIndex) -> Option<Funds> {
        let part = (self.now_ms - START_MS) * (DAILY / DAY_MS) / 997 * 997;
        let spent = if slot.0.is_multiple_of(2) { part } else { 0 };
        let day =
            SpanFunds { spent: Nanos::new(spent), own: Some(Nanos::new(DAILY)), shared: None };
        Some(Funds { day, ..Funds::default() })
    }
}

fn hours() -> Calendar {
    let hour = |at: u64| {
        let start_unix_ms = START_MS + at * HOUR_MS;
        let day = u32::try_from(start_unix_ms / DAY_MS).expect("few");
        CalendarHour {
            start_unix_ms,
            end_unix_ms: start_unix_ms + HOUR_MS,
            period: Period(u32::try_from(start_unix_ms / 900_000).expect("few")),
            day,
            hour_of_week: u8::try_from(at % 168).expect("few"),
        }
    };
    Calendar::new((0..48).map(hour).collect()).expect("its hours follow each other")
}

fn definition(slot: u32) -> CampaignTerms {
    // Some bid at all hours, others in one of three parts of the week.
    let open =
        |least: u8| (0..168).filter(|hour| hour % 24 >= least).fold(Daypart::NEVER, Daypart::with);
    CampaignTerms {
        slot: CampaignIndex(slot),
        version: 1,
        account: AccountId(1),
        budget: CampaignBudget {
            limits: BudgetLimits::default(),
            start_unix_ms: START_MS,
            end_unix_ms: START_MS + 30 * DAY_MS,
            daypart: if slot.is_multiple_of(3) {
                Daypart::ALWAYS
            } else {
                open(1 + slot.to_le_bytes()[0] % 3)
            },
            late_holdback: Holdback::default(),
            is_paused: false,
        },
    }
}

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated) / CAMPAIGNS as usize
}

#[test]
fn a_campaign_takes_so_much_at_first_and_after_a_day() {
    isolated(|| {
        let settings = StrategySettings::default();
        let pacing = PacingPolicy {
            settings,
            ahead: 0.0,
            forecast: TrafficForecast::Uniform,
            is_fixed_price: false,
        };
        let pacing = Arc::new(pacing);
        let mut pacer = CampaignPacer::new(PacerOptions { shards: 1, slot_ms: SLOT_MS });
        pacer.take_zone(ZoneId(1), "UTC", hours(), ZoneOffsets::utc());
        pacer.take_account(AccountId(1), ZoneId(1), 1);

        let region = Region::new(ALLOCATOR);
        for slot in 0..CAMPAIGNS {
            pacer.define(&definition(slot), Some(&pacing), START_MS).expect("it can be paced");
        }
        let defined = held(&region);
        let (mut books, mut told) = (Steady { now_ms: START_MS }, Vec::new());
        while books.now_ms < START_MS + DAY_MS - 1_000 {
            pacer.turn(books.now_ms, &books, usize::MAX, &mut told);
            told.clear();
            books.now_ms += 10_007;
        }
        drop(told);
        let day = held(&region);
        let points = pacer.curve(CampaignIndex(0), books.now_ms).expect("it follows one").points;
        assert!(
            points.iter().filter(|point| point.spent.is_some()).count() > 140,
            "a day was noted"
        );
        assert!(defined <= 620, "{defined} bytes of a campaign once it is defined");
        assert!(day <= 1_400, "{day} bytes of a campaign after a day");
    });
}
