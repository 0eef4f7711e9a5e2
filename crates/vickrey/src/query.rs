//! `vickrey query`: what a query to many data providers means.

use std::borrow::Cow;
use std::io::{self, Read as _};

use clap::Args;
use lookup_core::query::{QueryLimits, Vocabulary, parse, to_json};

use crate::command::exit::{CommandFailure, Exit};
use crate::command::table::print_json;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueryArgs {
    /// The query; `-` reads it from standard input
    query: String,
    /// Print what the query means, as JSON, and ask nobody. Keys are not checked
    #[arg(long, required = true)]
    parse: bool,
}

const EXAMPLES: &str = "\
Queries name what is wanted, then conditions, then what happens to the records:
  file,run dataset=/a/b* run in [1, 2] date last 24h
  file dataset=/a/b/c | grep file.size>10, file.name | sort file.size- | limit 10
  /a/b/c                        stands for dataset=/a/b/c
  file run between [1, 9] system=dbs instance=prod/global | sum(file.size), median(file.size)
docs/lookup.md explains all of it.";

pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<Exit> {
    let limits = QueryLimits::default();
    let parsed = parse(&text(&args.query, limits)?, &Vocabulary::open(), limits);
    let query =
        parsed.map_err(|error| CommandFailure::usage(format!("the query is wrong: {error}")))?;
    print_json(&to_json(&query), &mut io::stdout().lock())
}

/// The query, of which no more is read than is too much.
fn text(query: &str, limits: QueryLimits) -> anyhow::Result<Cow<'_, str>> {
    if query != "-" {
        return Ok(query.into());
    }
    let mut text = String::new();
    let read = io::stdin().take(limits.bytes_max as u64 + 1).read_to_string(&mut text);
    let unreadable = |error| CommandFailure::usage(format!("cannot read the query: {error}"));
    read.map(|_| text.into()).map_err(unreadable)
}
