//! Reuse beside brute force, and the traps of patterns.

use proptest::prelude::*;

use super::*;
use crate::map::ParameterSource;
use crate::map::testing::physics;
use crate::pipe::satisfies;
use crate::plan::plan;
use crate::query::{QueryLimits, Vocabulary, parse};

fn query(text: &str) -> LookupQuery {
    parse(text, &Vocabulary::open(), QueryLimits::default()).expect(text)
}

/// The keys of the conditions that are applied to the records of the wider query.
#[track_caller]
fn check(wide: &str, narrow: &str, want: Option<&[&str]>) {
    let (wide, narrow) = (query(wide), query(narrow));
    let applied = conditions_to_apply(&wide, &narrow);
    let keys = applied.map(|applied| applied.into_iter().map(|of| &*of.key).collect::<Vec<_>>());
    assert_eq!(keys.as_deref(), want, "{wide} / {narrow}");
}

#[test]
fn a_wider_query_answers_a_narrower_one() {
    check("file dataset=/a", "file dataset=/a", Some(&[]));
    check("file dataset=/a", "file dataset=/a file=*.root", Some(&["file"]));
    check("file dataset=/a file=*.root", "file dataset=/a", None);
    // Files do not say which dataset they are of.
    check("file dataset=/a*", "file dataset=/a/b", None);
    check("dataset=/a*", "dataset=/a/b", Some(&["dataset"]));
    check("dataset", "dataset=/a/b", Some(&["dataset"]));
    check("file,run dataset=/a", "run,file dataset=/a run between [1, 3]", Some(&["run"]));
    check("file,run dataset=/a", "file dataset=/a", None);
    check("file dataset=/a system=x", "file dataset=/a", None);
    check("file dataset=/a", "file dataset=/a system=x", None);
    check("file dataset=/a instance=x", "file dataset=/a instance=y", None);
    // Stages play no part.
    check("file dataset=/a | limit 1", "file dataset=/a | sort file.size", Some(&[]));
    check("run date last 24h", "run date last 24h run=1", Some(&["run"]));
    check("run date last 24h", "run date last 1h", None);
}

#[test]
fn a_provider_that_takes_no_patterns_is_not_left_out() {
    let mut map = physics();
    // Both know datasets, but one only by their whole name.
    let mut whole = map.providers[0].calls[0].clone();
    let ParameterSource::Key(of) = &mut whole.parameters[0].source else { panic!("a key") };
    (of.takes_patterns, of.is_required) = (false, true);
    whole.parameters.truncate(1);
    whole.gives = vec!["dataset".to_owned()];
    map.providers[1].calls.push(whole);
    let planned = |text: &str| {
        let query = query(text);
        let plan = plan(&map, &query).expect(text);
        (query, plan)
    };
    let applied = |wide: &str, narrow: &str| {
        let ((wide, wide_plan), (narrow, narrow_plan)) = (planned(wide), planned(narrow));
        let wide = PlannedQuery { query: &wide, plan: &wide_plan };
        let narrow = PlannedQuery { query: &narrow, plan: &narrow_plan };
        narrowing(wide, narrow).map(|applied| applied.len())
    };
    assert_eq!(applied("dataset=/a/*/*", "dataset=/a/b/*"), Some(1));
    assert_eq!(applied("dataset=/a/*/*", "dataset=/a/b/c"), None);
    assert_eq!(applied("dataset=/a/b/c", "dataset=/a/b/c"), Some(0));
    assert_eq!(applied("dataset in [/a/b/c, /d/e/f]", "dataset=/a/b/c"), Some(1));
}

#[test]
fn patterns_contain_others() {
    let contains = |wide: &str, narrow: &str, want: bool| {
        let applied: Option<&[&str]> = if wide == narrow { Some(&[]) } else { Some(&["run"]) };
        check(&format!("run run={wide}"), &format!("run run={narrow}"), applied.filter(|_| want));
    };
    contains("/a*", "/a/b*", true);
    contains("/a/b*", "/a*", false);
    contains("a*b*", "a*b", true);
    contains("a*b", "a*b*", false);
    contains("*a*", "*ab*", true);
    contains("*ab*", "*a*b*", false);
    contains("*", "a*b", true);
    contains("*", "1", true);
    contains("**", "*", true);
    contains("a*a", "a", false);
    contains("1*", "1", false);
    contains("1", "1.0", true);
    contains("\"1\"", "1", false);
    contains("1", "\"1\"", false);
}

