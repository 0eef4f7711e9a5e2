//! What queries mean, what is wrong with others, and that printing loses nothing.

mod properties;

use std::slice::from_ref;

use serde_json::{Value, json};

use super::*;

fn known() -> Vocabulary {
    let attributes = |names: &[&str]| KeyAttributes {
        known: names.iter().map(|name| (*name).to_owned()).collect(),
        has_others: names.is_empty(),
    };
    let keys = [
        ("dataset", attributes(&[])),
        ("file", attributes(&["name", "size", "checksum.adler"])),
        ("block", attributes(&[])),
        ("run", attributes(&[])),
        ("lumi", attributes(&["number"])),
    ];
    Vocabulary::of(keys.map(|(key, attributes)| (key.to_owned(), attributes)).into())
}

#[track_caller]
fn json_of(text: &str) -> Value {
    let parsed = parse(text, &known(), QueryLimits::default());
    let query = parsed.unwrap_or_else(|error| panic!("{error}"));
    let printed = query.to_string();
    assert_eq!(parse(&printed, &known(), QueryLimits::default()), Ok(query.clone()), "{printed}");
    to_json(&query)
}

/// Fields, conditions and pipe; of no system and no instance.
#[track_caller]
fn check(text: &str, fields: &[&str], conditions: &[Value], pipe: &[Value]) {
    let none = Value::Null;
    let want = json!({
        "fields": fields, "conditions": conditions, "pipe": pipe, "system": none, "instance": none,
    });
    assert_eq!(json_of(text), want, "{text}");
}

fn is(key: &str, value: impl Into<Value>) -> Value {
    json!({ "key": key, "op": "=", "value": value.into() })
}

#[test]
fn fields_and_conditions() {
    let a = is("dataset", "/a/b*");
    check("file,run dataset=/a/b*", &["file", "run"], from_ref(&a), &[]);
    check(" file , run\n dataset = /a/b* ", &["file", "run"], from_ref(&a), &[]);
    check("file run dataset=/a/b*", &["file", "run"], from_ref(&a), &[]);
    check("run", &["run"], &[], &[]);
    // Without fields, the keys of the conditions are asked for.
    check("dataset=/a/b*", &["dataset"], from_ref(&a), &[]);
    let run = json!({ "key": "run", "op": "in", "value": [1, "x", 2.5] });
    check("dataset=/a/b* run in [1,x, 2.5]", &["dataset", "run"], &[a.clone(), run], &[]);
    let loose = json!({ "key": "run", "op": "between", "value": [1.5, 2] });
    check("file run between [1.50, 02]", &["file"], &[loose], &[]);
    let range = json!({ "key": "run", "op": "between", "value": [1, 1_000_000_000] });
    check("file run between [1,1000000000]", &["file"], &[range], &[]);
    let system = json_of("file dataset=/a/b* system=dbs instance=prod/global");
    assert_eq!((&system["system"], &system["instance"]), (&json!("dbs"), &json!("prod/global")));
    assert_eq!(json_of("file system in [dbs, 7]")["system"], json!(["dbs", "7"]));
    assert_eq!(json_of("file system=dbs")["conditions"], json!([]));
}

