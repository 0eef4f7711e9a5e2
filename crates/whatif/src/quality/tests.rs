//! The default meets its targets; a target that is missed is told.

use super::*;
use crate::generate::profile::PROFILES;

/// The streams of `vickrey simulate quality`.
fn measured(profiles: &[Profile], strategies: &[Settings]) -> Vec<Row> {
    let options = Options {
        profiles: profiles.to_vec(),
        strategies: strategies.to_vec(),
        ..Options::default()
    };
    measure(&options).expect("in range")
}

fn named(name: &str) -> [Profile; 1] {
    [Profile::parse(name).expect("it exists")]
}

#[test]
fn the_default_meets_its_targets() {
    let rows = measured(PROFILES, &[Settings::default()]);
    assert_eq!(rows.len(), 2 * PROFILES.len());
    let missed = rows.iter().filter(|row| !row.missed().is_empty());
    assert_eq!(missed.count(), 0, "\n{}", crate::table::quality(&rows));
    assert!(rows.iter().all(|row| row.is_default));
}

#[test]
fn baselines_win_less_and_overspend_as_little() {
    let rows = measured(&named("diurnal"), &Settings::all());
    assert_eq!(rows.len(), 12);
    for row in &rows {
        assert_eq!(row.figures.overspent_nanos, 0, "{row:?}");
        assert!(row.figures.value_of_optimum <= 1.0, "{row:?}");
        let is_default = row.figures.strategy == "slot_dual";
        assert_eq!(row.is_default, is_default);
    }
    let value = |strategy: &str| {
        let mut rows = rows.iter().filter(|row| row.figures.strategy == strategy);
        rows.next().expect("it was measured").figures.value_of_optimum
    };
    for baseline in ["asap", "even", "throttle"] {
        assert!(value(baseline) + 0.2 < value("slot_dual"), "{}", crate::table::quality(&rows));
    }
}

#[test]
fn each_target_is_told_when_it_is_missed() {
    let row = measured(&named("flat"), &[Settings::default()]).swap_remove(0);
    let check = |change: &dyn Fn(&mut Figures), want: &[&str]| {
        let mut row = row.clone();
        row.figures.value_of_optimum = VALUE_MIN;
        row.figures.rmse_target = RMSE_MAX;
        row.figures.delivery = DELIVERY_MIN;
        change(&mut row.figures);
        assert_eq!(row.missed(), want);
    };
    check(&|_| (), &[]);
    check(&|it| it.overspent_nanos = 1, &["overspent"]);
    check(&|it| it.value_of_optimum = 0.949, &["value"]);
    check(&|it| it.rmse_target = 0.0201, &["rmse"]);
    check(&|it| it.delivery = 0.9899, &["delivery"]);
    check(&|it| it.delivery = f64::NAN, &["delivery"]);
}

#[test]
fn options_out_of_range_are_refused() {
    let options = Options { auctions: 0, ..Options::default() };
    let error = measure(&options).expect_err("no auctions");
    assert_eq!(error.to_string(), "0 auctions cannot be: ask for 1 to 1000000000");
    let options = Options { auctions: 1, shares: vec![Ppm::ZERO], ..Options::default() };
    let error = measure(&options).expect_err("no budget").to_string();
    assert!(error.starts_with("the budget is nothing: "), "{error}");
}
