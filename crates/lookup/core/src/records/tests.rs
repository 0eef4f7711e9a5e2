//! Answers in each format, answers that are wrong, and how records are merged.

mod merging;

use serde_json::{Value, json};

use super::*;
use crate::map::testing::{call, physics};
use crate::map::{RecordForm, RecordFormat};

/// A form of records of files: paths of members and the fields that they become.
fn form(format: RecordFormat, path: &str, fields: &[(&str, &str)]) -> RecordForm {
    let fields = fields.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
    RecordForm {
        format,
        path: path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        fields: fields.collect(),
        keeps_others: false,
    }
}

const FILES: &[(&str, &str)] = &[("lfn", "file.name"), ("meta.size", "file.size")];

fn read_body(form: &RecordForm, body: &str) -> Result<RecordSet, UnreadableRecords> {
    let mut call = call("files", &["file"], Vec::new());
    call.form = form.clone();
    read(form, &RecordSchema::of(&physics(), &call), body.as_bytes(), RecordLimits::default())
}

/// The records of a body as JSON.
#[track_caller]
fn check(form: &RecordForm, body: &str, want: &[Value]) {
    let set = read_body(form, body).unwrap_or_else(|error| panic!("{body}: {error}"));
    let records: Vec<_> = set.rows.iter().map(|row| to_json(&set.fields, row)).collect();
    assert_eq!(records, want, "{body}");
}

#[track_caller]
fn check_wrong(form: &RecordForm, body: &str, want: &str) {
    let error = read_body(form, body).expect_err(body).to_string();
    assert!(error.starts_with(want), "{body}: {error}");
}

fn file(name: &str, size: impl Into<Value>) -> Value {
    json!({ "file": { "name": name, "size": size.into() } })
}