#[test]
fn values() {
    let check = |text: &str, want: Value| {
        let json = json_of(&format!("file run={text}"));
        assert_eq!(json["conditions"][0]["value"], want, "{text}");
    };
    check("1", json!(1));
    check("-1", json!(-1));
    check("1.5", json!(1.5));
    check("-0.25", json!(-0.25));
    check("3.0", json!(3.0));
    // Not numbers as they are printed: these stay as they are written.
    for text in [
        "01",
        "+1",
        "1e5",
        "1.",
        ".5",
        "-0",
        "-",
        "--1",
        "1.2.3",
        "1.50",
        "5.10",
        "00.5",
        "9223372036854775808",
        "999999999999999.99",
    ] {
        check(text, json!(text));
    }
    check("9223372036854775807", json!(i64::MAX));
    check("\"1\"", json!("1"));
    check("'a b, [c] | \"d\"'", json!("a b, [c] | \"d\""));
    check(r#""a\"b\\c""#, json!(r#"a"b\c"#));
    check("\"\"", json!(""));
    check("/a-b/c_d#e:f.g@h/*?&%{}", json!("/a-b/c_d#e:f.g@h/*?&%{}"));
    check("\u{e4}\u{f6}", json!("\u{e4}\u{f6}"));
    check("in", json!("in"));
}

#[test]
fn times_are_utc() {
    let check = |text: &str, op: &str, want: Value| {
        let condition = json_of(&format!("run date{text}"))["conditions"][0].clone();
        assert_eq!(condition, json!({ "key": "date", "op": op, "value": want }), "{text}");
    };
    check("=20110124", "=", json!(1_295_827_200));
    check("=\"20110124\"", "=", json!(1_295_827_200));
    check("='20110124 08:30:05'", "=", json!(1_295_857_805));
    check("=19700101", "=", json!(0));
    check("=20240229", "=", json!(1_709_164_800));
    check(" between [20110124,20110126]", "between", json!([1_295_827_200, 1_296_000_000]));
    check(" in [20110124]", "in", json!([1_295_827_200]));
    check(" last 24h", "last", json!(86_400));
    check(" last 1m", "last", json!(60));
    check(" last 90s", "last", json!(90));
    check(" last 2d", "last", json!(172_800));
    check(" last 4294967295d", "last", json!(371_085_174_288_000_u64));
    // Elsewhere it is a number.
    assert_eq!(json_of("run=20110124")["conditions"][0]["value"], json!(20_110_124));
    assert_eq!(json_of("date=20110124 run=1")["fields"], json!(["run"]));
}

#[test]
fn paths_stand_for_conditions() {
    check("/a/b/c", &["dataset"], &[is("dataset", "/a/b/c")], &[]);
    check("/a/b/c#1-2", &["block"], &[is("block", "/a/b/c#1-2")], &[]);
    check("/store/x.root", &["file"], &[is("file", "/store/x.root")], &[]);
    let pipe = [json!({ "grep": [{ "field": "dataset.name" }] })];
    check("/a/* | grep dataset.name", &["dataset"], &[is("dataset", "/a/*")], &pipe);
    assert_eq!(json_of("/a/b/c instance=int")["instance"], json!("int"));
}

#[test]
fn stages() {
    let check = |pipe: &str, want: &[Value]| check(&format!("file | {pipe}"), &["file"], &[], want);
    check(
        "grep file.size>10, file.name",
        &[json!({ "grep": [
            { "field": "file.size", "op": ">", "value": 10 }, { "field": "file.name" },
        ] })],
    );
    let signs = ["=", "!=", "<", "<=", ">", ">="];
    let items = signs.map(|op| json!({ "field": "file", "op": op, "value": "x*" }));
    check(
        &format!("grep {}", signs.map(|op| format!("file {op}x*")).join(",")),
        &[json!({ "grep": items })],
    );
    check("sort file.size-", &[json!({ "sort": { "field": "file.size", "descending": true } })]);
    check(
        "sort file.checksum.adler",
        &[json!({ "sort": { "field": "file.checksum.adler", "descending": false } })],
    );
    check("unique | limit 10", &[json!({ "unique": true }), json!({ "limit": 10 })]);
    let all = ["sum", "count", "min", "max", "avg", "median"];
    let aggregates = all.map(|name| json!({ "fn": name, "field": "file.size" }));
    let text = all.map(|name| format!("{name}(file.size)")).join(", ");
    check(&text, &[json!({ "aggregate": aggregates })]);
    check("count ( file )", &[json!({ "aggregate": [{ "fn": "count", "field": "file" }] })]);
}

/// Wrong queries: what is wrong in them, the problem and the remedy. Braces stand for [`NAMED`].
const WRONG_HEADS: &[(&str, &str, &str)] = &[
    ("", "", "the query is empty: {example}"),
    (" \t", "", "the query is empty: {example}"),
    ("| unique", "|", "the query has no field: {example}"),
    ("date last 1h", "", "the query has no field: {example}"),
    ("fiel", "fiel", "there is no key `fiel`: did you mean `file`? {keys}"),
    ("xyzzy=1", "xyzzy", "there is no key `xyzzy`: {keys}"),
    ("a/b", "a/b", "`a/b` is no key: keys are letters, digits and `_`, as in `file`"),
    ("file,", "", "a field is missing: {comma}"),
    ("file,run=1", "run", "a field is missing: {comma}"),
    ("file file", "file", "the field `file` stands here twice: write it once"),
    ("file date run=1", "date", "`date` is no field: {special}"),
    ("file.size run=1", "file.size", "{attributes}: write `file` here, and `| grep file.size`"),
    ("file file.size=1", "file.size", "{attributes}: write `file` here, and `| grep file.size`"),
    ("run=1 file", "file", "nothing is asked of `file`: fields come first; {forms}"),
    ("run=1 =2", "=", "a condition begins with a key: {forms}"),
    ("run=", "", "a value is missing: {value}"),
    ("run=|", "|", "a value is missing: {value}"),
    ("run=1,2", ",", "the condition ends here: {space} `run in [1, 2]` for a list"),
    ("run=1 run=2", "run", "`run` has two conditions: write `run in […]` for several values"),
    ("run system=a system=b", "system", "`system` has two conditions: {systems}"),
    ("run>1", ">", "`>` is for `grep` alone: {range}"),
    ("run betwen [1, 2]", "betwen", "there is no operator `betwen`: did you mean `between`? {ops}"),
    ("in=1", "in", "`in` is an operator: write a key before it, as in `run in [1, 2]`"),
    ("run Last=1", "Last", "there is no operator `Last`: did you mean `last`? {ops}"),
    ("run IN [1]", "IN", "there is no operator `IN`: did you mean `in`? {ops}"),
    ("run [1]", "[", "an operator is missing: {ops}"),
    ("run in 1", "1", "a list is missing: write it in brackets: [1, 2]"),
    ("run in []", "]", "the list is empty: write at least one value"),
    ("run in [1, 2", "[", "the bracket is not closed: end the list with `]`"),
    ("run in [1 2]", "2", "the list does not go on like this: {list}"),
    ("run in [1,]", "]", "a value is missing: {value}"),
    ("run between [1,2,3]", "[1,2,3]", "`between` takes two values, not 3: {several}"),
    ("run between [2,1.5]", "[2,1.5]", "the first value is above the second: {lower}"),
    (
        "run between [a,b]",
        "[a,b]",
        "`between` takes numbers or dates: write `in` for a list of texts",
    ),
    ("run last 1h", "last", "only `date` has a `last`: write it of `date`: `date last 24h`"),
    ("run date last 5", "5", "a time span is missing: {span}"),
    ("run date last 0h", "0h", "a time span is missing: {span}"),
    ("run date=20110230", "20110230", "`20110230` is no time: {time}"),
    ("run date=2011", "2011", "`2011` is no time: {time}"),
    ("run date=19691231", "19691231", "`19691231` is no time: {time}"),
    ("run date=20110124T08", "20110124T08", "`20110124T08` is no time: {time}"),
    (
        "run date='20110124-08:30:00'",
        "'20110124-08:30:00'",
        "`20110124-08:30:00` is no time: {time}",
    ),
    (
        "run date='20110124 08:60:00'",
        "'20110124 08:60:00'",
        "`20110124 08:60:00` is no time: {time}",
    ),
    (
        "run date='20110124 08:3\u{2de}\u{2de}'",
        "'20110124 08:3\u{2de}\u{2de}'",
        "`20110124 08:3\u{2de}\u{2de}` is no time: {time}",
    ),
    ("run date=1295827200", "1295827200", "`1295827200` is no time: {time}"),
    ("run instance in [a]", "in", "`instance` has no such condition: write `instance=name`"),
    ("run system between [1, 2]", "between", "`system` has no such condition: write `system=name`"),
    ("run run=\"a", "\"a", "the quote does not end: end it with \"; {escapes} \" and \\"),
    ("run run!1", "!", "`!` alone means nothing: write `!=`, or put the text into quotes"),
];

const WRONG_STAGES: &[(&str, &str, &str)] = &[
    ("", "", "a stage is missing: stages are {stages}"),
    ("grpe file", "grpe", "there is no stage `grpe`: did you mean `grep`? known are {stages}"),
    ("grep", "", "a field is missing: write one to keep it, as in `grep file.name`, or compare it"),
    ("grep bytes", "bytes", "there is no key `bytes`: {keys}"),
    ("grep file.sise", "sise", "{attribute} `sise`: did you mean `size`? {file}"),
    ("grep run.", "", "`` is no attribute: write a key and a name, as in `file.size`"),
    ("grep file.size>", "", "a value is missing: {value}"),
    ("sort", "", "a field is missing: {sort}"),
    ("sort file.size, file.name", ",", "the stage ends here: it orders by one field; {order}"),
    ("unique file", "file", "the stage ends here: {pipe}"),
    ("limit 0", "0", "`limit` {limit}"),
    ("limit -1", "-1", "`limit` {limit}"),
    ("limit 18446744073709551616", "18446744073709551616", "`limit` {limit}"),
    ("limit 1.5", "1.5", "`limit` {limit}"),
    ("sum", "", "`sum` of what?: {form}"),
    ("sum(file.size", "", "the parenthesis is not closed: {form}"),
    ("sum(run), meadian(run)", "meadian", "there is no aggregate `meadian`: {median}"),
    ("sum(file.size) | unique", "unique", "nothing comes behind aggregates: {last}"),
];

const NAMED: &[(&str, &str)] = &[
    ("example", "for example `file dataset=/a/b/c`"),
    ("keys", "known are block, dataset, file, lumi and run"),
    ("comma", "write another key behind the comma, or no comma"),
    ("special", "it needs a value, as in `date last 24h` or `system=name`"),
    ("attributes", "attributes are for the stages behind `|`"),
    (
        "forms",
        "conditions are as `run=1`, `run in [1, 2]`, `run between [1, 9]` and `date last 24h`, with \
         spaces between them",
    ),
    ("value", "write a number, a word or a \"text\""),
    ("space", "write spaces between conditions, and"),
    ("systems", "write `system in […]` for several values"),
    ("range", "write `run between [1, 9]`, or `| grep` behind the conditions"),
    ("ops", "operators are =, in, between and last"),
    ("list", "write commas between values, and `]` behind the last one"),
    ("several", "write `run in […]` for a list"),
    ("lower", "write the lower one first"),
    ("span", "write a number with s, m (minutes), h or d, as in `date last 24h`"),
    ("time", "write a date as 20110124, or \"20110124 08:30:00\", in UTC"),
    ("escapes", "within it, \\ goes before"),
    ("stages", "grep, sort, unique, limit, sum, count, min, max, avg and median"),
    ("attribute", "there is no attribute of `file` with the name"),
    ("file", "known are checksum.adler, name and size"),
    ("sort", "write one, as in `sort file.size`, or `sort file.size-` for the largest first"),
    ("order", "to order by more, sort by the first one last: `| sort a.c | sort a.b`"),
    ("pipe", "write `|` before the next stage, and commas between items"),
    ("form", "write the field in parentheses, as in `sum(file.size)`"),
    ("median", "did you mean `median`? known are sum, count, min, max, avg and median"),
    ("limit", "needs a whole number from 1 to 18446744073709551615: for example `limit 10`"),
    ("last", "write aggregates last, with commas: `| sum(a.b), max(a.b)`"),
];

#[track_caller]
fn check_wrong(text: &str, wrong: &str, message: &str) {
    let error = parse(text, &known(), QueryLimits::default()).expect_err(text);
    let mut want = message.to_owned();
    for (name, text) in NAMED {
        want = want.replace(&format!("{{{name}}}"), text);
    }
    let said = format!("{}: {}", error.problem, error.remedy);
    assert_eq!((&text[error.at.clone()], said), (wrong, want), "{text}");
}

#[test]
fn wrong_queries_are_explained() {
    for (text, wrong, message) in WRONG_HEADS {
        check_wrong(text, wrong, message);
    }
    for (stage, wrong, message) in WRONG_STAGES {
        check_wrong(&format!("file | {stage}"), wrong, message);
    }
}

#[test]
fn errors_have_a_caret_line() {
    let error = parse("file datset=/a/b", &known(), QueryLimits::default()).expect_err("a typo");
    let want = "there is no key `datset`\n  file datset=/a/b\n       ^^^^^^\n\
                did you mean `dataset`? known are block, dataset, file, lumi and run";
    assert_eq!(error.to_string(), want);
}

#[test]
fn limits_hold_at_their_edge() {
    let limits = QueryLimits { bytes_max: 30, values_max: 3, items_max: 2 };
    let parse = |text: &str| parse(text, &known(), limits).map_err(|error| error.to_string());
    let text = "file run=1";
    assert!(parse(&format!("{text}{}", " ".repeat(20))).is_ok());
    let error = parse(&format!("{text}{}", " ".repeat(21))).expect_err("too long");
    assert_eq!(error, "the query has 31 bytes\nat most 30 are read");
    assert!(parse("run in [1,2,3]").is_ok());
    let error = parse("run in [1,2,3,4]").expect_err("too many");
    assert!(error.starts_with("the list has more than 3 values"), "{error}");
    for (fits, more, what) in [
        ("run | grep run,run", ",run", "items"),
        ("run|limit 1|limit 1", "|limit 1", "stages"),
        ("run file", " lumi", "fields"),
        ("run=1 file=2", " lumi=3", "conditions"),
    ] {
        assert!(parse(fits).is_ok(), "{fits}");
        let error = parse(&format!("{fits}{more}")).expect_err(what);
        assert!(error.starts_with(&format!("there are more than 2 {what}\n")), "{error}");
    }
    // A range stays a range.
    let range = parse("run between [1,1000000000]").expect("a query");
    assert_eq!(range.to_string(), "run run between [1, 1000000000]");
}
