//! Maps with problems.

use super::testing::{call, key, needs, physics, takes};
use super::*;

/// The problems of the map, after a change: key, value and remedy.
#[track_caller]
fn problems(change: impl FnOnce(&mut ProviderMap), want: &[(MapPlace, &str, &str, &str)]) {
    let mut map = physics();
    change(&mut map);
    let found = check(&map);
    let found: Vec<_> =
        found.iter().map(|of| (of.place, of.key, &*of.value, &*of.remedy)).collect();
    assert_eq!(found, want);
}

const fn of_call(provider: usize, call: usize) -> CallId {
    CallId { provider, call }
}

#[test]
fn names_are_unique_and_known() {
    problems(|_| (), &[]);
    problems(
        |map| {
            map.keys.extend([key("file"), key("in"), key("unused")]);
            map.providers[1].name = "dbs".to_owned();
            map.providers[1].calls[1].parameters.clear();
            map.providers[1].calls[1].name = "blocks".to_owned();
        },
        &[
            (MapPlace::Key(6), "name", "file", "two keys have this name"),
            (
                MapPlace::Key(7),
                "name",
                "in",
                "needs letters, digits and `_`, and none of the language's own words",
            ),
            (
                MapPlace::Key(8),
                "name",
                "unused",
                "no call gives or takes this key: add one, or remove the key",
            ),
            (MapPlace::Provider(1), "name", "dbs", "two providers have this name"),
            (
                MapPlace::Call(of_call(1, 1)),
                "name",
                "blocks",
                "two calls of the provider have this name",
            ),
        ],
    );
}

#[test]
fn keys_of_calls_are_declared_and_told_apart() {
    let place = MapPlace::Call(of_call(1, 3));
    let wrong = |gives: &'static [&'static str]| {
        move |map: &mut ProviderMap| map.providers[1].calls.push(call("x", gives, vec![]))
    };
    problems(wrong(&[]), &[(place, "gives", "[]", "needs at least one key")]);
    let twice = "is the same as `file.name`, or a part of it";
    problems(
        wrong(&["file", "file"]),
        &[(place, "gives", "file", "stands here twice"), (place, "fields", "file.name", twice)],
    );
    let remedy = "there is no such key, did you mean `block`?";
    problems(wrong(&["blok"]), &[(place, "gives", "blok", remedy)]);
    problems(
        |map| {
            let mut it = call("x", &["file"], vec![takes("zebra")]);
            it.form.fields = vec![("a".to_owned(), "site.name".to_owned())];
            it.path = "/{zebra}/{other}".to_owned();
            map.providers[1].calls.push(it);
        },
        &[
            (place, "fields", "file", "no field becomes `file.name`, which tells records apart"),
            (place, "fields", "site.name", "needs a key of `gives` and a name, as in `file.size`"),
            (
                MapPlace::Parameter(of_call(1, 3), 0),
                "required",
                "false",
                "must be true: the parameter is in the path",
            ),
            (place, "path", "other", "names no parameter"),
            (
                MapPlace::Parameter(of_call(1, 3), 0),
                "key",
                "zebra",
                "there is no such key, declare it in a [[key]]",
            ),
        ],
    );
    problems(
        |map| {
            let mut it = call("x", &["file"], vec![needs("run"), takes("run")]);
            it.form.fields.clear();
            it.form.keeps_others = true;
            it.path = "/{run}".to_owned();
            map.providers[1].calls.push(it);
        },
        &[(
            MapPlace::Parameter(of_call(1, 3), 1),
            "key",
            "run",
            "two parameters of the call take this key",
        )],
    );
}

#[test]
fn steps_can_be_reached_and_end() {
    let from = |key: &str, from: &str| KeyParameter { from: Some(from.to_owned()), ..needs(key) };
    let add = |parameters: Vec<KeyParameter>| {
        move |map: &mut ProviderMap| map.providers[1].calls.push(call("x", &["site"], parameters))
    };
    let place = |at| MapPlace::Parameter(of_call(1, 3), at);
    let remedy = "there is no such call: write `provider.call`";
    problems(add(vec![from("file", "rucio.fils")]), &[(place(0), "from", "rucio.fils", remedy)]);
    let remedy = "the call does not give `run`";
    problems(add(vec![from("run", "dbs.blocks")]), &[(place(0), "from", "dbs.blocks", remedy)]);
    let optional = KeyParameter { is_required: false, ..from("file", "dbs.files") };
    let remedy = "is for parameters with `required = true`";
    problems(add(vec![optional]), &[(place(0), "from", "dbs.files", remedy)]);
    let call_place = MapPlace::Call(of_call(1, 3));
    let remedy = "only one parameter of a call may have its values from another call";
    problems(
        add(vec![from("file", "dbs.files"), from("block", "dbs.blocks")]),
        &[(call_place, "parameter", "x", remedy)],
    );
    problems(
        add(vec![from("site", "rucio.x")]),
        &[(
            call_place,
            "parameter",
            "x",
            "calls wait for each other's values: rucio.x \u{2192} rucio.x; remove a `from`",
        )],
    );
    problems(
        |map| {
            let new = call("x", &["block"], vec![from("file", "rucio.files")]);
            map.providers[1].calls.push(new);
            let of_files = &mut map.providers[1].calls[1].parameters[0].source;
            *of_files = ParameterSource::Key(from("block", "rucio.x"));
        },
        &[(
            MapPlace::Call(of_call(1, 1)),
            "parameter",
            "files",
            "calls wait for each other's values: rucio.files \u{2192} rucio.x \u{2192} rucio.files; \
             remove a `from`",
        )],
    );
}

