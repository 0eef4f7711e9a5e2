//! Curves: tables of shares, which never fall.

use proptest::prelude::*;

use super::super::week::{HOURS, OffsetFrom};
use super::*;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Monday, 30 March 2026, midnight UTC.
const MONDAY_MS: u64 = 1_774_828_800_000;

const DAY: CampaignFlight = CampaignFlight { start_ms: MONDAY_MS, end_ms: MONDAY_MS + DAY_MS };

#[track_caller]
fn check(target: &SpendTarget, shares: &[(u64, f64)]) {
    for (hours, want) in shares {
        let share = target.share(MONDAY_MS + hours * HOUR_MS);
        assert!((share - want).abs() < 1e-12, "at {hours} h: {share}, not {want}");
    }
}

fn weekly(week: Week) -> SpendTarget {
    SpendTarget::new(DAY, Forecast::Weekly { week, zone: ZoneOffsets::utc() })
        .expect("some hour is open")
}

#[test]
fn uniform_is_a_line() {
    let target = SpendTarget::uniform(DAY).expect("a day");
    check(&target, &[(0, 0.0), (6, 0.25), (12, 0.5), (18, 0.75), (24, 1.0), (48, 1.0)]);
    for at_ms in [0, MONDAY_MS - 1, MONDAY_MS] {
        assert_eq!(target.share(at_ms).to_bits(), 0);
    }
    assert_eq!(target.share(u64::MAX).to_bits(), 1.0f64.to_bits());
    assert_eq!(target.flight(), DAY);
}

#[test]
fn traffic_shapes_the_curve() {
    let mut weights = [1; HOURS];
    weights[..12].fill(3);
    check(&weekly(Week::weighted(&weights)), &[(6, 0.375), (12, 0.75), (18, 0.875), (24, 1.0)]);
}

#[test]
fn closed_time_does_not_count() {
    let office = |hour: usize| (9..17).contains(&(hour % 24));
    let target = weekly(Week::uniform().opened(office));
    check(&target, &[(0, 0.0), (9, 0.0), (11, 0.25), (13, 0.5), (17, 1.0), (20, 1.0), (24, 1.0)]);
}

#[test]
fn a_given_forecast_is_followed() {
    let given = |part_ms, weights: &[u32]| {
        SpendTarget::new(DAY, Forecast::Given { part_ms, weights: weights.to_vec() })
    };
    let target = given(6 * HOUR_MS, &[1, 0, 2, 1]).expect("it weighs something");
    check(&target, &[(3, 0.125), (6, 0.25), (12, 0.25), (15, 0.5), (18, 0.75), (24, 1.0)]);
    // Time after the last part is closed; time after the flight does not count.
    check(&given(6 * HOUR_MS, &[1, 1]).expect("it weighs"), &[(6, 0.5), (12, 1.0), (20, 1.0)]);
    let short = given(6 * HOUR_MS, &[1, 1]).expect("it weighs");
    assert!((short.traffic(MONDAY_MS + 20 * HOUR_MS) - 1.0).abs() < 1e-12);
    check(&given(18 * HOUR_MS, &[1, 3]).expect("it weighs"), &[(18, 0.5), (21, 0.75)]);
    assert_eq!(given(6 * HOUR_MS, &[0, 0, 0, 0]), Err(TargetError::NeverOpen));
    assert_eq!(given(6 * HOUR_MS, &[]), Err(TargetError::NeverOpen));
    assert_eq!(given(0, &[1]), Err(TargetError::NoLength));
}

#[test]
fn ahead_spends_earlier() {
    let ahead = |by| SpendTarget::uniform(DAY).expect("a day").front_loaded(by);
    check(&ahead(1.0).expect("in range"), &[(0, 0.0), (6, 0.4375), (12, 0.75), (24, 1.0)]);
    check(&ahead(0.5).expect("in range"), &[(12, 0.625)]);
    assert_eq!(ahead(0.0), SpendTarget::uniform(DAY));
    assert_eq!(ahead(1.01), Err(TargetError::Ahead(1.01)));
    assert!(ahead(-0.1).is_err() && ahead(f64::NAN).is_err());
    assert!((ahead(1.0).expect("in range").traffic(MONDAY_MS + 12 * HOUR_MS) - 0.5).abs() < 1e-12);
}

