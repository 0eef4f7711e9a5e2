//! The configuration in force, and the differences between two.

use serde_json::json;

use super::super::{Effective, Optional, Required, Section, load_given, load_tracked, ms, secs};
use super::{Folder, load_with};

fn read(s: &mut Section<'_>) {
    s.boolean("strict", true, "Doc.");
    s.section("log", "Doc.", |s| {
        s.text("filter", "info", "Doc.");
        s.renamed("level", "filter");
    });
    s.service("exchange", "Doc.", |s| {
        s.duration("tmax", "250ms", ms(1)..=secs(10), "Doc.");
        s.bytes("body_max", "256KiB", .., "Doc.");
        s.ppm("fee", "2.50%", "Doc.");
        s.price("floor", Optional("0.5 USD"), "Doc.");
        s.integers::<u16, _>("cores", Optional(&[0]), .., "Doc.");
        s.texts("tags", &["a"], |text| Ok(text.to_owned()), "Doc.");
        s.secret("token", Optional("env:TOKEN"), "Doc.");
    });
    s.tables("dsp", "Doc.", |s| {
        s.text("id", Required("d"), "Doc.");
        s.integer("qps", 100, 1_u32.., "Doc.");
        s.secret_map("headers", &[], |_, _| Ok(()), "Doc.");
        s.table("tls", "Doc.", |s| s.text("ca", "system", "Doc."));
    });
    s.tables("rule", "Doc.", |s| drop(s.map("match", &[], |_, _| Ok(()), "Doc.")));
    s.map("rates", &[], |_, _| Ok(()), "Doc.");
}

fn effective(text: &str) -> Effective {
    let folder = Folder::of(&[("vickrey.toml", text), ("key", "from-file")]);
    let variables = |name: &str| (name == "TOKEN").then(|| "hunter2".into());
    load_with(&folder.main(), &variables, read).0.expect("a good configuration").effective
}

const FULL: &str = r#"
rates = { "a b" = "1.5", EUR = "2" }
[exchange]
tmax = "1000ms"
body_max = "1024B"
fee = "25000ppm"
floor = "0.50 USD"
cores = [1, 0x2]
token = "env:TOKEN"
[[dsp]]
id = "b"
headers = { key = "file:key" }
tls = {}
[[dsp]]
id = "a\"b"
qps = 7
[[rule]]
match = { x = "1" }
"#;

#[test]
fn every_declared_key_has_its_value() {
    let dsp = |id: &str, qps: u32| json!({ "id": id, "qps": qps, "headers": {}, "tls": null });
    let mut first = dsp("b", 100);
    first["headers"] = json!({ "key": "***" });
    first["tls"] = json!({ "ca": "system" });
    assert_eq!(
        effective(FULL).to_json(),
        json!({
            "strict": true,
            "log": { "filter": "info" },
            "exchange": {
                "tmax": "1s", "body_max": "1KiB", "fee": "2.5%", "floor": "0.5 USD",
                "cores": [1, 2], "tags": ["a"], "token": "***",
            },
            "dsp": [first, dsp("a\"b", 7)],
            "rule": [{ "match": { "x": "1" } }],
            "rates": { "EUR": "2", "a b": "1.5" },
        })
    );
    assert_eq!(
        effective("").to_json(),
        json!({
            "strict": true, "log": { "filter": "info" }, "exchange": null,
            "dsp": [], "rule": [], "rates": {},
        })
    );
}

#[test]
fn as_toml() {
    let want = r#"strict = true

[log]
filter = "info"

[exchange]
tmax = "1s"
body_max = "1KiB"
fee = "2.5%"
floor = "0.5 USD"
cores = [1, 2]
tags = ["a"]
token = "***"

[[dsp]]
id = "b"
qps = 100

[dsp.headers]
key = "***"

[dsp.tls]
ca = "system"

[[dsp]]
id = "a\"b"
qps = 7

[dsp.headers]

[[rule]]

[rule.match]
x = "1"

[rates]
EUR = "2"
"a b" = "1.5"
"#;
    assert_eq!(effective(FULL).to_toml(), want);
    // Except for secrets, the TOML reads back the same.
    assert_eq!(effective(want).to_json(), effective(FULL).to_json());
}