#[test]
fn records_lose_no_values() {
    let place = MapPlace::Call(of_call(1, 3));
    let wrong = |fields: &'static [(&'static str, &'static str)], change: fn(&mut RecordForm)| {
        move |map: &mut ProviderMap| {
            let mut it = call("x", &["file"], vec![]);
            let fields = fields.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
            it.form.fields = fields.collect();
            change(&mut it.form);
            map.providers[1].calls.push(it);
        }
    };
    let twice = "is the same as `file.name`, or a part of it";
    problems(
        wrong(&[("a", "file.name"), ("b", "file.name")], |_| ()),
        &[(place, "fields", "file.name", twice)],
    );
    problems(
        wrong(&[("a", "file.name"), ("b", "file.name.x")], |_| ()),
        &[(place, "fields", "file.name.x", twice)],
    );
    problems(
        wrong(&[("a", "file.name"), ("a.b", "file.b"), ("ab", "file.ab")], |_| ()),
        &[(place, "fields", "a.b", "is the same as `a`, or a part of it")],
    );
    let csv = |form: &mut RecordForm| {
        (form.format, form.path) = (RecordFormat::Csv, vec!["r".to_owned()]);
    };
    problems(
        wrong(&[("a", "file.name")], csv),
        &[(place, "records", "r", "is for the formats json and xml")],
    );
}

#[test]
fn parameters_in_the_path_have_one_value() {
    let range = Some(["low", "high"].map(str::to_owned));
    let parameters = vec![KeyParameter { range, batch: 10, ..needs("run") }];
    let mut it = call("x", &["file"], parameters);
    it.path = "/{run}/{".to_owned();
    let place = MapPlace::Parameter(of_call(1, 3), 0);
    problems(
        |map| map.providers[1].calls.push(it),
        &[
            (MapPlace::Call(of_call(1, 3)), "path", "/{run}/{", "has a brace that is not closed"),
            (place, "low", "run", "the parameter is in the path, and takes no range"),
            (
                place,
                "batch",
                "10",
                "needs `join`: the parameter is in the path, and cannot be repeated",
            ),
        ],
    );
}

#[test]
fn parameters_of_pages_are_their_own() {
    let mut it = call("x", &["file"], vec![needs("run")]);
    it.pages = Some(CallPages {
        parameter: "run".to_owned(),
        counts: PageCount::Records,
        size_parameter: Some("limit".to_owned()),
        size: 10,
        pages_max: 10,
    });
    let remedy = "a parameter of pages is no other parameter too";
    problems(
        |map| map.providers[1].calls.push(it),
        &[(MapPlace::Call(of_call(1, 3)), "pages", "run", remedy)],
    );
}

#[test]
fn a_file_takes_parameters_in_its_path_alone() {
    let mut it = call("x", &["file", "site"], vec![needs("run"), needs("dataset")]);
    it.path = "/{run}.json".to_owned();
    it.pages = Some(CallPages {
        parameter: "from".to_owned(),
        counts: PageCount::Records,
        size_parameter: None,
        size: 10,
        pages_max: 10,
    });
    let at = of_call(1, 0);
    problems(
        |map| {
            map.providers[1].instances[0].1 = "file:data".to_owned();
            map.providers[1].calls = vec![it];
        },
        &[
            (MapPlace::Call(at), "pages", "from", "a file has no pages: remove it"),
            (
                MapPlace::Parameter(at, 1),
                "name",
                "dataset",
                "a file takes parameters in its path: write `{dataset}` there",
            ),
        ],
    );
}

#[test]
fn a_query_names_its_parameters() {
    let range =
        KeyParameter { range: Some(["after", "before"].map(str::to_owned)), ..takes("date") };
    let pages = CallPages {
        parameter: "skip".to_owned(),
        counts: PageCount::Records,
        size_parameter: Some("most".to_owned()),
        size: 10,
        pages_max: 10,
    };
    let asked = |sql: &str| {
        let statement = Some(SqlStatement::parse(sql).unwrap());
        let mut call = call("x", &["file"], vec![needs("dataset"), range.clone()]);
        (call.statement, call.pages) = (statement, Some(pages.clone()));
        move |map: &mut ProviderMap| map.providers[1].calls.push(call)
    };
    let all = "select $dataset, $after, $before, $skip, $most";
    problems(asked(all), &[]);
    let (place, of) = (MapPlace::Call(of_call(1, 3)), |at| MapPlace::Parameter(of_call(1, 3), at));
    problems(
        asked("select $datasets, $before, $skip"),
        &[
            (place, "sql", "$datasets", "names no parameter: add one with the name `datasets`"),
            (place, "pages", "most", "the query has no `$most`"),
            (of(0), "name", "dataset", "the query has no `$dataset`: write it there"),
            (of(1), "name", "after", "the query has no `$after`: write it there"),
        ],
    );
    let lists = |map: &mut ProviderMap| {
        asked(all)(map);
        for parameter in &mut map.providers[1].calls[3].parameters {
            let ParameterSource::Key(of) = &mut parameter.source else { panic!("of a key") };
            (of.batch, of.joined_by) = (5, Some(",".to_owned()));
        }
    };
    problems(
        lists,
        &[
            (of(0), "join", ",", "a database gets a list: remove it"),
            (of(1), "join", ",", "a database gets a list: remove it"),
            (of(1), "batch", "5", "the query takes a range, and no list: write `$date` there too"),
        ],
    );
}
