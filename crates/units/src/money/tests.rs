//! Tables and properties of prices, costs and shares.

use proptest::prelude::*;

use super::*;

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).unwrap()
}

#[test]
fn bids_round_down_and_floors_up() {
    for (text, down, up) in
        [("0.0000001", 0, 1), ("1.2345678", 1_234_567, 1_234_568), ("2.5", 2_500_000, 2_500_000)]
    {
        assert_eq!(Cpm::parse(text, Rounding::Down), Ok(cpm(down)), "{text}");
        assert_eq!(Cpm::parse(text, Rounding::Up), Ok(cpm(up)), "{text}");
    }
    assert_eq!(Cpm::parse("1000000000", Rounding::Up), Ok(Cpm::MAX));
    assert_eq!(Cpm::parse("1000000000.0000001", Rounding::Up), Err(DecimalError::TooLarge));
    assert_eq!(Cpm::parse("1000000001", Rounding::Down), Err(DecimalError::TooLarge));
}

#[test]
fn prices_print_shortest_and_exact() {
    for (micros, text) in
        [(0, "0"), (30_000, "0.03"), (9_430_000, "9.43"), (3_000_000, "3"), (1, "0.000001")]
    {
        assert_eq!(cpm(micros).to_string(), text);
    }
    assert_eq!(Price::parse("0.50 USD", Rounding::Up).unwrap().to_string(), "0.5 USD");
    for bad in ["0.50", "USD 0.50", "0.5 usd", "x USD", "-1 USD"] {
        assert_eq!(Price::parse(bad, Rounding::Up), None, "{bad}");
    }
    assert_eq!(Ppm::new(25_000).unwrap().to_string(), "2.5%");
}

/// OpenRTB 2.6, section 7.9.4: 2.50 CPM for 30.3 impressions is $0.07575.
#[test]
fn cost_of_the_specifications_dooh_example() {
    let price = Cpm::parse("2.50", Rounding::Down).unwrap();
    let multiplier = Multiplier::parse("30.3").unwrap();
    assert_eq!(price.cost(multiplier).unwrap().to_string(), "0.07575");
    assert_eq!(multiplier.to_string(), "30.3");
}

#[test]
fn an_affordable_price_is_the_highest_that_costs_no_more() {
    for (limit, multiplier, want) in [
        (0, "1", 0),
        (7, "1", 7),
        (7, "2", 3),
        (7, "2.5", 3),
        (7, "0.3", 26),
        (1_000_000_000, "1000000", 1_000),
        (u64::MAX, "0.000001", Cpm::MAX.micros()),
    ] {
        let (limit, multiplier) = (Nanos::new(limit), Multiplier::parse(multiplier).unwrap());
        let price = Cpm::affordable(limit, multiplier);
        assert_eq!(price.micros(), want, "{limit} {multiplier}");
        assert!(price.cost(multiplier).unwrap() <= limit);
        let more = Cpm::new(want + 1).and_then(|more| more.cost(multiplier));
        assert!(price == Cpm::MAX || more.unwrap() > limit, "{limit} {multiplier}");
    }
}

#[test]
fn multipliers_are_above_zero_and_bounded() {
    for bad in ["0", "-1", "0.0000001", "1000000.1", "x"] {
        assert!(Multiplier::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(Multiplier::parse("1").unwrap(), Multiplier::ONE);
    assert_eq!(Multiplier::parse("1000000").unwrap(), Multiplier::MAX);
    assert_eq!(Cpm::MAX.cost(Multiplier::MAX), None);
}

proptest! {
    #[test]
    fn a_price_parses_back(micros in 0..=Cpm::MAX.micros()) {
        let text = cpm(micros).to_string();
        prop_assert_eq!(Cpm::parse(&text, Rounding::Down), Ok(cpm(micros)));
        prop_assert_eq!(Cpm::parse(&text, Rounding::Up), Ok(cpm(micros)));
    }

    #[test]
    fn a_grossed_up_floor_is_net_again(micros in 0u64..1_000_000_000_000, fee in 0u32..999_999) {
        let fee = Ppm::new(fee).unwrap();
        if let Some(gross) = fee.added_to(cpm(micros)) {
            prop_assert!(fee.taken_from(gross) >= cpm(micros));
            // And it is the least such price.
            if let Some(below) = gross.micros().checked_sub(1) {
                prop_assert!(fee.taken_from(cpm(below)) < cpm(micros));
            }
        }
    }

    #[test]
    fn any_text_parses_or_is_refused(text in "\\PC*") {
        let _ = Cpm::parse(&text, Rounding::Up);
        let _ = Multiplier::parse(&text);
    }
}