#[track_caller]
fn check(old: &str, new: &str, want: &[&str]) {
    let differences = effective(old).differences(&effective(new));
    let shown: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(shown, want, "{old}\n---\n{new}");
    // In the other direction, added keys are removed.
    let back = effective(new).differences(&effective(old));
    let turned = |line: &str| match line.split_at(1) {
        ("+", rest) => format!("-{rest}"),
        ("-", rest) => format!("+{rest}"),
        (_, rest) => format!("~{}", rest.split_once(" = ").map_or("", |(key, _)| key)),
    };
    let mut want: Vec<_> = want.iter().map(|line| turned(line)).collect();
    let mut got: Vec<_> = back.iter().map(ToString::to_string).collect();
    for line in &mut got {
        if line.starts_with('~') {
            *line = line.split_once(" = ").map_or("", |(key, _)| key).to_owned();
        }
    }
    want.sort();
    got.sort();
    assert_eq!(got, want, "{new}\n---\n{old}");
}

#[test]
fn differences_key_by_key() {
    check(FULL, FULL, &[]);
    // Another notation, and explicit defaults, are no differences.
    check("[exchange]", "strict = true\n[exchange]\ntmax = '0.25s'\ntags = ['a']\n[log]", &[]);
    check("strict = false", "", &["~ strict = false -> true"]);
    check("", "[exchange]", &["+ exchange"]);
    check(
        "",
        "[exchange]\ntmax = '1s'\ncores = [1]\ntoken = 'x'",
        &[
            "+ exchange",
            "+ exchange.tmax = \"1s\"",
            "+ exchange.cores = [1]",
            "+ exchange.token = \"***\"",
        ],
    );
    check(
        "[exchange]\nfloor = '1 USD'",
        "[exchange]\ncores = []",
        &["- exchange.floor = \"1 USD\"", "+ exchange.cores = []"],
    );
    check(
        "rates = { A = '1', B = '2' }",
        "rates = { B = '3', 'c d' = '4' }",
        &["- rates.A = \"1\"", "~ rates.B = \"2\" -> \"3\"", "+ rates.\"c d\" = \"4\""],
    );
}

#[test]
fn tables_are_matched_by_their_id() {
    let two = "[[dsp]]\nid = 'a'\n[[dsp]]\nid = 'b'\nqps = 2\n";
    check(two, "[[dsp]]\nid = 'b'\nqps = 2\n[[dsp]]\nid = 'a'\n", &[]);
    check(
        two,
        "[[dsp]]\nid = 'b'\nqps = 3\n[[dsp]]\nid = 'c'\nqps = 4\n[dsp.tls]\n",
        &[
            "- dsp[\"a\"]",
            "- dsp[\"a\"].id = \"a\"",
            "~ dsp[\"b\"].qps = 2 -> 3",
            "+ dsp[\"c\"]",
            "+ dsp[\"c\"].id = \"c\"",
            "+ dsp[\"c\"].qps = 4",
        ],
    );
    // A repeated id identifies no table.
    check(
        two,
        "[[dsp]]\nid = 'b'\n[[dsp]]\nid = 'b'\nqps = 2\n",
        &["~ dsp[0].id = \"a\" -> \"b\""],
    );
    check(
        "[[rule]]\nmatch = { x = '1' }",
        "[[rule]]\nmatch = { x = '2' }\n[[rule]]",
        &["~ rule[0].match.x = \"1\" -> \"2\"", "+ rule[1]"],
    );
}

#[test]
fn secrets_differ_unseen() {
    let token = |value: &str| format!("[exchange]\ntoken = '{value}'");
    check(&token("env:TOKEN"), &token("hunter2"), &[]);
    check(&token("env:TOKEN"), &token("other"), &["~ exchange.token = \"***\" (changed)"]);
    check(&token("x"), "[exchange]", &["- exchange.token = \"***\""]);
    let header = |text: &str| format!("[[dsp]]\nid = 'd'\nheaders = {{ {text} }}");
    check(
        &header("a = '1', b = '2'"),
        &header("b = '3', c = 'file:key'"),
        &[
            "- dsp[\"d\"].headers.a = \"***\"",
            "~ dsp[\"d\"].headers.b = \"***\" (changed)",
            "+ dsp[\"d\"].headers.c = \"***\"",
        ],
    );
}

