//! Merging, beside a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn set(fields: &[&str], rows: Vec<Vec<RecordValue>>) -> RecordSet {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    RecordSet { fields, rows: rows.into_iter().map(Into::into).collect() }
}

fn merged(answers: Vec<(u32, RecordSet)>, primary: &[&str]) -> MergedRecords {
    let primary: Vec<_> = primary.iter().map(|field| (*field).to_owned()).collect();
    merge(answers, &primary, RecordLimits::default()).expect("few records")
}

fn text(text: &str) -> RecordValue {
    RecordValue::Text(text.into())
}

#[test]
fn records_of_the_same_thing_become_one() {
    use RecordValue::{Absent, Integer, Null};
    let one = set(&["file.name", "file.size"], vec![vec![text("a"), Integer(1)], vec![text("b")]]);
    let other = set(
        &["file.site", "file.name", "file.size"],
        vec![
            vec![text("x"), text("b"), Integer(2)],
            vec![text("y"), text("a"), Integer(3)],
            vec![text("z"), Null, Integer(4)],
            vec![text("z"), Absent, Integer(4)],
        ],
    );
    let merged = merged(vec![(0, one), (3, other)], &["file.name"]);
    let records: Vec<_> = merged
        .records
        .iter()
        .map(|record| {
            (to_json(&merged.fields, &record.row)["file"].clone(), record.sources.to_vec())
        })
        .collect();
    let want = [
        // The earlier answer says how large it is.
        (json!({ "name": "a", "size": 1, "site": "y" }), vec![0, 3]),
        (json!({ "name": "b", "size": 2, "site": "x" }), vec![0, 3]),
        (json!({ "name": null, "size": 4, "site": "z" }), vec![3]),
        (json!({ "size": 4, "site": "z" }), vec![3]),
    ];
    assert_eq!(records, want);
}

#[test]
fn numbers_and_their_texts_are_the_same_thing() {
    let sets = vec![
        (0, set(&["run.number"], vec![vec![RecordValue::Integer(1)]])),
        (1, set(&["run.number"], vec![vec![text("1")], vec![text("01")]])),
    ];
    assert_eq!(merged(sets, &["run.number"]).records.len(), 2);
}

#[test]
fn parts_of_a_name_are_not_confused() {
    let rows = [["a", "bc"], ["ab", "c"]].map(|row| row.map(text).to_vec()).to_vec();
    let sets = vec![(0, set(&["file.name", "site.name"], rows))];
    assert_eq!(merged(sets, &["file.name", "site.name"]).records.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_agrees_with_a_naive_model(
        answers in prop::collection::vec(
            prop::collection::vec((0_i64..5, prop::option::of(0_i64..3), any::<bool>()), 0..8),
            0..5,
        ),
    ) {
        // By name, the first value of each attribute.
        let mut model: BTreeMap<i64, (Option<i64>, Vec<u32>)> = BTreeMap::new();
        let mut sets = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            let at = u32::try_from(at).expect("few answers");
            let is_turned = answer.first().is_some_and(|(.., is_turned)| *is_turned);
            let mut rows = Vec::new();
            for (name, value, _) in answer {
                let known = model.entry(*name).or_default();
                known.0 = known.0.or(*value);
                if !known.1.contains(&at) {
                    known.1.push(at);
                }
                let value = value.map_or(RecordValue::Absent, RecordValue::Integer);
                let mut row = vec![RecordValue::Integer(*name), value];
                if is_turned {
                    row.reverse();
                }
                rows.push(row);
            }
            let fields = if is_turned { ["k.v", "k.name"] } else { ["k.name", "k.v"] };
            sets.push((at, set(&fields, rows)));
        }
        let merged = merged(sets, &["k.name"]);
        let (name, value) = (merged.field("k.name"), merged.field("k.v"));
        let found: BTreeMap<_, _> = merged.records.iter().map(|record| {
            let at = |column: Option<usize>| column.map_or(&RecordValue::Absent, |at| value_at(&record.row, at));
            let number = |value: &RecordValue| value.integer().and_then(|number| i64::try_from(number).ok());
            let name = number(at(name)).expect("a name");
            (name, (number(at(value)), record.sources.to_vec()))
        }).collect();
        prop_assert_eq!(found.len(), merged.records.len());
        prop_assert_eq!(found, model);
    }
}

#[test]
fn answers_together_are_bounded() {
    let limits = RecordLimits { records_max: 2, fields_max: 3, values_max: 6 };
    let many = |fields: &[&str], count: usize| {
        let row = vec![RecordValue::Integer(1); fields.len()];
        set(fields, vec![row; count])
    };
    let check = |sets: [RecordSet; 2], want: Result<usize, UnreadableRecords>| {
        let sets = (0..).zip(sets).collect();
        assert_eq!(merge(sets, &[], limits).map(|merged| merged.records.len()), want);
    };
    check([many(&["a.a"], 1), many(&["a.a"], 1)], Ok(2));
    check([many(&["a.a"], 1), many(&["a.a"], 2)], Err(UnreadableRecords::TooManyRecords(2)));
    check([many(&["a.a", "a.b"], 1), many(&["a.c"], 1)], Ok(2));
    let fields = Err(UnreadableRecords::TooManyFields(3));
    check([many(&["a.a", "a.b"], 1), many(&["a.c", "a.d"], 1)], fields);
    // Rows are as wide as they must be.
    let wide = [many(&["a.a", "a.b", "a.c"], 1), many(&["a.c", "a.a", "a.b"], 1)];
    check(wide, Ok(2));
    let values = RecordLimits { values_max: 5, ..limits };
    let sets = vec![(0, many(&["a.a", "a.b", "a.c"], 2))];
    assert_eq!(merge(sets, &[], values), Err(UnreadableRecords::TooManyValues(5)));
}

/// Answers that are kept, merged and filtered have each value once.
#[test]
fn rows_are_shared() {
    let one = set(&["file.name"], vec![vec![text("a")], vec![text("b")]]);
    let other = set(&["file.name", "file.size"], vec![vec![text("b"), RecordValue::Absent]]);
    let merged = merged(vec![(0, one.clone()), (1, other)], &["file.name"]);
    for (record, row) in merged.records.iter().zip(&one.rows) {
        assert!(std::sync::Arc::ptr_eq(&record.row, row));
    }
    assert_eq!(merged.records[1].sources[..], [0, 1]);
}
