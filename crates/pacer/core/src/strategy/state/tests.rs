//! Steps: what changes a state and what does not, and the same bits everywhere.

use std::collections::BTreeMap;

use faults::Chance;
use proptest::prelude::*;
use units::Cpm;

use super::super::pace::decide;
use super::super::settings::{AuctionPricing, Pid, SlotDual, Throttle};
use super::super::target::CampaignFlight;
use super::super::{SpendTarget, Week};
use super::*;
use crate::refusal::SpendRefusal;

mod closed_loop;

const MINUTE_MS: u64 = 60_000;
const START_MS: u64 = 1_774_828_800_000;
const BUDGET: Nanos = Nanos::new(1_000_000_000);

fn day() -> SpendTarget {
    SpendTarget::uniform(CampaignFlight {
        start_ms: START_MS,
        end_ms: START_MS + 1_440 * MINUTE_MS,
    })
    .expect("a day")
}

/// The slot of a minute, counted from 1.
fn minute(number: u64) -> SlotEnd {
    let now_ms = START_MS + number * MINUTE_MS;
    SlotEnd { now_ms, next_ms: now_ms + MINUTE_MS, budget: BUDGET }
}

/// Every strategy, and the default one with first-price auctions.
fn strategies() -> Vec<StrategySettings> {
    let first = SlotDual { pricing: AuctionPricing::FirstPrice, ..SlotDual::default() };
    StrategySettings::all().into_iter().chain([StrategySettings::SlotDual(first)]).collect()
}

/// Cumulative figures of a day; wins do not depend on the strategy.
fn some_day() -> impl Iterator<Item = (u64, ObservedTotals)> {
    let mut seen = ObservedTotals::default();
    (1..=200u64).map(move |number| {
        let wins = number * 7 % 5;
        seen = seen.plus(ObservedTotals {
            requests: 40 + number * 13 % 17,
            bids: 30,
            wins,
            spent: wins * (220_000 + number * 7_919 % 250_007),
        });
        (number, seen)
    })
}

fn after_some_day(settings: &StrategySettings) -> StrategyState {
    states_of_some_day(settings).last().expect("a day has slots")
}

fn states_of_some_day(settings: &StrategySettings) -> impl Iterator<Item = StrategyState> {
    let target = day();
    some_day().scan(StrategyState::start(settings), move |state, (number, seen)| {
        *state = step(settings, &target, *state, seen, minute(number));
        Some(*state)
    })
}

fn bits(state: &StrategyState, settings: &StrategySettings) -> [u64; 4] {
    let pace = state.pace(settings);
    [state.dual().to_bits(), state.rate().to_bits(), pace.multiplier(), pace.threshold()]
}

/// Bits from another machine: a different computation fails here.
#[test]
fn the_same_observations_give_the_same_bits_on_every_machine() {
    let golden = [
        ("asap", 0x4002_6bb1_bbb5_5516, 0x2aef_26e1_5796_a055),
        ("even", 0x4002_6bb1_bbb5_5516, 0xfaaa_e6b2_5504_1c36),
        ("throttle", 0x4002_6bb1_bbb5_5516, 0x96e8_c539_365b_0148),
        ("pid", 0x3ffb_19ed_ce4e_ccb3, 0x1f05_137d_d6ed_fb69),
        ("adaptive", 0x4001_70af_ee42_3a47, 0x7144_3d8d_a19c_db22),
        ("slot_dual", 0x4001_7be9_ffb4_7e32, 0x702b_87f1_662f_e6ab),
        ("slot_dual", 0x4001_f3cd_ddb4_e9ab, 0xfd07_8cad_e3ff_ec84),
    ];
    let made: Vec<_> = strategies()
        .iter()
        .map(|settings| {
            let all = states_of_some_day(settings).flat_map(|state| bits(&state, settings));
            // FNV-1a, by word.
            let digest = all.fold(0xcbf2_9ce4_8422_2325, |digest: u64, word| {
                (digest ^ word).wrapping_mul(0x100_0000_01b3)
            });
            (settings.name(), after_some_day(settings).dual().to_bits(), digest)
        })
        .collect();
    assert_eq!(made, golden, "{made:#x?}");
}

