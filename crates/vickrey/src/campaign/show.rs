//! Accounts and campaigns for people: tables and lines.
//!
//! Knows the forms of the API's responses, and sends no requests.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::kind::DefinitionKind;
use crate::command::table::TableColumn::{Figures, Text};
use crate::command::table::{amount, list_of, table, text, visible, without_controls};

/// Keys of definitions that are amounts.
const AMOUNTS: [&str; 5] = ["budget", "daily_budget", "hourly_budget", "bid.value", "bid.price"];

pub(super) fn list(kind: DefinitionKind, views: &[Value], out: &mut dyn Write) -> io::Result<()> {
    if views.is_empty() {
        return writeln!(
            out,
            "no {} yet: `vickrey {} create FILE` defines one",
            kind.plural(),
            kind.name()
        );
    }
    match kind {
        DefinitionKind::Account => accounts(views, out),
        DefinitionKind::Campaign => campaigns(views, out),
    }
}

fn accounts(views: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let head = [
        Text("id"),
        Text("currency"),
        Text("state"),
        Figures("budget"),
        Figures("daily"),
        Figures("hourly"),
        Text("defined in"),
    ];
    let row = |view: &Value| {
        let definition = &view["definition"];
        let limit = |key: &str| amount(&definition[key], &definition["currency"]);
        [
            text(&view["id"]),
            text(&definition["currency"]),
            state(view).to_owned(),
            limit("budget"),
            limit("daily_budget"),
            limit("hourly_budget"),
            origin(view),
        ]
    };
    table(&head, views.iter().map(row), out)
}

/// Campaigns with their spend and limit.
fn campaigns(views: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let head = [
        Text("id"),
        Text("account"),
        Text("state"),
        Figures("spent"),
        Figures("of"),
        Text("for"),
        Figures("expected by now"),
        Text("pace"),
        Text("defined in"),
    ];
    let row = |view: &Value| {
        let delivery = &view["delivery"];
        let money = |key: &str| amount(&delivery[key], &delivery["currency"]);
        let words = |key: &str| delivery[key].as_str().unwrap_or("-").to_owned();
        let state = match (state(view), delivery["refusal"].as_str()) {
            ("open", Some(refusal)) => refusal.replace('_', " "),
            (state, _) => state.to_owned(),
        };
        [
            text(&view["id"]),
            text(&view["definition"]["account"]),
            state,
            money("spent"),
            money("limit"),
            words("span"),
            money("expected"),
            words("pace"),
            origin(view),
        ]
    };
    table(&head, views.iter().map(row), out)
}

/// Where a definition comes from.
fn origin(view: &Value) -> String {
    view["file"].as_str().unwrap_or("the API").to_owned()
}

/// Warns of files that were refused.
pub(super) fn refused_files(problems: &Value, out: &mut dyn Write) -> io::Result<()> {
    let problems = list_of(problems);
    if problems.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "warning: the files of accounts and campaigns are refused; what they defined before stays in \
         force:"
    )?;
    for problem in problems {
        let line = problem["line"].as_u64().map(|line| format!(" line {line}")).unwrap_or_default();
        let file = problem["file"].as_str().unwrap_or_default();
        let (key, remedy) = (text(&problem["key"]), text(&problem["remedy"]));
        let value = problem["value"].as_str().map(|it| format!(" = {it}")).unwrap_or_default();
        writeln!(out, "  {}", without_controls(&format!("{file}{line}: {key}{value}: {remedy}")))?;
    }
    Ok(())
}

pub(super) fn one(
    kind: DefinitionKind,
    view: &Value,
    spend: Option<&Value>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let from = origin(view);
    let (id, version) = (text(&view["id"]), &view["version"]);
    writeln!(out, "{} {id}, version {version}, {}, defined in {from}", kind.name(), state(view))?;
    let mut lines = Vec::new();
    flatten("", &view["definition"], &mut lines);
    let currency = spend.map_or(&view["definition"]["currency"], |spend| &spend["currency"]);
    for (_, value) in lines.iter_mut().filter(|(key, _)| AMOUNTS.contains(&key.as_str())) {
        let given = Value::from(value.as_str());
        // The amount may include a currency.
        if currency.is_string() && given.as_str().is_some_and(|it| !it.contains(' ')) {
            *value = amount(&given, currency);
        }
    }
    let width = lines.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in &lines {
        writeln!(out, "  {key:width$}  {value}")?;
    }
    if let Some(spend) = spend {
        writeln!(out, "spent: {}", spent(spend))?;
    }
    for key in list_of(&view["held"]) {
        writeln!(out, "{}: holds over the file until that changes", text(key))?;
    }
    warnings(view, out)
}

fn spent(spend: &Value) -> String {
    let of = |key: &str| amount(&spend[key], &spend["currency"]);
    let (hour, today, life) = (of("hour"), of("today"), of("life"));
    format!("{hour} in this hour, {today} today, {life} in all")
}

pub(super) fn spend(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", text(&answer["id"]), spent(answer))?;
    let hours = list_of(&answer["hours"]);
    if hours.is_empty() {
        return Ok(());
    }
    let row = |hour: &Value| [text(&hour["start"]), amount(&hour["spent"], &answer["currency"])];
    table(&[Text("hour from"), Figures("spent")], hours.iter().map(row), out)
}

/// A row for each changed key.
pub(super) fn audit(entries: &[Value], out: &mut dyn Write) -> io::Result<()> {
    if entries.is_empty() {
        return writeln!(out, "no changes");
    }
    let head = ["when", "who", "what", "of", "id", "version", "key", "before", "after"].map(Text);
    let mut rows = Vec::new();
    for entry in entries {
        let changes = list_of(&entry["changes"]);
        let who = entry["actor"].as_str().or_else(|| entry["file"].as_str()).unwrap_or("api");
        let mut of = [
            text(&entry["at"]),
            who.to_owned(),
            text(&entry["action"]),
            text(&entry["kind"]),
            text(&entry["id"]),
            text(&entry["version"]),
        ];
        let value = |value: &Value| if value.is_null() { "-".to_owned() } else { text(value) };
        let changed =
            changes.iter().map(|of| [text(&of["key"]), value(&of["before"]), value(&of["after"])]);
        let nothing = changes.is_empty().then_some([const { String::new() }; 3]);
        for [key, before, after] in changed.chain(nothing) {
            let [at, who, what, kind, id, version] = std::mem::take(&mut of);
            rows.push([at, who, what, kind, id, version, key, before, after]);
        }
    }
    table(&head, rows.into_iter(), out)
}

/// The state after a change.
pub(super) fn changed(kind: DefinitionKind, view: &Value, out: &mut dyn Write) -> io::Result<()> {
    let (id, version) = (text(&view["id"]), &view["version"]);
    writeln!(out, "{} {id} is {}, at version {version}", kind.name(), state(view))?;
    warnings(view, out)
}

pub(super) fn warnings(view: &Value, out: &mut dyn Write) -> io::Result<()> {
    for warning in list_of(&view["warnings"]) {
        writeln!(out, "note: {}", text(warning))?;
    }
    Ok(())
}

fn state(view: &Value) -> &'static str {
    match (view["removed"] == true, view["definition"]["paused"] == true) {
        (true, _) => "removed",
        (false, true) => "paused",
        (false, false) => "open",
    }
}

/// Lists every key with its dotted path.
pub(super) fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let object: &Map<String, Value> = match value {
        Value::Object(object) => object,
        other => return lines.push((path.to_owned(), visible(&text(other)))),
    };
    for (name, value) in object {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&path, value, lines);
    }
}
