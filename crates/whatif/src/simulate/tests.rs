//! Budgets, flights, forecasts and reports; every refusal.

use units::Cpm;

use super::*;
use crate::generate::{self, Profile};

fn auction(time_ms: u64, value: u64, market_price: u64) -> StreamAuction {
    let cpm = |micros| Cpm::new(micros).expect("a price");
    StreamAuction { time_ms, market_price: cpm(market_price), value: cpm(value) }
}

fn amount(nanos: u64) -> SimulatedBudget {
    SimulatedBudget::Amount(Nanos::new(nanos))
}

fn day(profile: &str, auctions: u64, seed: u64) -> Vec<StreamAuction> {
    let profile = Profile::named(profile).expect("it exists").clone();
    let options =
        generate::GenerateOptions { auctions, seed, ..generate::GenerateOptions::new(profile) };
    generate::auctions(&options).expect("in range").collect()
}

#[test]
fn budgets_are_read() {
    let share = |parts| Ppm::new(parts).map(SimulatedBudget::Share);
    for (text, want) in [
        ("1/32", share(31_250)),
        ("1/8", share(125_000)),
        ("1/3", share(333_333)),
        ("8/8", share(1_000_000)),
        ("0.03125", share(31_250)),
        ("3.125%", share(31_250)),
        ("12 %", share(120_000)),
        ("1", share(1_000_000)),
        ("100%", share(1_000_000)),
        ("0", None),
        ("0/8", None),
        ("9/8", None),
        ("1/0", None),
        ("1/", None),
        ("-1/8", None),
        ("1.5", None),
        ("101%", None),
        ("0.0000001", None),
        ("", None),
        ("%", None),
        ("half", None),
        ("18446744073709551615/2", None),
    ] {
        assert_eq!(SimulatedBudget::share(text), want, "{text}");
    }
    for (text, want) in [
        ("12.5", Some(amount(12_500_000_000))),
        ("0.0000000019", Some(amount(1))),
        ("0", Some(amount(0))),
        ("18446744073", Some(amount(18_446_744_073_000_000_000))),
        ("18446744074", None),
        ("-1", None),
        ("5 USD", None),
        ("", None),
    ] {
        assert_eq!(SimulatedBudget::amount(text), want, "{text}");
    }
}

#[test]
fn strategies_are_read_by_name() {
    let names = |text| {
        strategies(text).map(|all| all.iter().map(StrategySettings::name).collect::<Vec<_>>())
    };
    assert_eq!(names("all").unwrap().len(), 6);
    assert_eq!(names("slot_dual"), Ok(vec!["slot_dual"]));
    assert_eq!(names("pid, asap"), Ok(vec!["pid", "asap"]));
    for (text, wrong) in
        [("", ""), ("asap,best", "best"), ("ASAP", "ASAP"), ("a\u{1b}", "a\\u{1b}")]
    {
        let want = format!(
            "there is no strategy `{wrong}`: choose all, asap, even, throttle, pid, adaptive, slot_dual"
        );
        assert_eq!(names(text).unwrap_err().to_string(), want);
    }
}

#[test]
fn bidding_at_value_spends_what_it_wins() {
    let auctions = [auction(1, 10, 6), auction(2, 5, 6), auction(3, 6, 6), auction(4, 0, 0)];
    assert_eq!(unconstrained(&auctions, AuctionPricing::SecondPrice), 12);
    assert_eq!(unconstrained(&auctions, AuctionPricing::FirstPrice), 16);
    for (share, pricing, want) in [
        ("1/2", AuctionPricing::SecondPrice, 6),
        ("1/2", AuctionPricing::FirstPrice, 8),
        ("30%", AuctionPricing::SecondPrice, 3),
    ] {
        let budget = SimulatedBudget::share(share).unwrap();
        let report =
            simulate(&auctions, &SimulateOptions { pricing, ..SimulateOptions::new(budget) })
                .unwrap();
        assert_eq!(report.budget_nanos, want, "{share}");
    }
}

#[test]
fn a_report_has_every_strategy_and_the_optimum() {
    let auctions = [auction(1_000, 10, 6), auction(1_001, 5, 6), auction(1_002, 8, 2)];
    let report = simulate(&auctions, &SimulateOptions::new(amount(5))).unwrap();
    assert_eq!((report.auctions, report.start_ms, report.end_ms), (3, 1_000, 1_003));
    assert_eq!((report.budget_nanos, report.unconstrained_nanos), (5, 8));
    // 8 for 2, and half of 10 for 3 of 6.
    assert_eq!(
        report.optimum,
        OptimumFigures { wins: 1, spent_nanos: 5, value_nanos: 13, hourly: 1.0 }
    );
    let names: Vec<_> = report.strategies.iter().map(|figures| figures.strategy).collect();
    assert_eq!(names, ["asap", "even", "throttle", "pid", "adaptive", "slot_dual"]);
    let drawn: Vec<_> = report.curves.lines.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(drawn, names);

    // JSON: names that others rely on.
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    let keys = |value: &serde_json::Value| {
        value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(&json),
        "ahead auctions budget_nanos end_ms forecast optimum pricing slot_ms start_ms strategies unconstrained_nanos"
    );
    assert_eq!(
        keys(&json["strategies"][0]),
        "bids delivery exhausted_at exhausted_ms multiplier_volatility overspent_nanos rmse_even rmse_target \
         spent_nanos strategy value_nanos value_of_optimum wins"
    );
    assert_eq!((&json["pricing"], &json["forecast"]), (&"second_price".into(), &"own".into()));
}

