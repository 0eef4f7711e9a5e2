//! Stages and comparisons.

use serde_json::{Value, json};

use super::*;
use crate::map::testing::physics;
use crate::query::{PipeStage, QueryLimits, Vocabulary, parse};
use crate::records::{
    MergedRecord, MergedRecords, RecordLimits, RecordSet, RecordValue, merge, to_json,
};

/// Files with names, sizes and tags; of the last one only the name is known.
fn files() -> MergedRecords {
    let fields = ["file.name", "file.size", "file.tags"].map(str::to_owned).to_vec();
    let rows = [
        json!(["a.root", 10, ["x", "y"]]),
        json!(["b.root", -3, ["y"]]),
        json!(["c.txt", "10", null]),
        json!(["d.txt", 2.5, "x"]),
        json!(["e.txt"]),
    ];
    let row =
        |row: &Value| row.as_array().expect("a row").iter().map(RecordValue::of_json).collect();
    let set = RecordSet { fields, rows: rows.iter().map(row).collect() };
    merge(vec![(0, set)], &[], RecordLimits::default()).expect("few")
}

fn stages(pipe: &str) -> Vec<PipeStage> {
    let query = parse(&format!("file | {pipe}"), &Vocabulary::open(), QueryLimits::default());
    query.expect(pipe).pipe
}

/// The first letters of the names that are left.
#[track_caller]
fn names(pipe: &str, want: &str) {
    let PipeResult::Records(left) = run(files(), &physics(), &stages(pipe)) else {
        panic!("records")
    };
    let name = |record: &MergedRecord| record.row[0].text().chars().next().expect("a name");
    assert_eq!(left.records.iter().map(name).collect::<String>(), want, "{pipe}");
}

#[test]
fn comparisons_keep_records() {
    names("grep file.size>2", "acd");
    names("grep file.size>=10", "ac");
    names("grep file.size<0", "b");
    names("grep file.size<=2.5", "bd");
    names("grep file.size=10", "ac");
    names("grep file.size=\"10\"", "ac");
    names("grep file.size!=10", "bde");
    names("grep file.name=*.root", "ab");
    names("grep file.name!=*.root", "cde");
    names("grep file.name>c", "cde");
    // Of a list one item is enough.
    names("grep file.tags=x", "ad");
    names("grep file.tags!=y", "cde");
    names("grep file.size>0, file.tags=y", "a");
    names("grep file.unknown=1", "");
    names("grep file.unknown!=1", "abcde");
    names("grep file.size>a", "");
    names("grep file.size>9.50", "ac");
    // A key alone is its primary attribute.
    names("grep file=*.root", "ab");
    names("grep file!=a.root", "bcde");
    names("sort file-", "edcba");
}

#[test]
fn records_are_ordered_cut_and_made_unique() {
    names("sort file.size", "bdace");
    names("sort file.size-", "acdbe");
    names("sort file.name-", "edcba");
    names("sort file.tags | limit 2", "ab");
    names("sort file.unknown", "abcde");
    names("limit 2", "ab");
    names("limit 9", "abcde");
    names("limit 3 | sort file.size", "bac");
    names("unique", "abcde");
}

#[test]
fn fields_are_kept() {
    let left = |pipe: &str| {
        let PipeResult::Records(left) = run(files(), &physics(), &stages(pipe)) else {
            panic!("records")
        };
        let rows =
            left.records.iter().map(|record| to_json(&left.fields, &record.row)["file"].clone());
        Value::from(rows.collect::<Vec<_>>())
    };
    assert_eq!(left("grep file.name=a*, file.size"), json!([{ "size": 10 }]));
    assert_eq!(
        left("grep file.name=a*, file.size, file.name, file.size"),
        json!([{ "size": 10, "name": "a.root" }])
    );
    assert_eq!(
        left("grep file.name=a*, file"),
        json!([{ "name": "a.root", "size": 10, "tags": ["x", "y"] }])
    );
    assert_eq!(
        left("grep file.size | limit 5 | unique"),
        json!([{ "size": 10 }, { "size": -3 }, { "size": 2.5 }, null])
    );
}

