//! Every answer of `decide`, and the bound of its prices.

use proptest::prelude::*;

use super::*;

const ALL: u64 = u64::MAX;
const HALF: u64 = 1 << 63;

fn micros(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price")
}

#[track_caller]
fn check(
    (multiplier, threshold): (f64, u64),
    (value, draw): (u64, u64),
    want: Result<u64, SpendRefusal>,
) {
    let pace = BidPace { threshold, ..BidPace::new(multiplier, 1.0) };
    assert_eq!(decide(pace, micros(value), draw).map(Cpm::micros), want);
}

#[test]
fn decides() {
    let max = Cpm::MAX.micros();
    //   multiplier, threshold  value, draw          want
    check((1.0, ALL), (2_000_000, 0), Ok(2_000_000));
    check((1.0, ALL), (2_000_000, ALL), Ok(2_000_000));
    check((0.25, ALL), (2_000_000, ALL), Ok(500_000));
    check((0.25, ALL), (7, 0), Ok(1));
    check((2.5, ALL), (2_000_000, 0), Ok(5_000_000));
    check((1.0, HALF), (2_000_000, HALF - 1), Ok(2_000_000));
    check((1.0, HALF), (2_000_000, HALF), Err(SpendRefusal::Throttled));
    check((1.0, HALF), (2_000_000, ALL), Err(SpendRefusal::Throttled));
    check((1.0, 0), (2_000_000, 0), Err(SpendRefusal::Throttled));
    check((1.0, ALL - 1), (2_000_000, ALL), Err(SpendRefusal::Throttled));
    check((0.25, ALL), (3, 0), Err(SpendRefusal::BelowMinimum));
    check((1.0, ALL), (0, 0), Err(SpendRefusal::BelowMinimum));
    check((1.0, ALL), (1, 0), Ok(1));
    // The order of refusals.
    check((1.0, 0), (0, 0), Err(SpendRefusal::Throttled));
    // Prices saturate.
    check((148.0, ALL), (max, 0), Ok(max));
    check((1.0, ALL), (max, 0), Ok(max));
}

#[test]
fn full_and_none_are_what_they_say() {
    assert_eq!(decide(BidPace::FULL, micros(5), ALL), Ok(micros(5)));
    assert_eq!(decide(BidPace::NONE, micros(5), 0), Err(SpendRefusal::Throttled));
    assert_eq!(BidPace::new(1.0, 1.0), BidPace::FULL);
    assert_eq!(BidPace::new(1.0, 0.0), BidPace::NONE);
}

#[test]
fn shares_become_thresholds() {
    for (rate, want) in [
        (-1.0, 0),
        (0.0, 0),
        (0.5, HALF),
        (0.75, HALF + HALF / 2),
        (1.0, ALL),
        (7.0, ALL),
        (f64::NAN, 0),
    ] {
        assert_eq!(BidPace::new(1.0, rate).threshold(), want, "{rate}");
    }
}

#[test]
fn multipliers_have_a_limit() {
    for (multiplier, want) in [
        (-1.0, 0),
        (f64::NAN, 0),
        (1.0, ONE),
        (1e9, MULTIPLIER_MAX),
        (f64::INFINITY, MULTIPLIER_MAX),
    ] {
        assert_eq!(BidPace::new(multiplier, 1.0).multiplier(), want, "{multiplier}");
    }
}

#[test]
fn draws_are_the_same_everywhere_and_unlike_each_other() {
    let key = DrawKey::new(*b"0123456789abcdef");
    // From another implementation of SipHash-1-3 of the campaign's number and the request.
    assert_eq!(key.draw(b"request", 7), 0x8376_fe86_c567_8468);
    assert_eq!(key.draw(b"request", 7), key.draw(b"request", 7));
    assert_ne!(key.draw(b"request", 7), key.draw(b"request", 8));
    assert_ne!(key.draw(b"request", 7), key.draw(b"requesu", 7));
    assert_ne!(key.draw(b"request", 7), DrawKey::new([0; 16]).draw(b"request", 7));
    assert_eq!(format!("{key:?}"), "DrawKey(…)");
}

#[test]
fn a_share_of_requests_passes_and_campaigns_pass_others() {
    let key = DrawKey::new([1; 16]);
    let pace = BidPace::new(1.0, 0.25);
    let is_bid = |request: u64, campaign| {
        decide(pace, micros(1), key.draw(&request.to_le_bytes(), campaign)).is_ok()
    };
    let passed = (0..40_000).filter(|request| is_bid(*request, 1)).count();
    assert!((9_700..10_300).contains(&passed), "{passed}");
    let both = (0..40_000).filter(|request| is_bid(*request, 1) && is_bid(*request, 2)).count();
    assert!((2_300..2_700).contains(&both), "{both}");
}

proptest! {
    #[test]
    fn no_price_is_beyond_the_multiplier(
        multiplier in 0.0..200.0f64, value in 0..=Cpm::MAX.micros(), draw: u64,
    ) {
        let pace = BidPace::new(multiplier, 1.0);
        prop_assert!(pace.multiplier() <= MULTIPLIER_MAX);
        let exact = ((u128::from(value) * u128::from(pace.multiplier())) >> 32)
            .min(u128::from(Cpm::MAX.micros()));
        match decide(pace, micros(value), draw) {
            Ok(price) => prop_assert_eq!(u128::from(price.micros()), exact),
            Err(refusal) => prop_assert_eq!((refusal, exact), (SpendRefusal::BelowMinimum, 0)),
        }
    }

    #[test]
    fn prices_rise_with_value_and_multiplier(
        low in 0.0..5.0f64,
        more in 0.0..5.0f64,
        value in 1..1_000_000_000u64,
        dearer in 0..1_000u64,
    ) {
        let price = |multiplier, value| {
            decide(BidPace::new(multiplier, 1.0), micros(value), 0).unwrap_or(Cpm::ZERO)
        };
        prop_assert!(price(low, value) <= price(low + more, value));
        prop_assert!(price(low, value) <= price(low, value + dearer));
    }

    #[test]
    fn who_passes_at_a_share_passes_at_a_larger_one(
        rate in 0.0..1.0f64, more in 0.0..1.0f64, draw: u64,
    ) {
        let passes = |rate| decide(BidPace::new(1.0, rate), micros(1), draw).is_ok();
        prop_assert!(!passes(rate) || passes(rate + more));
    }
}