#[test]
fn what_is_no_later_changes_nothing() {
    let target = day();
    for settings in strategies() {
        let state = after_some_day(&settings);
        let other =
            ObservedTotals { requests: 1 << 40, bids: 1 << 40, wins: 1 << 30, spent: 1 << 50 };
        for number in [1, 199, 200] {
            let end = SlotEnd { budget: Nanos::new(7), ..minute(number) };
            assert_eq!(step(&settings, &target, state, other, end), state, "{settings:?}");
        }
    }
}

#[test]
fn figures_that_fell_are_those_that_were_seen() {
    let target = day();
    for settings in strategies() {
        let state = after_some_day(&settings);
        let same = step(&settings, &target, state, ObservedTotals::default(), minute(201));
        let (_, last) = some_day().last().expect("a day");
        assert_eq!(same, step(&settings, &target, state, last, minute(201)), "{settings:?}");
    }
}

#[test]
fn late_figures_change_later_slots_only() {
    let target = day();
    let settings = StrategySettings::default();
    let (mut prompt, mut late) = (StrategyState::start(&settings), StrategyState::start(&settings));
    let days: Vec<_> = some_day().collect();
    for (number, seen) in &days {
        // A shard's report of slots 50 to 59 arrives at 60.
        let heard = if (50..60).contains(number) { days[48].1 } else { *seen };
        prompt = step(&settings, &target, prompt, *seen, minute(*number));
        late = step(&settings, &target, late, heard, minute(*number));
        assert_eq!(prompt == late, *number < 50, "{number}");
        assert_eq!(prompt.seen == late.seen, !(50..60).contains(number), "{number}");
    }
}

#[test]
fn nothing_is_asked_for_when_nothing_remains_or_the_flight_is_over() {
    let target = day();
    for settings in strategies() {
        let state = after_some_day(&settings);
        let draw = |state: StrategyState| decide(state.pace(&settings), Cpm::MAX, 0).err();
        let seen =
            |spent| ObservedTotals { requests: 1 << 20, bids: 1 << 20, wins: 1 << 19, spent };
        let spent = step(&settings, &target, state, seen(BUDGET.get()), minute(201));
        assert_eq!(draw(spent), Some(SpendRefusal::Throttled), "{settings:?}");
        let more = SlotEnd { budget: Nanos::new(2 * BUDGET.get()), ..minute(202) };
        let raised = step(&settings, &target, spent, seen(BUDGET.get()), more);
        assert!(!raised.is_spent, "{settings:?}");
        let over = step(&settings, &target, state, seen(5), minute(1_440));
        assert_eq!(draw(over), Some(SpendRefusal::Throttled), "{settings:?}");
        let last = step(&settings, &target, state, seen(5), minute(1_439));
        assert!(!last.is_spent, "{settings:?}");
    }
}

#[test]
fn a_budget_that_changes_is_spread_over_what_is_left() {
    let target = day();
    let settings = StrategySettings::default();
    let seen = ObservedTotals { requests: 9_000, bids: 9_000, wins: 900, spent: 500_000_000 };
    let half = step(&settings, &target, StrategyState::start(&settings), seen, minute(720));
    let planned = |state: &StrategyState, number| state.planned(&target, minute(number).now_ms);
    assert!((planned(&half, 1_080) - 750_000_000.0).abs() < 1.0);
    for (budget, want) in [(2_000_000_000, 1_250_000_000.0), (600_000_000, 550_000_000.0)] {
        let end = SlotEnd { budget: Nanos::new(budget), ..minute(721) };
        let state = step(&settings, &target, half, seen, end);
        assert!((planned(&state, 720) - 500_000_000.0).abs() < 1.0);
        assert!((planned(&state, 1_080) - want).abs() < 1.0, "{}", planned(&state, 1_080));
        let frame = SlotFrame::new(&target, &state, seen, minute(722));
        assert!((frame.base - (budget as f64 - 500e6)).abs() < 1.0, "{frame:?}");
    }
    // From zero: also over the rest.
    let none = SlotEnd { budget: Nanos::ZERO, ..minute(720) };
    let paused =
        step(&settings, &target, StrategyState::start(&settings), ObservedTotals::default(), none);
    assert_eq!(paused.pace(&settings), BidPace::NONE);
    let begun = step(&settings, &target, paused, ObservedTotals::default(), minute(721));
    assert!((planned(&begun, 1_080) - 500_000_000.0).abs() < 1.0);
    let end = SlotEnd { budget: Nanos::new(400_000_000), ..minute(721) };
    let state = step(&settings, &target, half, seen, end);
    assert!((planned(&state, 1_080) - 400_000_000.0).abs() < 1.0);
    assert_eq!(state.pace(&settings), BidPace::NONE);
}

