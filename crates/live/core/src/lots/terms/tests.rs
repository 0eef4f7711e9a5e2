//! Every problem of terms, and the remedies.

use super::*;
use crate::lots::increments::IncrementBand;
use crate::lots::tests::{cpm, terms};

/// Checks the problems of sound terms after a change.
#[track_caller]
fn check(change: impl Fn(&mut LotTerms), want: &[&str]) {
    let mut terms = terms();
    change(&mut terms);
    assert_eq!(terms.check().iter().map(ToString::to_string).collect::<Vec<_>>(), want);
}

fn english(terms: &mut LotTerms) -> &mut EnglishTerms {
    match &mut terms.rules {
        LotRules::English(english) => english,
        LotRules::SealedSecondPrice => unreachable!("the terms are English"),
    }
}

#[test]
fn every_problem_is_reported() {
    check(|_| (), &[]);
    check(|it| it.title = "x".repeat(200), &[]);
    check(|it| it.title = "é".repeat(101), &["title has 202 bytes: shorten it to 200 bytes"]);
    check(|it| it.impressions = 0, &["impressions is 0: sell at least 1"]);
    check(|it| it.bids_max = LOT_BIDS_MAX, &[]);
    check(|it| it.bids_max = 0, &["bids_max is 0: choose 1 to 100000"]);
    check(|it| it.bids_max = 100_001, &["bids_max is 100001: choose 1 to 100000"]);
    check(|it| it.start_price = Cpm::ZERO, &["start_price is 0: give a price above 0"]);
    check(|it| it.invited = vec!["a".to_owned(); 1000], &[]);
    let long = "invited names 1001 bidders: name at most 1000";
    check(|it| it.invited = vec!["a".to_owned(); 1001], &[long]);
    check(|it| it.closes_ms = it.opens_ms + 1, &[]);
    let early = "closes_ms is 1000, not after opens_ms: give more than 1000";
    check(|it| it.closes_ms = it.opens_ms, &[early]);
    let short = "deal.ends_ms is 5000, not after deal.starts_ms: give more than 5000";
    check(|it| it.deal.ends_ms = it.deal.starts_ms, &[short]);
    let low = "reserve is 0.000099, below the start price: give at least 0.0001";
    check(|it| it.reserve = Some(cpm(99)), &[low]);
    check(|it| it.reserve = Some(cpm(100)), &[]);
    check(
        |it| {
            it.impressions = 0;
            it.closes_ms = 0;
            english(it).increments = IncrementBands(Vec::new());
        },
        &[
            "impressions is 0: sell at least 1",
            "closes_ms is 0, not after opens_ms: give more than 1000",
            "rules.increments has 0 bands: give 1 to 16 bands",
        ],
    );
}

#[test]
fn prices_whose_cost_does_not_fit_are_problems() {
    let remedy = "give at most 0.0001, or sell fewer impressions";
    let start = format!("start_price is 0.000101, whose cost does not fit: {remedy}");
    let reserve = format!("reserve is 0.000101, whose cost does not fit: {remedy}");
    let of = |it: &mut LotTerms, start, reserve| {
        it.impressions = u64::MAX / 100;
        (it.start_price, it.reserve) = (cpm(start), Some(cpm(reserve)));
    };
    check(|it| of(it, 100, 100), &[]);
    check(|it| of(it, 100, 101), &[&reserve]);
    check(|it| of(it, 101, 101), &[&start, &reserve]);
    let mut terms = terms();
    of(&mut terms, 100, 100);
    assert_eq!(terms.cost(cpm(100)), Some(Nanos::new(u64::MAX / 100 * 100)));
    assert_eq!(terms.cost(cpm(101)), None);
    terms.impressions = 1;
    assert_eq!(terms.price_max(), Cpm::MAX);
}

#[test]
fn bands_start_at_0_and_are_sorted() {
    let check = |bands: &[(u64, u64)], want: &[&str]| {
        let band =
            |(from, step): &(u64, u64)| IncrementBand { from: cpm(*from), increment: cpm(*step) };
        let bands = IncrementBands(bands.iter().map(band).collect());
        check(|it| english(it).increments = bands.clone(), want);
    };
    let most: Vec<_> = (0..17).map(|from| (from, 1)).collect();
    check(&most[..16], &[]);
    check(&most, &["rules.increments has 17 bands: give 1 to 16 bands"]);
    check(&[(1, 1)], &["rules.increments starts at 0.000001: let the first band start at 0"]);
    let order = "rules.increments has a band from 0.000005 after that from 0.000005: \
                 sort the bands by price, each once";
    check(&[(0, 1), (5, 2), (5, 3)], &[order]);
    check(
        &[(0, 1), (5, 0)],
        &["rules.increments has no increment from 0.000005: give an increment above 0"],
    );
}

#[test]
fn soft_closes_have_spans() {
    let check = |window_ms, extension_ms, total_max_ms, want: &[&str]| {
        let soft_close = SoftClose { window_ms, extension_ms, total_max_ms };
        check(|it| english(it).soft_close = Some(soft_close), want);
    };
    check(1, 1, 1, &[]);
    check(0, 1, 1, &["rules.soft_close.window_ms is 0: give at least 1"]);
    check(1, 0, 1, &["rules.soft_close.extension_ms is 0: give at least 1"]);
    check(
        1,
        3,
        2,
        &["rules.soft_close.total_max_ms is 2, less than one extension: give at least 3"],
    );
}

#[test]
fn ids_are_plain() {
    for (text, is_id) in [
        ("a", true),
        ("Summer_2026.final-1", true),
        (&*"x".repeat(64), true),
        (&*"x".repeat(65), false),
        ("", false),
        ("a b", false),
        ("a/b", false),
        ("é", false),
    ] {
        assert_eq!(LotId::parse(text).is_some(), is_id, "{text}");
    }
    assert_eq!(LotId::parse("a.1").expect("an id").as_str(), "a.1");
}