#[test]
fn shares_of_the_rest() {
    let target = SpendTarget::uniform(DAY).expect("a day");
    let rest =
        |from, to| target.share_of_rest(MONDAY_MS + from * HOUR_MS, MONDAY_MS + to * HOUR_MS);
    for ((from, to), want) in [
        ((0, 6), 0.25),
        ((12, 18), 0.5),
        ((18, 24), 1.0),
        ((18, 30), 1.0),
        ((24, 30), 1.0),
        ((12, 12), 0.0),
        ((12, 6), 0.0),
    ] {
        assert!((rest(from, to) - want).abs() < 1e-12, "{from} to {to}: {}", rest(from, to));
    }
}

#[test]
fn impossible_flights_are_refused() {
    let flight = |start_ms, end_ms| SpendTarget::uniform(CampaignFlight { start_ms, end_ms });
    assert_eq!(flight(5, 5), Err(TargetError::Empty { start_ms: 5, end_ms: 5 }));
    assert_eq!(flight(5, 4), Err(TargetError::Empty { start_ms: 5, end_ms: 4 }));
    assert_eq!(flight(0, u64::MAX), Err(TargetError::Endless { end_ms: u64::MAX }));
    assert!(flight(0, TIME_MAX_MS).is_ok());
    let closed =
        Forecast::Weekly { week: Week::uniform().opened(|_| false), zone: ZoneOffsets::utc() };
    assert_eq!(SpendTarget::new(DAY, closed), Err(TargetError::NeverOpen));
    let error = flight(5, 4).expect_err("it ends before it begins");
    assert_eq!(error.to_string(), "the flight ends at 4 ms, not after its start at 5 ms");
}

#[test]
fn slots_become_shorter() {
    let target = SpendTarget::uniform(DAY).expect("a day");
    let minute = 60_000;
    for (now_ms, want_ms) in [
        (0, DAY.start_ms + minute),
        (DAY.start_ms, DAY.start_ms + minute),
        (DAY.end_ms - 16 * minute, DAY.end_ms - 15 * minute),
        (DAY.end_ms - 8 * minute, DAY.end_ms - 8 * minute + minute / 2),
        (DAY.end_ms - 2_000, DAY.end_ms - 1_000),
        (DAY.end_ms, DAY.end_ms + 1_000),
    ] {
        assert_eq!(target.slot_end(now_ms, minute), want_ms, "{now_ms}");
    }
    assert_eq!(target.slot_end(DAY.start_ms, 0), DAY.start_ms + 1);
    assert_eq!(target.slot_end(u64::MAX, minute), u64::MAX);
}

proptest! {
    #[test]
    fn no_curve_ever_falls(
        weights in prop::collection::vec(0..u32::MAX, HOURS),
        start_ms in 0..TIME_MAX_MS / 2,
        length_ms in 1..TIME_MAX_MS / 2,
        ahead in 0.0..=1.0f64,
        mut times in prop::collection::vec(0..1_200u64, 2..20),
    ) {
        let zone = ZoneOffsets::new(-7, vec![OffsetFrom { at_ms: start_ms + length_ms / 2, ahead_ms: 9 }]);
        let week = Week::weighted(&weights.try_into().expect("as many as a week has"));
        let flight = CampaignFlight { start_ms, end_ms: start_ms + length_ms };
        if let Ok(target) = SpendTarget::new(flight, Forecast::Weekly { week, zone }) {
            times.sort_unstable();
            let times = times.into_iter().map(|part| start_ms + length_ms * part / 1_000);
            let bent = target.clone().front_loaded(ahead).expect("in range");
            let mut before = (0.0, 0.0);
            for at_ms in times {
                let now = (target.share(at_ms), bent.share(at_ms));
                prop_assert!(before.0 <= now.0 && now.0 <= 1.0);
                // Except for rounding.
                prop_assert!(before.1 <= now.1 + 1e-12 && now.1 <= 1.0 && now.0 <= now.1 + 1e-12);
                before = now;
            }
        }
    }
}