/// A minute at noon, after an excess of a hundredth of the plan.
#[test]
fn a_slot_is_put_in_numbers() {
    let target = day().front_loaded(0.5).expect("in range");
    let settings = StrategySettings::Asap;
    let seen = ObservedTotals { requests: 900, bids: 90, wins: 9, spent: 635_000_000 };
    let state = step(&settings, &target, StrategyState::start(&settings), seen, minute(720));
    let seen = seen.plus(ObservedTotals { requests: 100, bids: 10, wins: 1, spent: 1_000_000 });
    let frame = SlotFrame::new(&target, &state, seen, minute(721));
    let (now, next) =
        (state.planned(&target, minute(721).now_ms), target.share(minute(722).now_ms));
    assert!((625_600_000.0..625_700_000.0).contains(&now), "{now}");
    for (is, want) in [
        (frame.traffic, 721.0 / 1_440.0),
        (frame.traffic_slot, 1.0 / 1_440.0),
        (frame.requests, 100.0),
        (frame.requests_all, 1_000.0),
        (frame.wins_all, 10.0),
        (frame.spent, 1e6),
        (frame.spent_all, 636e6),
        (frame.budget, 1e9),
        (frame.planned, now - 625e6),
        (frame.ahead_before, 10e6),
        (frame.ahead, 636e6 - now),
        (frame.plan_left, 375e6),
        (frame.base, 1e9),
        (frame.allowance, 0.0),
    ] {
        assert!((is - want).abs() < 1e-3, "{is}, not {want}: {frame:?}");
    }
    let poor = ObservedTotals { spent: 600_000_000, ..ObservedTotals::default() };
    let state = step(&settings, &target, StrategyState::start(&settings), poor, minute(720));
    let frame = SlotFrame::new(&target, &state, poor, minute(721));
    assert!((frame.allowance - (next * 1e9 - 600e6)).abs() < 1e-3, "{frame:?}");
}

#[test]
fn a_slot_in_which_nothing_could_be_spent_says_nothing() {
    let forecast = super::super::Forecast::Weekly {
        week: Week::uniform().opened(|hour| hour != 1),
        zone: super::super::ZoneOffsets::utc(),
    };
    let flight = CampaignFlight { start_ms: START_MS, end_ms: START_MS + 1_440 * MINUTE_MS };
    let closed = SpendTarget::new(flight, forecast).expect("most is open");
    for settings in strategies().into_iter().filter(|it| it.name() != "even") {
        let seen = |requests| ObservedTotals { requests, bids: 50, wins: 9, spent: 5_000_000 };
        let state = step(&settings, &day(), StrategyState::start(&settings), seen(100), minute(60));
        let idle = step(&settings, &day(), state, seen(100), minute(61));
        assert_eq!(idle.controls, state.controls, "no request: {settings:?}");
        let state =
            step(&settings, &closed, StrategyState::start(&settings), seen(100), minute(60));
        let shut = step(&settings, &closed, state, seen(200), minute(61));
        assert_eq!(shut.controls, state.controls, "closed: {settings:?}");
    }
}

#[test]
fn the_next_flight_begins_with_what_was_learned() {
    for settings in strategies() {
        let state = after_some_day(&settings);
        let next = state.next_flight(&settings);
        assert_eq!(next.controls, state.controls.on_curve());
        assert_eq!(
            StrategyState { controls: Controls::start(&settings), ..next },
            StrategyState::start(&settings)
        );
    }
}

/// A shard's report: its slot, the shard, and its cumulative figures.
type Told = (usize, u8, ObservedTotals);

