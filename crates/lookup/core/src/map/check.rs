//! Checks what the files of a map say as a whole.

use std::collections::HashSet;

use diagnostics::nearest;

use super::model::{
    CallId, CallPages, CallParameter, FOLDER, ParameterSource, ProviderCall, ProviderMap,
    RecordForm, RecordFormat,
};
use super::statement::SqlStatement;
use crate::query::{DATE, is_key_name, is_name};

/// What is wrong with a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapProblem {
    /// The table that is wrong.
    pub place: MapPlace,
    /// The key in the table.
    pub key: &'static str,
    /// Its value, or the part that is wrong.
    pub value: String,
    /// The problem and the remedy, as a lower-case fragment.
    pub remedy: String,
}

/// A table of the map, by its place in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapPlace {
    /// A key.
    Key(usize),
    /// A provider.
    Provider(usize),
    /// A call.
    Call(CallId),
    /// A parameter of a call.
    Parameter(CallId, usize),
}

/// All problems of a map.
pub fn check(map: &ProviderMap) -> Vec<MapProblem> {
    let mut check = MapCheck { map, problems: Vec::new() };
    check.keys();
    check.providers();
    for (id, provider, call) in map.calls() {
        if provider.instances.iter().any(|(_, url)| url.starts_with(FOLDER)) {
            check.file(id, call);
        }
        if let Some(statement) = &call.statement {
            check.statement(id, call, statement);
        }
        check.call(id, call);
        check.parameters(id, call);
    }
    check.circles();
    check.problems
}

struct MapCheck<'m> {
    map: &'m ProviderMap,
    problems: Vec<MapProblem>,
}