#[test]
fn ranges_and_lists_contain_others() {
    let contains = |wide: &str, narrow: &str, want: bool| {
        let applied: Option<&[&str]> = Some(&["run"]);
        check(&format!("run run {wide}"), &format!("run run {narrow}"), applied.filter(|_| want));
    };
    contains("between [1, 9]", "between [2, 9.0]", true);
    contains("between [1, 9]", "between [0, 5]", false);
    contains("between [1, 9]", "in [1, 5, 9]", true);
    contains("between [1, 9]", "in [1, 10]", false);
    contains("between [1, 9]", "in [1, \"5\"]", false);
    contains("in [1, 2, a*]", "in [2, ab]", true);
    contains("in [1, 2]", "in [2, 3]", false);
    contains("in [1, 2]", "between [1, 2]", false);
    contains("in [1, \"*\"]", "between [1, 2]", true);
}

/// A record: the value of a key that it has, and that of one that it does not show.
type Hidden = (RecordValue, RecordValue);

fn value() -> impl Strategy<Value = QueryValue> {
    prop_oneof![
        (0..4_i64).prop_map(QueryValue::Integer),
        (0..8_i32).prop_map(|half| QueryValue::Decimal(f64::from(half) / 2.0)),
        "[a1.*]{0,3}".prop_map(QueryValue::Text),
    ]
}

fn test_of_value() -> impl Strategy<Value = QueryTest> {
    let number = (0..4_i64, 0..4_i64).prop_map(|(one, other)| {
        QueryTest::Between([one.min(other), one.max(other)].map(QueryValue::Integer))
    });
    prop_oneof![
        value().prop_map(QueryTest::Is),
        prop::collection::vec(value(), 1..3).prop_map(QueryTest::In),
        number,
    ]
}

fn conditions() -> impl Strategy<Value = Vec<QueryCondition>> {
    let of = |key: &'static str| {
        let condition = move |test| QueryCondition { key: key.to_owned(), test };
        prop::option::of(test_of_value().prop_map(condition))
    };
    (of("seen"), of("hidden")).prop_map(|(seen, hidden)| seen.into_iter().chain(hidden).collect())
}

fn record_value() -> impl Strategy<Value = RecordValue> {
    prop_oneof![
        (0..4_i64).prop_map(RecordValue::Integer),
        (0..8_i32).prop_map(|half| RecordValue::of_double(f64::from(half) / 2.0)),
        "[a1.]{0,3}".prop_map(|text| RecordValue::Text(text.into())),
        Just(RecordValue::Absent),
    ]
}

fn satisfies_all<'c>(
    (seen, hidden): &Hidden,
    conditions: impl IntoIterator<Item = &'c QueryCondition>,
) -> bool {
    conditions.into_iter().all(|QueryCondition { key, test }| {
        satisfies(if key == "seen" { seen } else { hidden }, test)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn reuse_agrees_with_brute_force(
        wide in conditions(),
        narrow in conditions(),
        records in prop::collection::vec((record_value(), record_value()), 0..20),
    ) {
        let query = |conditions| LookupQuery {
            fields: vec!["seen".to_owned()],
            conditions,
            systems: Vec::new(),
            instance: None,
            pipe: Vec::new(),
        };
        let (wide, narrow) = (query(wide), query(narrow));
        let want: Vec<_> =
            records.iter().filter(|record| satisfies_all(record, &narrow.conditions)).collect();
        if let Some(applied) = conditions_to_apply(&wide, &narrow) {
            prop_assert!(applied.iter().all(|condition| condition.key == "seen"));
            let found = records.iter().filter(|record| satisfies_all(record, &wide.conditions));
            let found: Vec<_> =
                found.filter(|record| satisfies_all(record, applied.iter().copied())).collect();
            prop_assert_eq!(found, want, "{} / {}", wide, narrow);
        }
    }
}
