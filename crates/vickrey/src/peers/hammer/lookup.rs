//! `vickrey hammer lookup`: queries of a process with `[lookup]`.

use clap::Args;
use testbed::cache::CacheKeys;
use testbed::provider::{LookupLoad, LookupLoadOptions};

use super::load::{LoadArgs, LoadReportArgs, LoadTarget, run_load};
use crate::command::exit::{CommandFailure, Exit};

pub(super) const EXAMPLES: &str = "\
Examples:
  vickrey hammer lookup 'file dataset=/a/b/c'                          one query, known after its first answer
  vickrey hammer lookup 'file dataset=/a/b{n}/c' --keys 1000           a thousand, by Zipf's law
  vickrey hammer lookup 'item group=g{n}' --new --rate 200             nothing is known: providers are called
  vickrey hammer lookup 'item group=g{n}' --new --in-flight 300 --count 300 --timeout 30s

A partial answer counts as one, and is shown apart. Refused queries, such as those with 429, and failed ones
count as refused. It exits 1 if nothing was answered or an objective was missed.";

/// Each query waits for its answer. Latency counts from the time at which a query was intended to be sent.
#[derive(Debug, Args)]
pub(crate) struct LookupLoadArgs {
    /// The query; `{n}` stands for a number, by which queries differ
    query: String,
    /// The look-ups: `listen` of `[lookup]`
    #[arg(long, default_value = "http://127.0.0.1:7400")]
    url: String,
    /// How many different numbers, by Zipf's law
    #[arg(long, default_value_t = 1)]
    keys: usize,
    /// Each number once
    #[arg(long, conflicts_with = "keys")]
    new: bool,
    /// Records of each answer that are sent
    #[arg(long, default_value_t = 100)]
    records: usize,
    /// Seed of the choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    report: LoadReportArgs,
}

pub(super) fn run(args: &LookupLoadArgs) -> anyhow::Result<Exit> {
    let options = LookupLoadOptions {
        url: args.url.clone(),
        query: args.query.clone(),
        keys: match args.keys {
            _ if args.new => CacheKeys::New,
            1 => CacheKeys::One,
            count => CacheKeys::Zipf { count },
        },
        records: args.records,
        seed: args.seed,
    };
    let workload = LookupLoad::new(options).map_err(CommandFailure::usage)?;
    let target = LoadTarget {
        url: &args.url,
        service: "process with [lookup]",
        nothing: "no query was answered",
    };
    run_load(target, workload, &args.load, &args.report)
}
