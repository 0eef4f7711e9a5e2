//! `vickrey hammer cache`: GET requests to a cache in front of `vickrey origin`.

use clap::{Args, ValueEnum};
use testbed::cache::{CacheKeys, CacheLoad, CacheLoadOptions};

use super::load::{LoadArgs, LoadReportArgs, LoadTarget, run_load};
use crate::command::exit::{CommandFailure, Exit};

pub(super) const EXAMPLES: &str = "\
Examples:
  vickrey hammer cache --rate 10000 --duration 10s              one hot URL, again and again
  vickrey hammer cache --keys 10000 --in-flight 64              by Zipf's law
  vickrey hammer cache --keys 100000 --order scan               one after the other
  vickrey hammer cache --order new --rate 500                   misses alone

The origin behind the cache must be `vickrey origin`, whose bodies say which URL they are of: each is
checked. It exits 1 if nothing was answered or an objective was missed.";

/// The order in which URLs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeyOrder {
    /// By Zipf's law: the nth 1/n as often as the first
    Zipf,
    /// One after the other, and again
    Scan,
    /// Each once
    New,
}

/// Latency counts from the time at which a request was intended to be sent, so a stalled cache cannot
/// hide its own delay.
#[derive(Debug, Args)]
pub(crate) struct CacheLoadArgs {
    /// Beginning of the URLs; a number follows
    #[arg(long, default_value = "http://127.0.0.1:7300/")]
    url: String,
    /// Host of the requests [default: the URL's]
    #[arg(long)]
    host: Option<String>,
    /// How many different URLs
    #[arg(long, default_value_t = 1)]
    keys: usize,
    /// In which order they are asked for
    #[arg(long, value_enum, default_value_t = KeyOrder::Zipf)]
    order: KeyOrder,
    /// Size of each body, in bytes
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Send this header field, with values from 0; the origin must vary by it
    #[arg(long, value_name = "FIELD", requires = "variants")]
    vary: Option<String>,
    /// How many values
    #[arg(long, value_name = "N", requires = "vary")]
    variants: Option<usize>,
    /// Seed of the choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    report: LoadReportArgs,
}

pub(super) fn run(args: &CacheLoadArgs) -> anyhow::Result<Exit> {
    let count = args.keys;
    let options = CacheLoadOptions {
        url: args.url.clone(),
        host: args.host.clone(),
        keys: match args.order {
            KeyOrder::Zipf if count == 1 => CacheKeys::One,
            KeyOrder::Zipf => CacheKeys::Zipf { count },
            KeyOrder::Scan => CacheKeys::Scan { count },
            KeyOrder::New => CacheKeys::New,
        },
        bytes: args.bytes,
        vary: args.vary.clone().zip(args.variants),
        seed: args.seed,
    };
    let workload = CacheLoad::new(options).map_err(CommandFailure::usage)?;
    let target = LoadTarget { url: &args.url, service: "cache", nothing: "nothing was served" };
    run_load(target, workload, &args.load, &args.report)
}