#[test]
fn json_is_read_along_its_paths() {
    let form = form(RecordFormat::Json, "result.files", FILES);
    let record = r#"{"x": [{"lfn": "no"}], "lfn": "a", "meta": {"size": 1, "y": {}}}"#;
    check(&form, &format!(r#"{{"result": {{"n": 1, "files": [{record}]}}}}"#), &[file("a", 1)]);
    // One record, and lists on the way.
    check(&form, &format!(r#"{{"result": {{"files": {record}}}}}"#), &[file("a", 1)]);
    let lists = format!(r#"[{{"result": [{{"files": [{record}]}}, {{"files": [{record}]}}]}}]"#);
    check(&form, &lists, &[file("a", 1), file("a", 1)]);
    check(&form, r#"{"result": {"files": []}}"#, &[]);
    check(&form, r#"{"result": {"files": null}}"#, &[]);
    // Where there is nothing, nothing leads on.
    check(&form, "[]", &[]);
    check(&form, r#"{"result": []}"#, &[]);
    // A member that has another shape is absent; of two, the last counts.
    let odd = r#"{"lfn": "a", "lfn": "b", "meta": [1, {"size": 2}]}"#;
    check(
        &form,
        &format!(r#"{{"result": {{"files": [{odd}]}}}}"#),
        &[json!({ "file": { "name": "b" } })],
    );
}

#[test]
fn values_keep_their_types() {
    let form = form(RecordFormat::Json, "", &[("n", "file.name"), ("v", "file.v")]);
    for value in [
        json!(null),
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(1.5),
        json!("1"),
        json!("\u{e4}\n"),
        json!([1, [2]]),
        json!({ "a": { "b": null } }),
    ] {
        let want = json!({ "file": { "name": 1, "v": value } });
        check(&form, &json!([{ "n": 1, "v": value }]).to_string(), &[want]);
    }
}

#[test]
fn records_may_be_plain_values() {
    let plain = |format, path| form(format, path, &[(".", "file.name")]);
    let name = |name: Value| json!({ "file": { "name": name } });
    let all = [name("a".into()), name(3.into())];
    check(&plain(RecordFormat::Json, "files"), r#"{"files": ["a", 3]}"#, &all);
    check(&plain(RecordFormat::Json, "files"), r#"{"files": "a"}"#, &all[..1]);
    check(&plain(RecordFormat::Json, ""), r#"{"b": 1}"#, &[name(json!({ "b": 1 }))]);
    check(&plain(RecordFormat::Ndjson, ""), "\"a\"\n3\n", &all);
    check(
        &plain(RecordFormat::Xml, "files.file"),
        "<files><file>a</file><file>3</file></files>",
        &all,
    );
}

#[test]
fn other_members_become_attributes() {
    let others = |form: RecordForm| RecordForm { keeps_others: true, ..form };
    let json = others(form(RecordFormat::Json, "", FILES));
    let body = r#"[{"lfn": "a", "k": 1}, {"lfn": "b", "name": "c", "l": [2]}, {"k": 3}]"#;
    check(
        &json,
        body,
        &[
            json!({ "file": { "name": "a", "k": 1 } }),
            json!({ "file": { "name": "b", "l": [2] } }),
            json!({ "file": { "k": 3 } }),
        ],
    );
    let csv = others(form(RecordFormat::Csv, "", FILES));
    check(
        &csv,
        "k,lfn\n1,a\n,b\n",
        &[json!({ "file": { "name": "a", "k": 1 } }), json!({ "file": { "name": "b" } })],
    );
    let xml = others(form(RecordFormat::Xml, "r.f", &[("@", "file.x"), ("lfn", "file.name")]));
    check(
        &xml,
        "<r><f lfn='a' k='1'><l>2<m>3</m></l></f></r>",
        &[json!({ "file": { "name": "a", "k": 1, "l": 2 } })],
    );
}

#[test]
fn lines_of_json() {
    let form = form(RecordFormat::Ndjson, "", FILES);
    check(
        &form,
        "{\"lfn\": \"a\"}\r\n\n[{\"lfn\": \"b\"}]\n",
        &[json!({ "file": { "name": "a" } }), json!({ "file": { "name": "b" } })],
    );
    check(&form, "", &[]);
    check_wrong(&form, "{\"lfn\": \"a\"}\n{\"lfn\":", "the answer is not JSON");
}

#[test]
fn comma_separated_values() {
    let form = form(RecordFormat::Csv, "", &[("lfn", "file.name"), ("size", "file.size")]);
    check(&form, "size,lfn,x\n1,\"a,\"\"b\",y\n007,c,\n", &[file("a,\"b", 1), file("c", "007")]);
    check(&form, "size,lfn\n", &[]);
    check(&form, "", &[]);
    check_wrong(&form, "size,lfn\n1\n", "the answer is not CSV");
}

#[test]
fn xml_is_read_along_its_paths() {
    let no_path = form(RecordFormat::Xml, "", FILES);
    let form = form(RecordFormat::Xml, "result.file", FILES);
    let body = "<?xml version=\"1.0\"?><!DOCTYPE x><result><n>1</n><!-- c -->\n\
                <file lfn=\"a&amp;b\"><meta><size> 1 </size></meta><x><lfn>no</lfn></x></file>\
                <file><lfn><![CDATA[<c>]]>&#228;</lfn><meta size='2'/></file></result>";
    check(&form, body, &[file("a&b", 1), file("<c>\u{e4}", 2)]);
    check(&form, "<result/>", &[]);
    check_wrong(&form, "<other><file lfn='a'/></other>", "the answer has no `result.file`");
    check(&no_path, "<r><f lfn='a'/></r>", &[json!({ "file": { "name": "a" } })]);
    for wrong in [
        "",
        "text",
        "<a>",
        "<a></b>",
        "<result><file b></file></result>",
        "<a>&x;</a>",
        "{\"a\": 1}",
        "<a><b></a></b>",
    ] {
        check_wrong(&form, wrong, "the answer is not XML");
    }
    // An entity that stands for many is not resolved.
    let bomb = "<!DOCTYPE a [<!ENTITY x \"xxxxxxxx\">]><result><file lfn='&x;'/></result>";
    check_wrong(&form, bomb, "the answer is not XML");
    let deep = "<a>".repeat(200) + &"</a>".repeat(200);
    check_wrong(&form, &deep, "the answer is not XML: it has more than 128 levels");
}

#[test]
fn wrong_answers_are_no_records() {
    let json = form(RecordFormat::Json, "result", FILES);
    check_wrong(&json, "<html></html>", "the answer is not JSON");
    check_wrong(&json, "", "the answer is not JSON");
    check_wrong(&json, r#"{"error": "down"}"#, "the answer has no `result`");
    check_wrong(&json, r#"{"result": [1]}"#, "the answer is not JSON: a record is no object");
    let plain = "the answer is not JSON: there is a plain value where records should be";
    check_wrong(&json, r#"{"result": "x"}"#, plain);
    check_wrong(&json, r#"{"result": []} x"#, "the answer is not JSON: trailing characters");
    let deep = format!(r#"{{"result": [{{"lfn": {}1{}}}]}}"#, "[".repeat(500), "]".repeat(500));
    check_wrong(&json, &deep, "the answer is not JSON: recursion limit exceeded");
}

#[test]
fn messages_and_pages_are_no_records() {
    let json = form(RecordFormat::Json, "", FILES);
    check_wrong(&json, r#"{"error": "down"}"#, "no record of the answer has a `file.name`");
    check_wrong(&json, r#"[{"meta": {"size": 1}}]"#, "no record of the answer has a `file.name`");
    let lines = form(RecordFormat::Ndjson, "", FILES);
    check_wrong(&lines, "{\"error\": 1}\n", "no record of the answer has a `file.name`");
    let csv = form(RecordFormat::Csv, "", FILES);
    let page = "<html>\n<body>down</body>\n</html>\n";
    check_wrong(
        &csv,
        page,
        "the answer is not CSV: the first line names no member that the map knows",
    );
    let xml = form(RecordFormat::Xml, "weather.report", FILES);
    check_wrong(&xml, page, "the answer has no `weather.report`");
    let one = form(RecordFormat::Xml, "weather", FILES);
    check_wrong(&one, "<error>quota</error>", "the answer has no `weather`");
    let others = RecordForm { keeps_others: true, ..csv };
    let page = "<html>down</html>\n";
    check_wrong(
        &others,
        page,
        "the answer is not CSV: the first line names no member that the map knows",
    );
    check(&others, "name\n", &[]);
    check_wrong(&xml, "<weather><report/></weather>", "no record of the answer has a `file.name`");
    // One that some records have is enough.
    check(&json, r#"[{"lfn": "a"}, {}]"#, &[json!({ "file": { "name": "a" } }), json!({})]);
}

#[test]
fn limits_hold_at_their_edge() {
    let mut call = call("files", &["file"], Vec::new());
    let limits = RecordLimits { records_max: 2, fields_max: 3, values_max: 5 };
    let mut check = |format, path: &str, body: &str, want: Result<usize, UnreadableRecords>| {
        call.form = RecordForm { keeps_others: true, ..form(format, path, FILES) };
        let schema = RecordSchema::of(&physics(), &call);
        let read = read(&call.form, &schema, body.as_bytes(), limits);
        assert_eq!(read.map(|set| set.rows.len()), want, "{body}");
    };
    let records = || Err(UnreadableRecords::TooManyRecords(2));
    let fields = || Err(UnreadableRecords::TooManyFields(3));
    let values = || Err(UnreadableRecords::TooManyValues(5));
    check(RecordFormat::Json, "", r#"[{"lfn": 1}, {"a": 2}]"#, Ok(2));
    check(RecordFormat::Json, "", r#"[{"lfn": 1}, {}, {}]"#, records());
    check(RecordFormat::Json, "", r#"[{"lfn": 1, "a": 1}, {"b": 2}]"#, fields());
    check(RecordFormat::Json, "", r#"[{"lfn": 1, "a": 1}, {"a": 2}]"#, values());
    // What queries cannot name, or what would hide another field, is not kept.
    let odd = r#"[{"lfn": 1, "a.b": 1, "": 2, "name": 3, "\u00e4": 4}, {}]"#;
    check(RecordFormat::Json, "", odd, Ok(2));
    check(RecordFormat::Ndjson, "", "{\"lfn\": 1}\n{}", Ok(2));
    check(RecordFormat::Ndjson, "", "{\"lfn\": 1}\n{}\n{}", records());
    check(RecordFormat::Csv, "", "lfn,x-y\n1,2\n3,4\n", Ok(2));
    check(RecordFormat::Csv, "", "lfn,x-y\n1,2\n3,4\n5,6\n", records());
    check(RecordFormat::Csv, "", "lfn,a,b\n", fields());
    check(RecordFormat::Csv, "", "lfn,,,\n", fields());
    check(RecordFormat::Csv, "", "lfn,a\n1,2\n3,4\n", values());
    check(RecordFormat::Xml, "r.f", "<r><f lfn='1' a='1'/><f/></r>", Ok(2));
    check(RecordFormat::Xml, "r.f", "<r><f lfn='1'/><f/><f/></r>", records());
    check(RecordFormat::Xml, "r.f", "<r><f a='1' b='2'/></r>", fields());
    check(RecordFormat::Xml, "r.f", "<r><f lfn='1' a='1'/><f a='2'/></r>", values());
}