/// Queries of URLs contain keys: they are compared but never shown.
#[test]
fn queries_of_urls_are_not_shown() {
    fn read(s: &mut Section<'_>) {
        let url = s.url("url", Required("http://a/"), "Doc.");
        if url.port == 9 {
            s.problem("url", &url, "has port 9");
        }
    }
    let load = |url: &str| {
        let folder = Folder::of(&[("vickrey.toml", &format!("url = '{url}'"))]);
        load_with(&folder.main(), &|_: &str| None, read).0.map(|loaded| loaded.effective)
    };
    let of = |query: &str| load(&format!("http://dsp.example/bid?{query}")).expect("a good one");
    let masked = "http://dsp.example/bid?***";
    let with = of("key=hunter2");
    assert_eq!(with.to_json(), json!({ "url": masked }));
    assert_eq!(with.given_json(), json!({ "url": masked }));
    assert_eq!(with.to_toml(), format!("url = \"{masked}\"\n"));
    assert_eq!(load(masked).expect("what is recorded is read anew").to_toml(), with.to_toml());
    assert_eq!(with.differences(&of("key=hunter2")), []);
    let [changed] = &with.differences(&of("key=other"))[..] else { panic!("one key differs") };
    assert_eq!(changed.to_string(), format!("~ url = \"{masked}\" (changed)"));
    for (url, shown) in [
        ("http://a:9/bid?key=hunter2", "http://a:9/bid?***"),
        ("http://:9/?key=hunter2", "http://:9/?***"),
        ("ftp://a/?key=hunter2", "ftp://a/?***"),
        ("a/?key=hunter2", "a/?***"),
        ("http://user:hunter2@a/", "http://***@a/"),
        ("user:hunter2@a/", "***@a/"),
    ] {
        let told = load(url).expect_err("it is bad").to_string();
        assert!(told.contains(&format!("url = \"{shown}\":")), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    for given in [
        r#""ftp://a/\u003fkey=hunter2""#,
        r#""http://user:hunter2\u0040a/""#,
        r#"["http://a/?key=hunter2"]"#,
        "[ # http://a/?key=hunter2\n]",
    ] {
        let folder = Folder::of(&[("vickrey.toml", &format!("url = {given}"))]);
        let loaded = load_with(&folder.main(), &|_: &str| None, read).0;
        let told = loaded.expect_err("it is bad").to_string();
        assert!(told.contains("url = ") && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn differences_as_json() {
    let (old, new) =
        (effective("[exchange]\ntmax = '1s'\ntoken = 'x'"), effective("strict = false"));
    let lines: Vec<_> = old.differences(&new).iter().map(|it| json!(it)).collect();
    assert_eq!(
        lines,
        [
            json!({ "key": "strict", "change": "changed", "old": true, "new": false }),
            json!({ "key": "exchange", "change": "removed" }),
            json!({ "key": "exchange.tmax", "change": "removed", "old": "1s" }),
            json!({ "key": "exchange.token", "change": "removed", "old": "***" }),
        ]
    );
}

#[test]
fn what_was_given_alone() {
    let given = |text: &str| effective(text).given_json();
    assert_eq!(given(""), json!({}));
    let text = "strict = true\n[log]\n[exchange]\ntmax = '1000ms'\ntoken = 'x'\n[[dsp]]\nid = 'a'\n\
                [[dsp]]\nid = 'b'\nqps = 100\ntls.ca = 'own'";
    let want = json!({
        "strict": true,
        "exchange": { "tmax": "1s", "token": "***" },
        "dsp": [{ "id": "a" }, { "id": "b", "qps": 100, "tls": { "ca": "own" } }],
    });
    assert_eq!(given(text), want);
}

/// The output of [`given_tables`](Effective::given_tables).
fn given_tables(effective: &Effective, key: &str) -> Vec<String> {
    let mut texts = Vec::new();
    effective.given_tables(key, |text| texts.push(text.to_owned()));
    texts
}

#[test]
fn tables_are_written_as_what_files_give_of_them() {
    let texts = |effective: &Effective, key: &str| -> Vec<String> {
        let given = effective.given_json();
        given[key].as_array().into_iter().flatten().map(ToString::to_string).collect()
    };
    let full = effective(FULL);
    for key in ["dsp", "rule"] {
        let want = texts(&full, key);
        assert!(!want.is_empty());
        assert_eq!(given_tables(&full, key), want, "{key}");
    }
    assert!(given_tables(&full, "exchange").is_empty() && given_tables(&full, "none").is_empty());
    let bare = effective("[[rule]]\n[[rule]]\nmatch = {}\n");
    assert_eq!(given_tables(&bare, "rule"), ["{}", "{}"]);
    assert!(given_tables(&bare, "dsp").is_empty());
}

#[test]
fn what_files_give_is_recorded_without_defaults() {
    let folder = Folder::of(&[("vickrey.toml", FULL), ("key", "from-file")]);
    let text = FULL.replace("token = \"env:TOKEN\"\n", "");
    std::fs::write(folder.main(), text).expect("it is written");
    let full = load_tracked(&folder.main(), read).0.expect("it is good").effective;
    let given = load_given(&folder.main(), read).0.expect("it is good").effective;
    assert_eq!(given.given_json(), full.given_json());
    assert_eq!(given.to_json()["exchange"]["body_max"], full.to_json()["exchange"]["body_max"]);
    assert!(full.to_json()["strict"] == json!(true) && given.to_json().get("strict").is_none());
    assert_eq!(given_tables(&given, "dsp"), given_tables(&full, "dsp"));
}
