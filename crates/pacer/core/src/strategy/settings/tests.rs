//! Names, ranges, and how settings are read.

use serde::de::value::{Error, MapDeserializer};

use super::*;

fn read(pairs: &[(&'static str, &'static str)]) -> Result<StrategySettings, Error> {
    StrategySettings::deserialize(MapDeserializer::new(pairs.iter().copied()))
}

#[test]
fn names_are_those_of_the_settings_file() {
    for settings in StrategySettings::all() {
        assert_eq!(read(&[("name", settings.name())]), Ok(settings), "{}", settings.name());
        assert_eq!(StrategySettings::named(settings.name()), Some(settings));
        assert_eq!(settings.problems(), [], "{}", settings.name());
    }
    assert_eq!(StrategySettings::named("fast"), None);
    assert_eq!(StrategySettings::default().name(), "slot_dual");
}

#[test]
fn what_is_not_known_is_not_read() {
    for (pairs, want) in [
        (&[("name", "fast")][..], "unknown variant `fast`"),
        (&[("gain", "1")][..], "missing field `name`"),
        (&[("name", "throttle"), ("upward", "1")][..], "unknown field `upward`"),
        (&[("name", "slot_dual"), ("eta", "1")][..], "unknown field `eta`"),
        (&[("name", "slot_dual"), ("pricing", "third_price")][..], "unknown variant `third_price`"),
    ] {
        let error = read(pairs).expect_err("it is not known").to_string();
        assert!(error.contains(want), "{pairs:?}: {error}");
    }
    let first = read(&[("name", "slot_dual"), ("pricing", "first_price")]);
    let expected = SlotDual { pricing: AuctionPricing::FirstPrice, ..SlotDual::default() };
    assert_eq!(first, Ok(StrategySettings::SlotDual(expected)));
}

#[track_caller]
fn check(settings: StrategySettings, want: &[&str]) {
    let problems = settings.problems();
    assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
}

#[test]
fn every_gain_out_of_range_is_told() {
    check(
        StrategySettings::Throttle(Throttle { up: 1.0, down: 1.0, start: 0.0 }),
        &[
            "up = 1: choose 1.01 to 2",
            "down = 1: choose 0.5 to 0.99",
            "start = 0: choose 0.0001 to 1",
        ],
    );
    check(
        StrategySettings::Pid(Pid {
            proportional: -1.0,
            integral: 0.0,
            derivative: f64::NAN,
            start: 2.0,
            multiplier_max: 149.0,
        }),
        &[
            "proportional = -1: choose 0 to 5",
            "integral = 0: choose 0.001 to 2",
            "derivative = NaN: choose 0 to 2",
            "start = 2: choose 0.0068 to 1",
            "multiplier_max = 149: choose 0.0068 to 148",
        ],
    );
    check(
        StrategySettings::Adaptive(Adaptive { step: 0.0, start: 0.0, multiplier_max: 1.5 }),
        &[
            "step = 0: choose 0.01 to 100",
            "start = 0: choose 0.0068 to 1",
            "multiplier_max = 1.5: choose 0.0068 to 1",
        ],
    );
    check(
        StrategySettings::SlotDual(SlotDual {
            gain: 3.0,
            catch_up: 0.0,
            follow: 1.5,
            start: f64::INFINITY,
            multiplier_max: 0.0,
            pricing: AuctionPricing::FirstPrice,
        }),
        &[
            "gain = 3: choose 0.01 to 2",
            "catch_up = 0: choose 0.01 to 1",
            "follow = 1.5: choose 0 to 1",
            "start = inf: choose 0.0068 to 1",
            "multiplier_max = 0: choose 0.0068 to 148",
        ],
    );
}
