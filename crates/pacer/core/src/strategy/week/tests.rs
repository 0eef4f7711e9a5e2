//! Hours of the week with clock changes, against a sum by the minute.

use proptest::prelude::*;

use super::*;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Monday, 30 March 2026, midnight UTC: the day after clocks changed in Europe.
const MONDAY_MS: u64 = 1_774_828_800_000;

const ONE_HOUR: i32 = 3_600_000;

/// Central Europe in March 2026: UTC+1, and UTC+2 from the 29th, 01:00 UTC.
fn europe() -> ZoneOffsets {
    let change = OffsetFrom { at_ms: MONDAY_MS - 23 * HOUR_MS, ahead_ms: 2 * ONE_HOUR };
    ZoneOffsets::new(ONE_HOUR, vec![change])
}

#[track_caller]
fn check(zone: &ZoneOffsets, at_ms: u64, want: usize) {
    assert_eq!(zone.hour_of_week(at_ms), want);
}

#[test]
fn hours_of_the_week() {
    let utc = ZoneOffsets::utc();
    check(&utc, 0, 3 * 24);
    check(&utc, MONDAY_MS - 1, 167);
    check(&utc, MONDAY_MS, 0);
    check(&utc, MONDAY_MS + HOUR_MS - 1, 0);
    check(&utc, MONDAY_MS + HOUR_MS, 1);
    check(&utc, MONDAY_MS + 6 * DAY_MS, 144);
    // One o'clock on Sunday, then three: the hour from two to three is skipped.
    check(&europe(), MONDAY_MS - 23 * HOUR_MS - 1, 145);
    check(&europe(), MONDAY_MS - 23 * HOUR_MS, 147);
    check(&europe(), MONDAY_MS - 2 * HOUR_MS, 0);
    let behind = ZoneOffsets::new(-ONE_HOUR / 2, Vec::new());
    check(&behind, MONDAY_MS, 167);
    check(&behind, MONDAY_MS + HOUR_MS / 2, 0);
    check(&ZoneOffsets::new(-12 * ONE_HOUR, Vec::new()), 0, 2 * 24 + 12);
    check(&utc, u64::MAX, ZoneOffsets::utc().hour_of_week(TIME_MAX_MS));
}

#[test]
fn changes_are_put_in_order() {
    let early = OffsetFrom { at_ms: MONDAY_MS, ahead_ms: ONE_HOUR };
    let late = OffsetFrom { at_ms: MONDAY_MS + DAY_MS, ahead_ms: 0 };
    assert_eq!(ZoneOffsets::new(0, vec![late, early]), ZoneOffsets::new(0, vec![early, late]));
}

/// A skipped hour has no weight; a repeated hour has twice its weight.
#[test]
fn days_have_23_and_25_hours() {
    let mut weights = [1; HOURS];
    weights[6 * 24 + 2] = 1_000;
    let week = Week::weighted(&weights);
    let sunday = MONDAY_MS - 25 * HOUR_MS;
    let short = europe().weigh(&week, sunday, sunday + 23 * HOUR_MS);
    assert_eq!(short, 23 * u128::from(HOUR_MS));
    // 25 October 2026, 01:00 UTC.
    let back = 1_792_890_000_000;
    let change = OffsetFrom { at_ms: back, ahead_ms: ONE_HOUR };
    let zone = ZoneOffsets::new(2 * ONE_HOUR, vec![change]);
    let sunday = back - 3 * HOUR_MS;
    let long = zone.weigh(&week, sunday, sunday + 25 * HOUR_MS);
    assert_eq!(long, (23 + 2 * 1_000) * u128::from(HOUR_MS));
}

#[test]
fn what_is_open_weighs_something() {
    let mut weights = [5; HOURS];
    weights[10] = 0;
    let week = Week::weighted(&weights).opened(|hour| (9..12).contains(&hour));
    let all: Vec<u64> = (0..HOURS).map(|hour| week.weight(hour)).collect();
    assert_eq!(all[8..13], [0, 5, 1, 5, 0]);
    assert_eq!(all.iter().sum::<u64>(), 11);
}

fn by_the_minute(zone: &ZoneOffsets, week: &Week, from: u64, minutes: u64) -> u128 {
    let weights = (0..minutes)
        .map(|minute| week.weight(zone.hour_of_week(MONDAY_MS + (from + minute) * MINUTE_MS)));
    weights.map(u128::from).sum::<u128>() * u128::from(MINUTE_MS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_weight_is_a_sum(
        weights in prop::collection::vec(0..1_000u32, HOURS),
        first in -47..48i32,
        changes in prop::collection::vec((0..20_000u64, -47..48i32), 0..4),
        from in 0..15_000u64,
        minutes in 0..12_000u64,
    ) {
        let quarters = |count: i32| count * ONE_HOUR / 4;
        let changes = changes.into_iter().map(|(minute, ahead)| OffsetFrom {
            at_ms: MONDAY_MS + minute * MINUTE_MS,
            ahead_ms: quarters(ahead),
        });
        let mut changes: Vec<_> = changes.collect();
        // The order of two changes at once is undefined.
        changes.sort_by_key(|change| change.at_ms);
        changes.dedup_by_key(|change| change.at_ms);
        let zone = ZoneOffsets::new(quarters(first), changes);
        let week = Week::weighted(&weights.try_into().expect("as many as a week has"));
        let from_ms = MONDAY_MS + from * MINUTE_MS;
        let is = zone.weigh(&week, from_ms, from_ms + minutes * MINUTE_MS);
        prop_assert_eq!(is, by_the_minute(&zone, &week, from, minutes));
    }
}