#[test]
fn repeated_records_have_all_sources() {
    let fields = vec!["a.b".to_owned()];
    let record = |number, source| MergedRecord {
        row: [RecordValue::Integer(number)].into(),
        sources: [source].into(),
    };
    let records = vec![record(1, 2), record(2, 0), record(1, 0), record(1, 2)];
    let PipeResult::Records(left) =
        run(MergedRecords { fields, records }, &physics(), &stages("unique"))
    else {
        panic!("records")
    };
    let sources: Vec<_> = left.records.iter().map(|record| record.sources.to_vec()).collect();
    assert_eq!(sources, [vec![0, 2], vec![0]]);
}

#[test]
fn aggregates_are_exact() {
    let values = |pipe: &str| {
        let PipeResult::Aggregates(values) = run(files(), &physics(), &stages(pipe)) else {
            panic!("aggregates")
        };
        values.iter().map(|of| of.value.to_json()).collect::<Value>()
    };
    // 10, -3, "10" and 2.5; one has none.
    let all = "sum(file.size), count(file.size), min(file.size), max(file.name), avg(file.size), median(file.size)";
    assert_eq!(values(all), json!([19.5, 4, -3, "e.txt", 4.875, 6.25]));
    assert_eq!(values("count(file), count(file.tags)"), json!([5, 3]));
    assert_eq!(values("grep file.size<0 | max(file.size), median(file.size)"), json!([-3, -3]));
    assert_eq!(
        values(
            "grep file.size=1 | sum(file.size), avg(file.size), min(file.size), median(file.size), count(file)"
        ),
        json!([null, null, null, null, 0])
    );
    // Two in the middle, and whole numbers beyond the precision of doubles.
    let fields = vec!["a.b".to_owned()];
    let of = |numbers: &[i64], pipe: &str| {
        let record = |number: &i64| MergedRecord {
            row: [RecordValue::Integer(*number)].into(),
            sources: [0].into(),
        };
        let records = numbers.iter().map(record).collect();
        let PipeResult::Aggregates(values) =
            run(MergedRecords { fields: fields.clone(), records }, &physics(), &stages(pipe))
        else {
            panic!("aggregates")
        };
        values[0].value.clone()
    };
    assert_eq!(of(&[1, 2], "median(a.b)"), RecordValue::Decimal(1.5));
    assert_eq!(of(&[3, 1], "median(a.b)"), RecordValue::Integer(2));
    assert_eq!(of(&[1 << 53, 1], "sum(a.b)"), RecordValue::Integer((1 << 53) + 1));
    assert_eq!(of(&[i64::MAX, 1], "sum(a.b)"), RecordValue::Large(1 << 63));
    assert_eq!(
        of(&[i64::MAX, i64::MAX, 2], "avg(a.b)"),
        RecordValue::Decimal(6_148_914_691_236_516_864.0)
    );
    assert_eq!(of(&[-5, -7], "max(a.b)"), RecordValue::Integer(-5));
}

#[test]
fn conditions_on_keys_are_applied() {
    let left = |conditions: &str| {
        let mut records = files();
        let query =
            parse(&format!("file {conditions}"), &Vocabulary::open(), QueryLimits::default());
        retain(&mut records, &physics(), &query.expect(conditions).conditions);
        records.records.len()
    };
    assert_eq!(left("file=a.root"), 1);
    assert_eq!(left("file=*.txt"), 3);
    assert_eq!(left("file in [a*, *.txt]"), 4);
    // A key that the records do not have.
    assert_eq!(left("run=1"), 0);
    let test = |text: &str| {
        let query = parse(&format!("file run {text}"), &Vocabulary::open(), QueryLimits::default());
        query.expect(text).conditions[0].test.clone()
    };
    let range = test("between [1, 3]");
    for (value, want) in
        [(json!(1), true), (json!(3), true), (json!(3.5), false), (json!("2"), true)]
    {
        assert_eq!(satisfies(&RecordValue::of_json(&value), &range), want, "{value}");
    }
    // One item must be within both ends.
    assert!(!satisfies(&RecordValue::of_json(&json!([0, 4])), &range));
    assert!(satisfies(&RecordValue::of_json(&json!([0, 2])), &range));
    assert!(!satisfies(&RecordValue::Absent, &range));
}