/// All reports until a slot's end, merged: the latest of each shard, added up.
fn merged(told: &[Told], slot: usize) -> ObservedTotals {
    let mut latest: BTreeMap<u8, ObservedTotals> = BTreeMap::new();
    for (_, shard, observed) in told.iter().filter(|(at, ..)| *at <= slot) {
        let before = latest.entry(*shard).or_default();
        *before = before.merged(*observed);
    }
    latest.into_values().fold(ObservedTotals::default(), ObservedTotals::plus)
}

/// Reordered, and partly repeated in the same slot or one of the next two.
fn shuffled(told: &[Told], order: u64) -> Vec<Told> {
    let mut chance = Chance::new(order);
    let mut shuffled = Vec::new();
    for (slot, shard, observed) in told {
        for later in 0..3 {
            if later == 0 || chance.below(4) == 0 {
                shuffled.push((chance.below(u64::MAX), (slot + later, *shard, *observed)));
            }
        }
    }
    shuffled.sort_by_key(|(key, _)| *key);
    shuffled.into_iter().map(|(_, told)| told).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_and_repetition_change_nothing(
        slots in prop::collection::vec(
            prop::collection::vec((0..4u8, 0..50u64, 0..30u64, 0..400_000u64), 0..8), 1..30,
        ),
        orders: [u64; 4],
    ) {
        let (target, mut told) = (day(), Vec::new());
        let mut sums = [ObservedTotals::default(); 4];
        for (slot, messages) in slots.iter().enumerate() {
            for (shard, requests, wins, price) in messages {
                let sum = &mut sums[usize::from(*shard)];
                let bids = *requests;
                let spent = wins * price;
                *sum = sum.plus(ObservedTotals { requests: *requests, bids, wins: *wins, spent });
                told.push((slot, *shard, *sum));
            }
        }
        for settings in strategies() {
            let run = |told: &[Told]| {
                (0..slots.len()).fold(StrategyState::start(&settings), |state, slot| {
                    let end = minute(slot as u64 + 1);
                    step(&settings, &target, state, merged(told, slot), end)
                })
            };
            let want = run(&told);
            for order in orders {
                let state = run(&shuffled(&told, order));
                prop_assert_eq!(bits(&state, &settings), bits(&want, &settings));
                prop_assert_eq!(state, want);
            }
        }
    }

    /// With any reports and slots, gains and paces stay within their limits.
    #[test]
    fn nothing_leaves_its_limits(
        told in prop::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u64>(), 0..100_000_000u64, any::<u64>(), 0..64u32),
            1..20,
        ),
        multiplier_max in 0.01..148.0f64,
    ) {
        let target = day();
        let pid = Pid { multiplier_max, ..Pid::default() };
        let dual = SlotDual { multiplier_max, ..SlotDual::default() };
        let throttle = Throttle { up: 2.0, down: 0.5, start: 1.0 };
        let several = [StrategySettings::Pid(pid), StrategySettings::SlotDual(dual), StrategySettings::Throttle(throttle)];
        for settings in strategies().into_iter().chain(several) {
            let most = match settings {
                StrategySettings::Pid(it) => it.multiplier_max,
                StrategySettings::SlotDual(it) => it.multiplier_max,
                _ => 1.0,
            };
            let mut state = StrategyState::start(&settings);
            for (requests, wins, spent, later_ms, budget, shift) in &told {
                let now_ms = state.at_ms.max(START_MS - MINUTE_MS) + later_ms;
                let budget = Nanos::new(*budget >> shift);
                let end = SlotEnd { now_ms, next_ms: now_ms + 1, budget };
                let seen = ObservedTotals {
                    requests: requests >> shift,
                    bids: requests >> shift,
                    wins: wins >> shift,
                    spent: spent >> shift,
                };
                state = step(&settings, &target, state, seen, end);
                prop_assert!(state.dual().abs() <= 5.0, "{state:?}");
                prop_assert!((0.0..=1.0).contains(&state.rate()), "{state:?}");
                let pace = state.pace(&settings);
                let limit = most * 4_294_967_296.0 * 1.000_001;
                let is_within = pace.multiplier() as f64 <= limit;
                prop_assert!(pace == BidPace::NONE || is_within, "{settings:?} {state:?}");
                prop_assert!(state.planned(&target, now_ms) >= 0.0);
                prop_assert!(state.controls.is_finite(), "{state:?}");
            }
        }
    }
}
