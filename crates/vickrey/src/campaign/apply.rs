//! `update` and `apply`: show the difference that a definition would make, then make it.
//!
//! Owns the requests and their order. The exchange validates all definitions of a file before the
//! first one changes.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use super::file;
use super::kind::{DefinitionKind, refused};
use super::show::{flatten, warnings};
use crate::command::args::ApiArgs;
use crate::command::client::{ApiClient, ApiRefusal};
use crate::command::exit::{CommandFailure, Exit};
use crate::command::table::print_json;

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// File with definitions, in TOML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Print the changes without making them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    asking: ApiArgs,
}

#[derive(Debug, Args)]
#[group(id = "patch", required = true, multiple = true, args = ["set", "file"])]
pub(crate) struct UpdateArgs {
    /// Id of the campaign or account
    id: String,
    /// File with the keys to change, in TOML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A key to change, for example daily_budget=5.00 or targeting.countries=["USA"]; null removes it
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, Value)>,
    /// Change it only if this is its version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// Print the changes without making them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    asking: ApiArgs,
}

/// A change of one definition, judged before it is made.
struct PlannedChange {
    kind: DefinitionKind,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Value,
    /// The definition in force. None if it is to be created.
    before: Option<Value>,
    /// The exchange's response to the dry run.
    after: Value,
}

/// Parses KEY=VALUE. A value that looks like JSON is JSON, anything else is text.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    let is_key = !key.is_empty() && key.split('.').all(|part| !part.is_empty());
    if !is_key {
        return Err(format!("`{key}` is not a valid key: write one such as daily_budget"));
    }
    let is_json = value.starts_with(['[', '{', '"']) || matches!(value, "null" | "true" | "false");
    let value = match is_json {
        true => serde_json::from_str(value).map_err(|error| format!("{key}: {error}"))?,
        false => value.into(),
    };
    Ok((key.to_owned(), value))
}

/// Sets the value at a dotted path.
fn put(table: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(table.insert(key.to_owned(), value)),
        Some((name, rest)) => {
            let entry = table.entry(name).or_insert_with(|| Map::new().into());
            if !entry.is_object() {
                *entry = Map::new().into();
            }
            put(entry.as_object_mut().expect("it is a table"), rest, value);
        }
    }
}

pub(super) fn update(
    kind: DefinitionKind,
    args: &UpdateArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let UpdateArgs { id, file, set, if_version, dry_run, asking } = args;
    let mut patch = match file {
        None => Map::new(),
        Some(path) => match &mut file::read(kind, path)?[..] {
            [one] => std::mem::take(one),
            _ => {
                return Err(CommandFailure::usage(
                    "the file has several definitions: give a file with one",
                ));
            }
        },
    };
    set.iter().for_each(|(key, value)| put(&mut patch, key, value.clone()));
    let client = ApiClient::new(asking)?;
    let path = kind.of(id, "");
    let before = client.ask("GET", &path, &[], None)?;
    let before = before.map_err(|refusal| refused(kind, id, refusal))?;
    // No other change can come between the difference shown and the change made.
    let version = if_version.map_or_else(|| before["version"].to_string(), |it| it.to_string());
    let mut planned = PlannedChange {
        kind,
        method: "PATCH",
        path,
        headers: vec![("if-match", format!("\"{version}\""))],
        body: patch.into(),
        before: Some(before),
        after: Value::Null,
    };
    planned.judge(&client).map_err(|refusal| refused(kind, id, refusal))?;
    planned.carry_out(&client, *dry_run, asking, out)?;
    Ok(Exit::Done)
}

pub(super) fn apply(
    kind: DefinitionKind,
    args: &ApplyArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let ApplyArgs { file, dry_run, asking } = args;
    let client = ApiClient::new(asking)?;
    let (mut plan, mut problems, mut exit) = (Vec::new(), String::new(), None);
    for definition in file::read(kind, file)? {
        let id = definition.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut planned = PlannedChange::of(kind, &client, &id, definition)?;
        match planned.judge(&client) {
            Ok(()) => plan.push(planned),
            Err(refusal) => {
                exit = exit.or(Some(refusal.exit()));
                let (name, message) = (kind.name(), refusal.message());
                writeln!(problems, "{name} `{id}`: {message}").expect("a String takes any text");
            }
        }
    }
    if let Some(exit) = exit {
        let message = format!("nothing was changed\n{}", problems.trim_end());
        return Err(CommandFailure::with_exit(exit, message));
    }
    for planned in plan {
        planned.carry_out(&client, *dry_run, asking, out)?;
    }
    Ok(Exit::Done)
}

