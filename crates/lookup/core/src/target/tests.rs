//! Paths and queries of calls.

use super::*;
use crate::map::testing::{call, needs, takes};
use crate::query::{QueryLimits, Vocabulary, parse};

const NOW: i64 = 1_296_000_000;

/// Values of keys that a step is repeated for.
type Bound<'b> = &'b [(&'b str, &'b [&'b str])];

fn of(call: &ProviderCall, query: &str, bound: Bound<'_>) -> Result<String, UnsendableValue> {
    let query = parse(query, &Vocabulary::open(), QueryLimits::default()).expect(query);
    let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let bound = bound.iter().map(|(key, values)| ((*key).to_owned(), list(values))).collect();
    let takes: Vec<_> = query.conditions.iter().map(|of| of.key.clone()).collect();
    let conditions = &query.conditions;
    target(call, CallValues { conditions, takes: &takes, bound: &bound, now: NOW, page: 0 })
}

#[track_caller]
fn check(call: &ProviderCall, query: &str, bound: Bound<'_>, want: &str) {
    assert_eq!(of(call, query, bound).as_deref(), Ok(want));
}

#[test]
fn conditions_and_literals_become_parameters() {
    let range = Some(["low", "high"].map(str::to_owned));
    let date = KeyParameter { range: range.clone(), ..takes("date") };
    let run = KeyParameter { range, ..takes("run") };
    let mut call = call("files", &["file"], vec![needs("dataset"), run, date]);
    let json = ParameterSource::Literal("a b".to_owned());
    call.parameters.push(CallParameter { name: "f".to_owned(), source: json });
    check(&call, "file dataset=/a/b#1", &[], "/files?dataset=%2Fa%2Fb%231&f=a%20b");
    check(&call, "file dataset=a run=1", &[], "/files?dataset=a&run=1&f=a%20b");
    check(
        &call,
        "file dataset=a run between [1, 2.5]",
        &[],
        "/files?dataset=a&low=1&high=2.5&f=a%20b",
    );
    check(
        &call,
        "file dataset=a date last 1h",
        &[],
        "/files?dataset=a&low=1295996400&high=1296000000&f=a%20b",
    );
    check(&call, "file dataset=a date=20110124", &[], "/files?dataset=a&date=1295827200&f=a%20b");
    call.path = "/files?detail=1".to_owned();
    check(&call, "file dataset=\u{e4}", &[], "/files?detail=1&dataset=%C3%A4&f=a%20b");
}

#[test]
fn several_values_are_joined_or_repeated() {
    let joined = KeyParameter { joined_by: Some(",".to_owned()), ..needs("file") };
    let call = |parameter| call("files", &["file"], vec![parameter]);
    let bound: Bound<'_> = &[("file", &["a", "b&c"])];
    check(&call(needs("file")), "file file in [x, y]", bound, "/files?file=a&file=b%26c");
    check(&call(joined.clone()), "file", bound, "/files?file=a%2Cb%26c");
    check(&call(joined), "file file in [x, y]", &[], "/files?file=x%2Cy");
}

#[test]
fn parameters_may_be_in_the_path() {
    let mut call = call("files", &["file"], vec![needs("dataset"), takes("run")]);
    call.path = "/d/{dataset}/files".to_owned();
    check(&call, "file dataset='/a b/+' run=1", &[], "/d/%2Fa%20b%2F%2B/files?run=1");
    // A value with braces is no parameter.
    check(&call, "file dataset='{run}'", &[], "/d/%7Brun%7D/files");
}

#[test]
fn values_that_would_mean_something_else_are_not_sent() {
    let mut in_path = call("files", &["file"], vec![needs("dataset")]);
    in_path.path = "/d/{dataset}/files".to_owned();
    for value in ["..", ".", "\"\""] {
        let refused = of(&in_path, &format!("file dataset={value}"), &[]);
        let value = value.trim_matches('"').to_owned();
        assert_eq!(refused, Err(UnsendableValue::NoSegment(value)));
    }
    check(&in_path, "file dataset=...", &[], "/d/.../files");
    let joined = KeyParameter { joined_by: Some(",".to_owned()), ..needs("file") };
    let joined = call("files", &["file"], vec![joined]);
    let refused = of(&joined, "file", &[("file", &["a,b"])]);
    assert_eq!(refused, Err(UnsendableValue::HasSeparator("a,b".to_owned(), ",".to_owned())));
    let refused = of(&joined, "file", &[("file", &[])]);
    assert_eq!(refused, Err(UnsendableValue::NoValue("file".to_owned())));
}

/// A condition that is applied to the records may have a value that the provider would not understand.
#[test]
fn what_the_call_does_not_take_is_not_sent() {
    let query = parse("file=*.root dataset=a", &Vocabulary::open(), QueryLimits::default());
    let query = query.unwrap();
    let call = call("files", &["file"], vec![needs("dataset"), takes("file")]);
    let takes = ["dataset".to_owned()];
    let (conditions, bound) = (&query.conditions, HashMap::new());
    let values = CallValues { conditions, takes: &takes, bound: &bound, now: NOW, page: 0 };
    assert_eq!(target(&call, values).as_deref(), Ok("/files?dataset=a"));
}

#[test]
fn pages_are_counted_as_the_provider_does() {
    let of = |counts, size_parameter: Option<&str>, page| {
        let pages = CallPages {
            parameter: "from".to_owned(),
            counts,
            size_parameter: size_parameter.map(str::to_owned),
            size: 50,
            pages_max: 10,
        };
        let call = ProviderCall { pages: Some(pages), ..call("files", &["file"], vec![]) };
        let bound = HashMap::new();
        let values = CallValues { conditions: &[], takes: &[], bound: &bound, now: NOW, page };
        target(&call, values).expect("there are no values")
    };
    assert_eq!(of(PageCount::Records, Some("count"), 0), "/files?from=0&count=50");
    assert_eq!(of(PageCount::Records, Some("count"), 3), "/files?from=150&count=50");
    assert_eq!(of(PageCount::Pages, None, 0), "/files?from=1");
    assert_eq!(of(PageCount::Pages, None, 3), "/files?from=4");
}
