//! `vickrey audit`: changes of accounts and campaigns.
//!
//! Owns the selection of entries. The exchange lists all of them, oldest first.

use std::collections::VecDeque;
use std::io::{self, Write};

use clap::{Args, value_parser};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, civil};
use serde_json::Value;

use super::kind::{DefinitionKind, PAGE};
use super::show;
use crate::command::args::ApiArgs;
use crate::command::client::{ApiClient, encoded};
use crate::command::exit::Exit;
use crate::command::table::print_json;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Show changes since a time (2026-11-01T00:00:00Z), a day in UTC, or some time ago (2h, 7d)
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// Show at most this many, newest last
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
    limit: u32,
    /// Show changes of this account or campaign
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    asking: ApiArgs,
}

/// Lists changes, of one kind alone if it is given.
pub(crate) fn run(kind: Option<DefinitionKind>, args: &AuditArgs) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let entries = entries(kind, args)?;
    if args.asking.json {
        return print_json(&entries.into_iter().collect(), &mut out);
    }
    show::audit(&entries, &mut out)?;
    out.flush()?;
    Ok(Exit::Done)
}

/// The latest matching entries, oldest first.
fn entries(kind: Option<DefinitionKind>, args: &AuditArgs) -> anyhow::Result<Vec<Value>> {
    let client = ApiClient::new(&args.asking)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let is_meant = |entry: &Value| {
        let at = entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        args.since.is_none_or(|since| at.is_some_and(|at| since <= at))
            && kind.is_none_or(|kind| entry["kind"] == kind.name())
            && args.id.as_deref().is_none_or(|id| entry["id"] == id)
    };
    let (mut latest, mut after) = (VecDeque::new(), String::new());
    loop {
        let mut page = client.get(&format!("/v1/audit?most={PAGE}{after}"))?;
        if let Value::Array(entries) = page["entries"].take() {
            latest.extend(entries.into_iter().filter(is_meant));
        }
        latest.drain(..latest.len().saturating_sub(limit));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => return Ok(latest.into()),
        }
    }
}

fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(day) = text.parse::<civil::Date>() {
        let midnight = day.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(midnight.timestamp());
    }
    let ago = text.parse::<Span>().ok().filter(|ago| !ago.is_negative());
    let at = ago.and_then(|ago| Timestamp::now().to_zoned(TimeZone::UTC).checked_sub(ago).ok());
    at.map(|at| at.timestamp()).ok_or_else(|| {
        "write a time as 2026-11-01T00:00:00Z, a day as 2026-11-01, or how long ago, as 2h or 7d"
            .to_owned()
    })
}