impl PlannedChange {
    /// Creates a definition, or replaces the one in force at its version.
    fn of(
        kind: DefinitionKind,
        client: &ApiClient,
        id: &str,
        definition: Map<String, Value>,
    ) -> anyhow::Result<Self> {
        let path = kind.of(id, "");
        let body = definition.into();
        let found = if id.is_empty() { None } else { Some(client.ask("GET", &path, &[], None)?) };
        Ok(match found {
            Some(Ok(before)) => Self {
                kind,
                method: "PUT",
                path,
                headers: vec![("if-match", format!("\"{}\"", before["version"]))],
                body,
                before: Some(before),
                after: Value::Null,
            },
            Some(Err(refusal)) if !refusal.is_not_found() => return Err(refusal.into_failure()),
            _ => Self {
                kind,
                method: "POST",
                path: kind.path().to_owned(),
                headers: Vec::new(),
                body,
                before: None,
                after: Value::Null,
            },
        })
    }

    /// Asks the exchange for a dry run.
    fn judge(&mut self, client: &ApiClient) -> Result<(), ApiRefusal> {
        let path = format!("{}?dry_run=true", self.path);
        let asked = client.ask(self.method, &path, &self.headers, Some(&self.body));
        match asked {
            Ok(Ok(after)) => {
                self.after = after;
                Ok(())
            }
            Ok(Err(refusal)) => Err(refusal),
            Err(error) => Err(ApiRefusal::unanswered(&error)),
        }
    }

    /// Shows the difference, and makes the change.
    fn carry_out(
        self,
        client: &ApiClient,
        is_dry_run: bool,
        asking: &ApiArgs,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let Self { kind, method, path, headers, body, before, after } = self;
        let lines = difference(before.as_ref(), &after);
        let name = format!("{} {}", kind.name(), after["id"].as_str().unwrap_or_default());
        let is_revived = before.as_ref().is_some_and(|before| before["removed"] == true);
        if before.is_some() && lines.is_empty() && !is_revived {
            return match asking.json {
                true => print_json(&after, out).map(drop),
                false => Ok(writeln!(out, "{name} is unchanged: it already matches")?),
            };
        }
        let view = if is_dry_run {
            after
        } else {
            let asked = client.ask(method, &path, &headers, Some(&body))?;
            asked.map_err(ApiRefusal::into_failure)?
        };
        if asking.json {
            return print_json(&view, out).map(drop);
        }
        let done = match (is_dry_run, before.is_some()) {
            (true, false) => "would be created".to_owned(),
            (true, true) => "would be changed".to_owned(),
            (false, false) => format!("is created, at version {}", view["version"]),
            (false, true) => format!("is changed, at version {}", view["version"]),
        };
        writeln!(out, "{name} {done}")?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        Ok(warnings(&view, out)?)
    }
}

/// A line for each key that differs.
fn difference(before: Option<&Value>, after: &Value) -> Vec<String> {
    let (mut was, mut is) = (Vec::new(), Vec::new());
    if let Some(before) = before {
        flatten("", &before["definition"], &mut was);
    }
    flatten("", &after["definition"], &mut is);
    let value_of = |lines: &[(String, String)], key: &str| {
        lines.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let gone = was.iter().filter(|(key, _)| value_of(&is, key).is_none());
    let gone = gone.map(|(key, value)| format!("- {key}: {value}"));
    let other = is.iter().filter_map(|(key, value)| match value_of(&was, key) {
        None => Some(format!("+ {key}: {value}")),
        Some(before) if before != *value => Some(format!("~ {key}: {before} → {value}")),
        Some(_) => None,
    });
    gone.chain(other).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn assignments_are_text_unless_they_look_like_json() {
        let check = |text: &str, want: Option<(&str, Value)>| {
            let want = want.map(|(key, value)| (key.to_owned(), value));
            assert_eq!(assignment(text).ok(), want, "{text}");
        };
        check("daily_budget=5.00", Some(("daily_budget", json!("5.00"))));
        check("daily_budget=null", Some(("daily_budget", Value::Null)));
        check("targeting.countries=[\"USA\"]", Some(("targeting.countries", json!(["USA"]))));
        check("paused=true", Some(("paused", json!(true))));
        check("bid.value=a=b", Some(("bid.value", json!("a=b"))));
        for wrong in ["x", "=1", "a..b=1", ".a=1", "a=[1"] {
            check(wrong, None);
        }
        let mut table = Map::new();
        put(&mut table, "bid.value", json!("2"));
        put(&mut table, "bid.other", json!("3"));
        put(&mut table, "id", json!("x"));
        let want = json!({ "bid": { "value": "2", "other": "3" }, "id": "x" });
        assert_eq!(Value::from(table), want);
    }
}
