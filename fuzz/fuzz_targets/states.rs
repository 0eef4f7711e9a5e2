//! Any bytes as the stored state of a campaign's strategy: refused, or the only encoding of their
//! content, or its first version; and a pacer resumes from them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pacer_core::calendar::{Calendar, CalendarHour, Period};
use pacer_core::ledger::{
    AccountId, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback, ZoneId,
};
use pacer_core::messages::{CampaignIndex, RequestCounts};
use pacer_core::pacing::{
    CampaignPacer, Funds, FundsSource, PacerOptions, PacingPolicy, PacingSnapshot,
    SNAPSHOT_BYTES_MAX, SpanFunds, TrafficForecast,
};
use pacer_core::strategy::{StrategySettings, ZoneOffsets};
use units::Nanos;

const HOUR_MS: u64 = 60 * 60 * 1000;
/// A midnight in November 2026.
const START_MS: u64 = 20_780 * 24 * HOUR_MS;
/// The digests of zone and terms.
const DIGESTS: std::ops::Range<usize> = 5..21;

/// A campaign with a total and a daily limit.
struct Unspent;

impl FundsSource for Unspent {
    fn funds(&self, _: CampaignIndex) -> Option<Funds> {
        let funds = |nanos| SpanFunds { own: Some(Nanos::new(nanos)), ..SpanFunds::default() };
        Some(Funds { life: funds(1_000_000_000), day: funds(1_000_000), ..Funds::default() })
    }
}

fn hour(number: u64) -> CalendarHour {
    let start_unix_ms = START_MS + number * HOUR_MS;
    CalendarHour {
        start_unix_ms,
        end_unix_ms: start_unix_ms + HOUR_MS,
        period: Period(
            u32::try_from(start_unix_ms / (HOUR_MS / 4)).expect("an hour of this century"),
        ),
        day: 20_780 + u32::try_from(number / 24).expect("a few days"),
        hour_of_week: u8::try_from(number % 168).expect("an hour of a week"),
    }
}

/// A pacer with one campaign, which may resume from a stored state.
fn pacer(kept: Option<PacingSnapshot>) -> CampaignPacer {
    let mut pacer = CampaignPacer::new(PacerOptions::new(1));
    let calendar = Calendar::new((0..72).map(hour).collect()).expect("three days");
    pacer.take_zone(ZoneId(0), "UTC", calendar, ZoneOffsets::utc());
    pacer.take_account(AccountId(0), ZoneId(0), 1);
    kept.into_iter().for_each(|kept| pacer.restore(kept));
    let definition = CampaignTerms {
        slot: CampaignIndex(0),
        version: 1,
        account: AccountId(0),
        budget: CampaignBudget {
            limits: BudgetLimits::default(),
            start_unix_ms: START_MS,
            end_unix_ms: START_MS + 72 * HOUR_MS,
            daypart: Daypart::ALWAYS,
            late_holdback: Holdback::default(),
            is_paused: false,
        },
    };
    let pacing = PacingPolicy {
        settings: StrategySettings::default(),
        ahead: 0.5,
        forecast: TrafficForecast::Learned,
        is_fixed_price: false,
    };
    pacer.define(&definition, Some(&pacing.into()), START_MS).expect("it can be paced");
    pacer
}

fn encoded(kept: &PacingSnapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    kept.encode(&mut bytes);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let Ok(kept) = PacingSnapshot::decode(data) else { return };
    let again = encoded(&kept);
    if data[0] == 1 {
        assert_eq!(PacingSnapshot::decode(&again).as_ref(), Ok(&kept));
    } else {
        assert_eq!(again, data);
    }
    assert!(again.len() <= SNAPSHOT_BYTES_MAX);
    // With this campaign's digests.
    let mut bytes = data.to_vec();
    bytes[1..5].fill(0);
    pacer(None)
        .keep(CampaignIndex(0), 1, |own| bytes[DIGESTS].copy_from_slice(&encoded(own)[DIGESTS]));
    let mut pacer = pacer(Some(PacingSnapshot::decode(&bytes).expect("any digest may be")));
    let mut told = Vec::new();
    for minute in [0, 1, 2, 59, 61, 24 * 60, 24 * 60 + 1, 71 * 60, 80 * 60] {
        pacer.seen(0, CampaignIndex(0), RequestCounts { requests: minute, bids: minute });
        pacer.turn(START_MS + minute * 60_000, &Unspent, 10, &mut told);
        assert!(pacer.pace(CampaignIndex(0)).is_some());
        pacer.curve(CampaignIndex(0), START_MS + minute * 60_000);
    }
});