impl MapCheck<'_> {
    fn note(&mut self, place: MapPlace, key: &'static str, value: &str, remedy: impl Into<String>) {
        let (value, remedy) = (value.to_owned(), remedy.into());
        self.problems.push(MapProblem { place, key, value, remedy });
    }

    fn keys(&mut self) {
        let mut names = HashSet::new();
        for (at, key) in self.map.keys.iter().enumerate() {
            let place = MapPlace::Key(at);
            if !is_key_name(&key.name) {
                let remedy = "needs letters, digits and `_`, and none of the language's own words";
                self.note(place, "name", &key.name, remedy);
            } else if !names.insert(&key.name) {
                self.note(place, "name", &key.name, "two keys have this name");
            } else if !self.is_used(&key.name) {
                let remedy = "no call gives or takes this key: add one, or remove the key";
                self.note(place, "name", &key.name, remedy);
            }
        }
    }

    fn is_used(&self, key: &str) -> bool {
        let mut calls = self.map.calls();
        calls.any(|(.., call)| {
            call.gives.iter().any(|given| given == key) || call.parameter_of(key).is_some()
        })
    }

    fn providers(&mut self) {
        let mut names = HashSet::new();
        for (at, provider) in self.map.providers.iter().enumerate() {
            let place = MapPlace::Provider(at);
            if provider.name.is_empty() || provider.name.contains('.') {
                self.note(place, "name", &provider.name, "needs a name without `.`");
            }
            if !names.insert(&provider.name) {
                self.note(place, "name", &provider.name, "two providers have this name");
            }
            let mut calls = HashSet::new();
            for (call, it) in provider.calls.iter().enumerate() {
                if !calls.insert(&it.name) {
                    let place = MapPlace::Call(CallId { provider: at, call });
                    self.note(place, "name", &it.name, "two calls of the provider have this name");
                }
            }
        }
    }

    /// Reports a key that is not declared.
    fn check_key(&mut self, place: MapPlace, toml_key: &'static str, name: &str) -> bool {
        let is_known = self.map.key(name).is_some();
        if !is_known {
            let near = nearest(name, self.map.keys.iter().map(|key| &*key.name));
            let remedy = match near {
                Some(near) => format!("there is no such key, did you mean `{near}`?"),
                None => "there is no such key, declare it in a [[key]]".to_owned(),
            };
            self.note(place, toml_key, name, remedy);
        }
        is_known
    }

    fn call(&mut self, id: CallId, call: &ProviderCall) {
        let place = MapPlace::Call(id);
        if call.gives.is_empty() {
            self.note(place, "gives", "[]", "needs at least one key");
        }
        let mut given = HashSet::new();
        for name in &call.gives {
            if !given.insert(name) {
                self.note(place, "gives", name, "stands here twice");
            } else if self.check_key(place, "gives", name) {
                let primary = self.map.key(name).map_or("", |key| &key.primary);
                let field = format!("{name}.{primary}");
                let is_renamed = call.form.fields.iter().any(|(_, to)| *to == field);
                let is_kept = call.form.keeps_others && call.gives.first() == Some(name);
                if !is_renamed && !is_kept {
                    let remedy = format!("no field becomes `{field}`, which tells records apart");
                    self.note(place, "fields", name, remedy);
                }
            }
        }
        self.fields(place, call);
        self.path(id, call);
    }

    fn fields(&mut self, place: MapPlace, call: &ProviderCall) {
        let RecordForm { format, path, fields, .. } = &call.form;
        if matches!(format, RecordFormat::Ndjson | RecordFormat::Csv) && !path.is_empty() {
            self.note(place, "records", &path.join("."), "is for the formats json and xml");
        }
        let is_part = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for (at, (from, to)) in fields.iter().enumerate() {
            for (other_from, other_to) in &fields[..at] {
                if is_part(to, other_to) || is_part(other_to, to) {
                    let remedy = format!("is the same as `{other_to}`, or a part of it");
                    self.note(place, "fields", to, remedy);
                } else if is_part(from, other_from) || is_part(other_from, from) {
                    let remedy = format!("is the same as `{other_from}`, or a part of it");
                    self.note(place, "fields", from, remedy);
                }
            }
        }
        for (_, field) in fields {
            let is_field = field.split_once('.').is_some_and(|(key, attribute)| {
                call.gives.iter().any(|given| given == key) && attribute.split('.').all(is_name)
            });
            if !is_field {
                let remedy = "needs a key of `gives` and a name, as in `file.size`";
                self.note(place, "fields", field, remedy);
            }
        }
    }

    /// Parameters in the path have one value, always.
    fn path(&mut self, id: CallId, call: &ProviderCall) {
        let place = MapPlace::Call(id);
        if call.path.matches('{').count() != call.path.matches('}').count() {
            self.note(place, "path", &call.path, "has a brace that is not closed");
        }
        for name in placeholders(&call.path) {
            let at = call.parameters.iter().position(|parameter| parameter.name == name);
            let Some(at) = at else {
                self.note(place, "path", name, "names no parameter");
                continue;
            };
            let ParameterSource::Key(of) = &call.parameters[at].source else { continue };
            let place = MapPlace::Parameter(id, at);
            if !of.is_required {
                self.note(place, "required", "false", "must be true: the parameter is in the path");
            }
            if of.range.is_some() {
                self.note(place, "low", name, "the parameter is in the path, and takes no range");
            }
            if of.batch > 1 && of.joined_by.is_none() {
                let remedy = "needs `join`: the parameter is in the path, and cannot be repeated";
                self.note(place, "batch", &of.batch.to_string(), remedy);
            }
        }
    }

    /// A file is as it is: it has no pages, and leaves nothing out.
    fn file(&mut self, id: CallId, call: &ProviderCall) {
        if let Some(CallPages { parameter, .. }) = &call.pages {
            self.note(MapPlace::Call(id), "pages", parameter, "a file has no pages: remove it");
        }
        for (at, CallParameter { name, .. }) in call.parameters.iter().enumerate() {
            if !call.path.contains(&format!("{{{name}}}")) {
                let remedy =
                    format!("a file takes parameters in its path: write `{{{name}}}` there");
                self.note(MapPlace::Parameter(id, at), "name", name, remedy);
            }
        }
    }

    /// A database ignores no parameter, and has each that its query names.
    fn statement(&mut self, id: CallId, call: &ProviderCall, statement: &SqlStatement) {
        let of_pages = call.pages.iter().flat_map(CallPages::parameters).map(|name| (None, name));
        let others = call.parameters.iter().enumerate().flat_map(|(at, parameter)| {
            let range = match &parameter.source {
                ParameterSource::Key(of) => of.range.as_ref(),
                ParameterSource::Literal(_) => None,
            };
            // A single value is sent as both ends of a range.
            let own = range.is_none().then_some(&parameter.name);
            own.into_iter().chain(range.into_iter().flatten()).map(move |name| (Some(at), name))
        });
        let known: Vec<(Option<usize>, &String)> = of_pages.chain(others).collect();
        for (at, parameter) in call.parameters.iter().enumerate() {
            let ParameterSource::Key(of) = &parameter.source else { continue };
            let place = MapPlace::Parameter(id, at);
            if let Some(separator) = &of.joined_by {
                self.note(place, "join", separator, "a database gets a list: remove it");
            }
            if of.batch > 1 && call.ends_for_value(parameter).is_some() {
                let remedy = format!(
                    "the query takes a range, and no list: write `${}` there too",
                    parameter.name
                );
                self.note(place, "batch", &of.batch.to_string(), remedy);
            }
        }
        let named = statement.parameters();
        for name in &named {
            let is_own = call.parameters.iter().any(|parameter| parameter.name == *name);
            if !is_own && known.iter().all(|(_, known)| known != name) {
                let remedy = format!("names no parameter: add one with the name `{name}`");
                self.note(MapPlace::Call(id), "sql", &format!("${name}"), remedy);
            }
        }
        for (at, name) in known.into_iter().filter(|(_, name)| !named.contains(&&***name)) {
            let place = at.map_or(MapPlace::Call(id), |at| MapPlace::Parameter(id, at));
            let (key, remedy) = match at {
                None => ("pages", format!("the query has no `${name}`")),
                Some(_) => ("name", format!("the query has no `${name}`: write it there")),
            };
            self.note(place, key, name, remedy);
        }
    }

    fn parameters(&mut self, id: CallId, call: &ProviderCall) {
        for name in call.pages.iter().flat_map(CallPages::parameters) {
            if call.parameters.iter().any(|parameter| parameter.name == *name) {
                let remedy = "a parameter of pages is no other parameter too";
                self.note(MapPlace::Call(id), "pages", name, remedy);
            }
        }
        let mut keys = HashSet::new();
        let mut feeders = 0;
        for (at, parameter) in call.parameters.iter().enumerate() {
            let place = MapPlace::Parameter(id, at);
            let ParameterSource::Key(of) = &parameter.source else { continue };
            if of.key != DATE {
                self.check_key(place, "key", &of.key);
            }
            if !keys.insert(&of.key) {
                self.note(place, "key", &of.key, "two parameters of the call take this key");
            }
            let Some(from) = &of.from else { continue };
            feeders += 1;
            match self.map.call_named(from) {
                None => {
                    self.note(place, "from", from, "there is no such call: write `provider.call`");
                }
                Some(feeder) => {
                    if !self.map.call(feeder).gives.contains(&of.key) {
                        let remedy = format!("the call does not give `{}`", of.key);
                        self.note(place, "from", from, remedy);
                    }
                }
            }
            if !of.is_required {
                self.note(place, "from", from, "is for parameters with `required = true`");
            }
        }
        if feeders > 1 {
            let remedy = "only one parameter of a call may have its values from another call";
            self.note(MapPlace::Call(id), "parameter", &call.name, remedy);
        }
    }

    /// Reports calls that need values of each other.
    fn circles(&mut self) {
        let map = self.map;
        for (id, ..) in map.calls() {
            let mut names = vec![map.call_name(id)];
            let mut next = feeder(map, id);
            while let Some(call) =
                next.filter(|call| *call != id && names.len() <= map.calls().count())
            {
                names.push(map.call_name(call));
                next = feeder(map, call);
            }
            // Each circle once: at its first call.
            let is_first = names.iter().all(|name| map.call_named(name).is_none_or(|of| id <= of));
            if next == Some(id) && is_first {
                names.push(names[0].clone());
                let circle = names.join(" \u{2192} ");
                let remedy =
                    format!("calls wait for each other's values: {circle}; remove a `from`");
                self.note(MapPlace::Call(id), "parameter", &map.call(id).name, remedy);
            }
        }
    }
}

/// The call that finds values for this one.
fn feeder(map: &ProviderMap, id: CallId) -> Option<CallId> {
    map.call(id).key_parameters().find_map(|of| map.call_named(of.from.as_deref()?))
}

/// The names in braces.
pub(crate) fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}
