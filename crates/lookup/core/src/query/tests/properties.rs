//! Any query, printed and parsed, is the same; any text is parsed or refused.

use proptest::prelude::*;

use super::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z_][a-z0-9_]{0,5}".prop_filter("a key of its own", |name| is_key_name(name))
}

fn field() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("."))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/*#-]{1,8}", "[0-9.-]{1,8}", "\\PC{0,8}", "[\"'\\\\ ,|=\n]{0,6}"]
}

fn decimal() -> impl Strategy<Value = f64> {
    let text = "-?(0|[1-9][0-9]{0,9})\\.[0-9]{1,9}";
    text.prop_map(|text| text.parse().expect("a number"))
}

fn value() -> impl Strategy<Value = QueryValue> {
    prop_oneof![
        any::<i64>().prop_map(QueryValue::Integer),
        decimal().prop_map(QueryValue::Decimal),
        text().prop_map(QueryValue::Text),
    ]
}

fn time() -> impl Strategy<Value = QueryValue> {
    let seconds =
        prop_oneof![0..253_402_300_800_i64, (0..2_932_896_i64).prop_map(|day| day * 86_400)];
    seconds.prop_map(QueryValue::Time)
}

fn test_of(
    value: impl Strategy<Value = QueryValue> + Clone + 'static,
    range: impl Strategy<Value = [QueryValue; 2]> + 'static,
) -> impl Strategy<Value = QueryTest> {
    prop_oneof![
        value.clone().prop_map(QueryTest::Is),
        prop::collection::vec(value, 1..4).prop_map(QueryTest::In),
        range.prop_map(QueryTest::Between),
    ]
}

fn pair(of: impl Strategy<Value = i64>) -> impl Strategy<Value = [i64; 2]> {
    let distance = 0..1_000_000_000_i64;
    (of, distance).prop_map(|(low, distance)| [low, low.saturating_add(distance)])
}

fn conditions() -> impl Strategy<Value = Vec<QueryCondition>> {
    let number = pair(any::<i64>()).prop_map(|range| range.map(QueryValue::Integer));
    let plain = prop::collection::btree_map(name(), test_of(value().boxed(), number), 0..4);
    let seconds = pair(0..250_000_000_000_i64).prop_map(|range| range.map(QueryValue::Time));
    let unit = prop::sample::select(vec![1, 60, 3_600, 86_400_u64]);
    let last =
        (1..=u64::from(u32::MAX), unit).prop_map(|(count, unit)| QueryTest::Last(count * unit));
    let date = prop::option::of(prop_oneof![test_of(time().boxed(), seconds), last]);
    (plain, date).prop_map(|(plain, date)| {
        let date = date.map(|test| ("date".to_owned(), test));
        let all = plain.into_iter().chain(date);
        all.map(|(key, test)| QueryCondition { key, test }).collect()
    })
}

fn stage() -> impl Strategy<Value = PipeStage> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
    let comparison =
        prop::sample::select(vec![Equal, Unequal, Less, LessOrEqual, Greater, GreaterOrEqual]);
    let item = (field(), prop::option::of((comparison, value())))
        .prop_map(|(field, comparison)| GrepItem { field, comparison });
    prop_oneof![
        prop::collection::vec(item, 1..4).prop_map(PipeStage::Grep),
        (field(), any::<bool>())
            .prop_map(|(field, is_descending)| PipeStage::Sort { field, is_descending }),
        Just(PipeStage::Unique),
        (1..u64::MAX).prop_map(PipeStage::Limit),
    ]
}

fn aggregates() -> impl Strategy<Value = Option<PipeStage>> {
    let function = prop::sample::select(AggregateFunction::ALL.to_vec());
    let of = (function, field()).prop_map(|(function, field)| Aggregate { function, field });
    prop::option::of(prop::collection::vec(of, 1..4).prop_map(PipeStage::Aggregate))
}

fn query() -> impl Strategy<Value = LookupQuery> {
    let fields = prop::collection::btree_set(name(), 1..4);
    let systems = prop::collection::vec(text(), 0..3);
    let pipe = (prop::collection::vec(stage(), 0..4), aggregates());
    (fields, conditions(), systems, prop::option::of(text()), pipe).prop_map(
        |(fields, conditions, systems, instance, (mut pipe, aggregates))| {
            pipe.extend(aggregates);
            let fields = fields.into_iter().collect();
            LookupQuery { fields, conditions, systems, instance, pipe }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_loses_nothing(query in query()) {
        let printed = query.to_string();
        let parsed = parse(&printed, &Vocabulary::open(), QueryLimits::default());
        prop_assert_eq!(parsed.as_ref(), Ok(&query), "{}", printed);
        prop_assert_eq!(parsed.map(|query| query.to_string()), Ok(printed));
    }

    #[test]
    fn any_text_is_parsed_or_refused_at_a_place(
        words in prop::collection::vec(
            prop_oneof!["file|run|date|system|in|between|last|grep|sort|sum", "[|=,<>!()\\[\\]]", text()],
            0..12,
        ),
        space in " ?",
    ) {
        let text = words.join(&space);
        match parse(&text, &known(), QueryLimits::default()) {
            Ok(query) => {
                let printed = query.to_string();
                let again = parse(&printed, &known(), QueryLimits::default());
                prop_assert_eq!(again, Ok(query), "{}", printed);
            }
            Err(error) => prop_assert!(error.text.get(error.at.clone()).is_some()),
        }
    }
}
