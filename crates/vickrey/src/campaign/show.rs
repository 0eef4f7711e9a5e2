//! Accounts and campaigns for people: tables and lines.
//!
//! Knows the forms of the API's answers, and asks nobody.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::Kind;

/// A line for each.
pub(super) fn list(kind: Kind, views: &[Value], out: &mut dyn Write) -> io::Result<()> {
    if views.is_empty() {
        return writeln!(
            out,
            "no {} yet: `vickrey {} create FILE` defines one",
            kind.plural(),
            kind.name()
        );
    }
    let head = match kind {
        Kind::Account => ["id", "currency", "state", "budget", "daily", "hourly", "defined in"],
        Kind::Campaign => ["id", "account", "state", "budget", "daily", "hourly", "defined in"],
    };
    let row = |view: &Value| {
        let definition = &view["definition"];
        let second = match kind {
            Kind::Account => &definition["currency"],
            Kind::Campaign => &definition["account"],
        };
        let limit = |key: &str| definition[key].as_str().unwrap_or("-").to_owned();
        [
            text(&view["id"]),
            text(second),
            state(view).to_owned(),
            limit("budget"),
            limit("daily_budget"),
            limit("hourly_budget"),
            view["file"].as_str().unwrap_or("the API").to_owned(),
        ]
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    table(&head, &rows, out)
}

/// All of one.
pub(super) fn one(
    kind: Kind,
    view: &Value,
    spend: Option<&Value>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let from = view["file"].as_str().unwrap_or("the API");
    let (id, version) = (text(&view["id"]), &view["version"]);
    writeln!(out, "{} {id}, version {version}, {}, defined in {from}", kind.name(), state(view))?;
    let mut lines = Vec::new();
    flatten("", &view["definition"], &mut lines);
    let width = lines.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in &lines {
        writeln!(out, "  {key:width$}  {value}")?;
    }
    if let Some(spend) = spend {
        writeln!(out, "spent: {}", spent(spend))?;
    }
    for key in view["held"].as_array().into_iter().flatten() {
        writeln!(out, "{}: holds over the file until that changes", text(key))?;
    }
    warnings(view, out)
}

fn spent(spend: &Value) -> String {
    let of = |key: &str| text(&spend[key]);
    let (currency, hour, today, life) = (of("currency"), of("hour"), of("today"), of("life"));
    format!("{hour} {currency} in this hour, {today} today, {life} in all")
}

/// What was spent, by hours.
pub(super) fn spend(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", text(&answer["id"]), spent(answer))?;
    let hours = answer["hours"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> =
        hours.iter().map(|hour| [text(&hour["start"]), text(&hour["spent"])]).collect();
    if rows.is_empty() { Ok(()) } else { table(&["hour from", "spent"], &rows, out) }
}

/// What was changed, a line for each.
pub(super) fn audit(entries: &[Value], out: &mut dyn Write) -> io::Result<()> {
    if entries.is_empty() {
        return writeln!(out, "no changes");
    }
    let head = ["when", "what", "of", "id", "version", "budget", "daily", "hourly", "defined in"];
    let row = |entry: &Value| {
        let limit = |key: &str| entry["definition"][key].as_str().unwrap_or("-").to_owned();
        [
            text(&entry["at"]),
            text(&entry["action"]),
            text(&entry["kind"]),
            text(&entry["id"]),
            text(&entry["version"]),
            limit("budget"),
            limit("daily_budget"),
            limit("hourly_budget"),
            entry["file"].as_str().unwrap_or("the API").to_owned(),
        ]
    };
    table(&head, &entries.iter().map(row).collect::<Vec<_>>(), out)
}

/// What a change has come to.
pub(super) fn changed(kind: Kind, view: &Value, out: &mut dyn Write) -> io::Result<()> {
    let (id, version) = (text(&view["id"]), &view["version"]);
    writeln!(out, "{} {id} is {}, at version {version}", kind.name(), state(view))?;
    warnings(view, out)
}

fn warnings(view: &Value, out: &mut dyn Write) -> io::Result<()> {
    for warning in view["warnings"].as_array().into_iter().flatten() {
        writeln!(out, "note: {}", text(warning))?;
    }
    Ok(())
}

/// Why a campaign does not spend, with every limit, and how it bids.
pub(super) fn why(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", text(&answer["id"]), reason(answer))?;
    let levels = answer["levels"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !levels.is_empty() {
        let head = ["limit of", "for", "limit", "spent or leased", "kept back", "left"];
        let row = |level: &Value| {
            let of = |key: &str| level[key].as_str().unwrap_or("-").to_owned();
            [of("owner"), of("span"), of("limit"), of("exposure"), of("holdback"), of("headroom")]
        };
        table(&head, &levels.iter().map(row).collect::<Vec<_>>(), out)?;
    }
    if let Some(words) = answer["pace"]["words"].as_str() {
        writeln!(out, "how it bids: {}", visible(words))?;
    }
    on_its_way(answer, out)
}

/// Why an account as a whole does not spend, with its limits, and what its campaigns do.
pub(super) fn why_account(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", text(&answer["id"]), reason(answer))?;
    let levels = answer["levels"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !levels.is_empty() {
        let head = ["limit for", "limit", "spent or leased", "left"];
        let row = |level: &Value| {
            let of = |key: &str| level[key].as_str().unwrap_or("-").to_owned();
            [of("span"), of("limit"), of("exposure"), of("headroom")]
        };
        table(&head, &levels.iter().map(row).collect::<Vec<_>>(), out)?;
    }
    if answer["seats"].is_object() {
        writeln!(out, "its seats: {}", reason(&answer["seats"]))?;
    }
    for campaigns in answer["campaigns"].as_array().into_iter().flatten() {
        let count = text(&campaigns["count"]);
        let noun = if count == "1" { "campaign" } else { "campaigns" };
        writeln!(out, "{count} {noun}: {}", reason(campaigns))?;
    }
    on_its_way(answer, out)
}

/// A reason in words, and as programs know it.
fn reason(of: &Value) -> String {
    let label = of["refusal"].as_str().map(|label| format!(" ({label})")).unwrap_or_default();
    format!("{}{label}", text(&of["words"]))
}

fn on_its_way(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let currency = answer["currency"].as_str().unwrap_or_default();
    let of = |key: &str| text(&answer[key]);
    let (shards, ready, frozen) = (of("at_shards"), of("ready"), of("frozen"));
    writeln!(
        out,
        "on its way, in {currency}: {shards} at shards, {ready} leased, {frozen} frozen since the \
         last start"
    )
}

const fn state_of(is_removed: bool, is_paused: bool) -> &'static str {
    match (is_removed, is_paused) {
        (true, _) => "removed",
        (false, true) => "paused",
        (false, false) => "open",
    }
}

fn state(view: &Value) -> &'static str {
    state_of(view["removed"] == true, view["definition"]["paused"] == true)
}

/// Text as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Every key with its path.
fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let object: &Map<String, Value> = match value {
        Value::Object(object) => object,
        other => return lines.push((path.to_owned(), visible(&text(other)))),
    };
    for (name, value) in object {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&path, value, lines);
    }
}

/// No control characters reach a terminal, and no line gets too long.
fn visible(text: &str) -> String {
    const LETTERS_MAX: usize = 100;
    let mut shown: String = text
        .chars()
        .take(LETTERS_MAX)
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect();
    if text.chars().nth(LETTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn table<const N: usize>(
    head: &[&str; N],
    rows: &[[String; N]],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut widths = head.map(|name| name.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible(cell).chars().count());
        }
    }
    let line = |cells: Vec<String>| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}", line(head.iter().map(|&name| name.to_owned()).collect()))?;
    for row in rows {
        writeln!(out, "{}", line(row.iter().map(|cell| visible(cell)).collect()))?;
    }
    Ok(())
}