#[test]
fn a_flight_bounds_auctions_budget_and_optimum() {
    let auctions: Vec<_> = (0..10).map(|at| auction(at * 1_000, 4, 2)).collect();
    let flight = CampaignFlight { start_ms: 2_000, end_ms: 5_000 };
    let options = SimulateOptions {
        flight: Some(flight),
        ..SimulateOptions::new(SimulatedBudget::Share(Ppm::ONE))
    };
    let report = simulate(&auctions, &options).unwrap();
    assert_eq!((report.auctions, report.unconstrained_nanos), (3, 6));
    assert_eq!((report.start_ms, report.end_ms, report.optimum.wins), (2_000, 5_000, 3));
    let asap = &report.strategies[0];
    // The last bid of 4 is lowered to the remaining 2.
    assert_eq!((asap.wins, asap.spent_nanos, asap.exhausted_ms), (3, 6, Some(4_000)));
}

#[track_caller]
fn refused(auctions: &[StreamAuction], options: &SimulateOptions, want: &str) {
    match simulate(auctions, options) {
        Ok(report) => panic!("simulated: {report:?}"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let auctions = [auction(1_000, 5, 2), auction(9_000, 1, 2)];
    let options = SimulateOptions::new(amount(1));
    let check = |change: &dyn Fn(&mut SimulateOptions), want: &str| {
        let mut options = options.clone();
        change(&mut options);
        refused(&auctions, &options, want);
    };
    let flight = |start_ms, end_ms| {
        move |it: &mut SimulateOptions| it.flight = Some(CampaignFlight { start_ms, end_ms })
    };
    refused(&[], &options, "there are no auctions between 0 and 0 ms: move the flight");
    check(&flight(2_000, 9_000), "there are no auctions between 2000 and 9000 ms: move the flight");
    check(&flight(9_000, 1_000), "there are no auctions between 9000 and 1000 ms: move the flight");
    check(
        &flight(1_000, u64::MAX),
        "the flight ends at 18446744073709551615 ms since 1970, after the year 9999",
    );
    check(
        &|it| it.budget = amount(0),
        "the budget is nothing: give an amount above 0 (bidding at value would spend 0.000000002)",
    );
    check(
        &|it| it.budget = SimulatedBudget::share("1/3").unwrap(),
        "the budget is nothing: give an amount above 0 (bidding at value would spend 0.000000002)",
    );
    check(&|it| it.ahead = 2.0, "ahead = 2: choose 0 to 1");
    check(
        &|it| {
            it.strategies =
                vec![StrategySettings::SlotDual(SlotDual { gain: 9.0, ..SlotDual::default() })];
        },
        "strategy slot_dual: gain = 9: choose 0.01 to 2",
    );
    check(
        &|it| it.slot_ms = Some(0),
        "slots of 0 ms make more than 2000000 of a flight of 8001 ms: give slots of 1 ms or more",
    );
    let years = [auction(0, 5, 2), auction(stream_end(), 1, 2)];
    refused(
        &years,
        &options,
        "slots of 60000 ms make more than 2000000 of a flight of 253402300800000 ms: give slots of 126701088 ms or more",
    );
    let dear = vec![auction(0, Cpm::MAX.micros(), Cpm::MAX.micros()); 20_000];
    refused(
        &dear,
        &SimulateOptions::new(SimulatedBudget::Share(Ppm::ONE)),
        "bidding at value would spend more than 18 thousand million: give an amount, not a share",
    );
}

const fn stream_end() -> u64 {
    crate::stream::TIME_MS_MAX
}

#[test]
fn the_remedy_for_slots_is_the_least_that_will_do() {
    let flight = |end_ms| CampaignFlight { start_ms: 0, end_ms };
    for (end_ms, least_ms) in [(8_001, 1), (2_000_001, 2), (stream_end() + 1, 126_701_088)] {
        assert_eq!(slot(Some(least_ms), flight(end_ms)), Ok(least_ms));
        assert!(slot(Some(least_ms - 1), flight(end_ms)).is_err(), "{end_ms}");
    }
    // By default a 1440th of the flight, between a second and a minute.
    for (end_ms, want) in
        [(1, 1_000), (8_640_000, 6_000), (generate::DAY_MS, 60_000), (u64::from(u32::MAX), 60_000)]
    {
        assert_eq!(slot(None, flight(end_ms)), Ok(want), "{end_ms}");
    }
}

#[test]
fn the_target_follows_the_forecast() {
    // All traffic is in the second and the fourth hour, one to three.
    let hour = |hour: u64, count: u64| {
        (0..count).map(move |at| auction(hour * HOUR_MS + at * 1_000, 4, 2))
    };
    let mut auctions: Vec<_> = hour(1, 100).chain(hour(3, 300)).collect();
    auctions.push(auction(24 * HOUR_MS - 1, 0, 1));
    let flight = Some(CampaignFlight { start_ms: 0, end_ms: 24 * HOUR_MS });
    let options = SimulateOptions {
        flight,
        strategies: vec![StrategySettings::Asap],
        ..SimulateOptions::new(amount(100))
    };
    let report = simulate(&auctions, &options).unwrap();
    let target = report.curves.target.unwrap();
    for (hours, want) in [(1, 0.0), (2, 0.25), (3, 0.25), (4, 0.997), (24, 1.0)] {
        let got = target.at(hours * HOUR_MS);
        assert!((got - want).abs() < 0.01, "{hours} h: {got}");
    }
    let even = SimulateOptions { forecast: SimulatedForecast::Uniform, ..options.clone() };
    let target = simulate(&auctions, &even).unwrap().curves.target.unwrap();
    assert!((target.at(6 * HOUR_MS) - 0.25).abs() < 0.01);
    let ahead = SimulateOptions { forecast: SimulatedForecast::Uniform, ahead: 1.0, ..options };
    let target = simulate(&auctions, &ahead).unwrap().curves.target.unwrap();
    assert!((target.at(12 * HOUR_MS) - 0.75).abs() < 0.01);
}

/// The first hour of Monday, 5 January 1970.
const MONDAY: u64 = 4 * 24 * HOUR_MS;

#[test]
fn traffic_is_learned_by_the_hour_of_the_day_or_the_week() {
    let learned = |auctions: &[StreamAuction]| match SimulatedForecast::learned(auctions) {
        SimulatedForecast::Learned(week) => week,
        other => panic!("{other:?}"),
    };
    let hour = |hour: u64, count: u64| {
        (0..count).map(move |at| auction(MONDAY + hour * HOUR_MS + at, 1, 1))
    };
    // One day counts for all days.
    let day: Vec<_> = (0..24).flat_map(|at| hour(at, at + 2)).collect();
    let week = learned(&day);
    for at in 0..HOURS {
        assert_eq!(week.weight(at), at as u64 % 24 + 2, "{at}");
    }
    // Two days count with their mean; an unseen hour is not closed.
    let two: Vec<_> = hour(0, 10).chain(hour(24, 20)).chain(hour(25, 7)).collect();
    let week = learned(&two);
    assert_eq!([0, 1, 2, 48, 49].map(|at| week.weight(at)), [15, 7, 1, 15, 7]);
    // A week counts as it is.
    let whole: Vec<_> = (0..168).flat_map(|at| hour(at, at + 1)).collect();
    let week = learned(&whole);
    assert_eq!([0, 1, 24, 167].map(|at| week.weight(at)), [1, 2, 25, 168]);
    assert_eq!(learned(&[]).weight(5), 1);
}

#[test]
fn pricing_reaches_the_strategy() {
    let first = priced(StrategySettings::default(), AuctionPricing::FirstPrice);
    assert!(matches!(
        first,
        StrategySettings::SlotDual(SlotDual { pricing: AuctionPricing::FirstPrice, .. })
    ));
    assert_eq!(priced(StrategySettings::Asap, AuctionPricing::FirstPrice), StrategySettings::Asap);
    let auctions = day("flat", 20_000, 1);
    let share = SimulatedBudget::share("1/4").unwrap();
    let options = SimulateOptions {
        strategies: vec![StrategySettings::default()],
        ..SimulateOptions::new(share)
    };
    let options = SimulateOptions { pricing: AuctionPricing::FirstPrice, ..options };
    let report = simulate(&auctions, &options).unwrap();
    let [figures] = &report.strategies[..] else { panic!("one strategy") };
    assert_eq!(figures.overspent_nanos, 0);
    assert!(figures.delivery > 0.95, "{figures:?}");
    assert!(figures.value_of_optimum < 1.0);
}

#[test]
fn the_same_stream_gives_the_same_report() {
    let auctions = day("bursty", 5_000, 3);
    let options = SimulateOptions::new(SimulatedBudget::share("1/8").unwrap());
    let json = || serde_json::to_string(&simulate(&auctions, &options).unwrap()).unwrap();
    assert_eq!(json(), json());
}
