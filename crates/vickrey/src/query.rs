//! `vickrey query`: asks many data providers one question, or says what it means and how it would be
//! answered.

pub(crate) mod answer;
pub(crate) mod ask;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use clap::{ArgGroup, Args};
use lookup_core::map::ProviderMap;
use lookup_core::plan::{self, PlanView};
use lookup_core::query::{self, LookupQuery, QueryLimits, Vocabulary};
use lookup_serve::MapProblems;
use lookup_serve::maps::load_maps;
use serde_json::Value;

use crate::command::exit::{CommandFailure, Exit};
use crate::command::table::{list_of, print_json, text as text_of, visible};
use answer::AnswerFormat;
use ask::{AskArgs, Asker, ask};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("instead").args(["parse", "explain"]))]
pub(crate) struct QueryArgs {
    /// The query; `-` reads it from standard input
    query: String,
    #[command(flatten)]
    asking: AskArgs,
    /// Print what the query means, as JSON, instead. Without --maps, keys are not checked
    #[arg(long)]
    parse: bool,
    /// Print instead which providers would be called and in which order, with their limits, about how
    /// many calls that would be, what is known already, and why other providers would not be called.
    /// With --maps, without a server
    #[arg(long)]
    explain: bool,
    /// Files that describe the providers, such as 'maps/*.toml', in place of a server
    #[arg(long, value_name = "PATTERN", requires = "instead")]
    maps: Option<String>,
    /// Print the answer, or the plan, as JSON
    #[arg(long)]
    json: bool,
    /// Print the answer as CSV
    #[arg(long, conflicts_with_all = ["json", "instead"])]
    csv: bool,
}

const EXAMPLES: &str = "\
Queries name what is wanted, then conditions, then what happens to the records:
  file,run dataset=/a/b* run in [1, 2] date last 24h
  file dataset=/a/b/c | grep file.size>10, file.name | sort file.size- | limit 10
  /a/b/c                        stands for dataset=/a/b/c
  file run between [1, 9] system=dbs instance=prod/global | sum(file.size), median(file.size)

Exits 0 with a complete answer, 1 with a partial one, 69 without one.
docs/lookup.md explains all of it.";

pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<Exit> {
    let map = args.maps.as_deref().map(read_maps).transpose()?;
    let vocabulary = map.as_ref().map_or_else(Vocabulary::open, ProviderMap::vocabulary);
    let limits = QueryLimits::default();
    let text = text(&args.query, limits)?;
    if !args.parse && !args.explain {
        // The server knows the keys.
        let format = match (args.json, args.csv) {
            (true, _) => AnswerFormat::Json,
            (_, true) => AnswerFormat::Csv,
            _ => AnswerFormat::Table,
        };
        return ask(&text, &args.asking, format);
    }
    if args.explain && map.is_none() {
        return explain_by_server(&text, &args.asking, args.json);
    }
    let parsed = query::parse(&text, &vocabulary, limits);
    let query =
        parsed.map_err(|error| CommandFailure::usage(format!("the query is wrong: {error}")))?;
    match map.filter(|_| args.explain) {
        Some(map) => explain(&map, &query, args.json),
        None => print_json(&query::to_json(&query), &mut io::stdout().lock()),
    }
}

/// The query, of which no more is read than is too much.
fn text(query: &str, limits: QueryLimits) -> anyhow::Result<Cow<'_, str>> {
    if query != "-" {
        return Ok(query.into());
    }
    let mut text = Vec::new();
    let read = io::stdin().take(limits.bytes_max as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| CommandFailure::usage(format!("cannot read the query: {error}")))?;
    if text.len() > limits.bytes_max {
        let most = limits.bytes_max;
        return Err(CommandFailure::usage(format!("the query has more than {most} bytes")));
    }
    let text = String::from_utf8(text);
    Ok(text.map_err(|_| CommandFailure::usage("the query is not UTF-8"))?.into())
}

fn read_maps(pattern: &str) -> anyhow::Result<ProviderMap> {
    load_maps(Path::new(""), pattern)
        .map(|maps| maps.map)
        .map_err(|problems| CommandFailure::usage(MapProblems::from(problems)))
}

fn explain(map: &ProviderMap, query: &LookupQuery, is_json: bool) -> anyhow::Result<Exit> {
    let plan = plan::plan(map, query).map_err(CommandFailure::usage)?;
    let calls = plan.calls_estimate(map, &HashMap::new());
    let view = PlanView { plan: &plan, map };
    let out = &mut io::stdout().lock();
    if is_json {
        let mut json = plan::to_json(&view);
        json["calls_estimate"] = calls.into();
        return print_json(&json, out);
    }
    writeln!(out, "{view}{}", about(calls))?;
    Ok(Exit::Done)
}

fn about(calls: u64) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("about {calls} calls") }
}

/// The server knows the maps, and what is known.
fn explain_by_server(query: &str, args: &AskArgs, is_json: bool) -> anyhow::Result<Exit> {
    let explained = Asker::of(args)?.explain(query)?;
    let out = &mut io::stdout().lock();
    if is_json {
        return print_json(&explained, out);
    }
    let count = |of: &Value, key: &str| of[key].as_u64().unwrap_or_default();
    write!(out, "{}", explained["plan"].as_str().unwrap_or_default())?;
    let most = count(&explained, "calls_max");
    writeln!(out, "{}, of at most {most}", about(count(&explained, "calls_estimate")))?;
    if let Some(wider) = explained["reuses"].as_str() {
        writeln!(
            out,
            "known: all of it, from the answer of `{}`: nothing is called",
            visible(wider)
        )?;
        return Ok(Exit::Done);
    }
    for known in list_of(&explained["known"]) {
        let (cached, stale) = (count(known, "cached"), count(known, "stale"));
        let (call, calls) = (visible(&text_of(&known["call"])), count(known, "calls"));
        let stale = if stale == 0 { String::new() } else { format!(", and {stale} stale") };
        writeln!(out, "known: {cached} of {calls} answers of {call}{stale}")?;
    }
    Ok(Exit::Done)
}
