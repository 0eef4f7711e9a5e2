//! `vickrey cache`: the HTTP cache of a running process, for people.
//!
//! Owns the command line and the requests. `show` knows the forms of the answers.

mod show;

use std::io::{self, Write};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::command::args::ApiArgs;
use crate::command::client::{ApiClient, ApiRefusal, encoded};
use crate::command::exit::Exit;
use crate::command::table::print_json;

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show how much is stored, and the counts of each route
    Stat {
        #[command(flatten)]
        asking: ApiArgs,
    },
    /// Show what is stored for a URL: its variants, their ages and header fields
    Get {
        /// The URL, as clients ask for it
        url: String,
        #[command(flatten)]
        asking: ApiArgs,
    },
    /// Purge: what it concerns is not served any more once the command ends
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),
    /// Show the URLs that are asked for most
    Hot {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        count: usize,
        #[command(flatten)]
        asking: ApiArgs,
    },
}

const PURGE_EXAMPLES: &str = "\
Examples:
  vickrey cache purge http://cdn.example/banner.png     one URL, with its variants
  vickrey cache purge --prefix http://cdn.example/vast/ all below a path
  vickrey cache purge --surrogate-key creative/17       what the origin has so named (Surrogate-Key)
  vickrey cache purge --soft --all                      ask the origin again, about everything";

#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    targets: PurgeTargets,
    /// Keep what is stored as stale: the origin may find it valid, and stale-while-revalidate and
    /// stale-if-error apply
    #[arg(long)]
    soft: bool,
    #[command(flatten)]
    asking: ApiArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct PurgeTargets {
    /// URLs, as clients ask for them
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// URLs that begin so, with scheme and host; repeatable
    #[arg(long = "prefix", value_name = "URL")]
    prefixes: Vec<String>,
    /// A name in the Surrogate-Key of responses; repeatable
    #[arg(long = "surrogate-key", value_name = "NAME")]
    surrogate_keys: Vec<String>,
    /// Everything
    #[arg(long)]
    all: bool,
}

impl PurgeTargets {
    /// What each request says, in the order of its type.
    fn bodies(&self) -> Vec<Value> {
        let of = |key: &'static str, values: &[String]| {
            values.iter().map(|value| json!({ key: value })).collect::<Vec<_>>()
        };
        let all = self.all.then(|| json!({ "all": true }));
        let urls = of("url", &self.urls).into_iter();
        let prefixes = of("prefix", &self.prefixes);
        let named = of("surrogate_key", &self.surrogate_keys);
        urls.chain(prefixes).chain(named).chain(all).collect()
    }
}

pub(crate) fn run(command: &CacheCommand) -> anyhow::Result<Exit> {
    let out = &mut io::stdout().lock();
    match command {
        CacheCommand::Stat { asking } => ask(asking, "/v1/cache", show::stat, out),
        CacheCommand::Get { url, asking } => {
            ask(asking, &format!("/v1/cache/resource?url={}", encoded(url)), show::resource, out)
        }
        CacheCommand::Hot { count, asking } => {
            ask(asking, &format!("/v1/cache/hot?count={count}"), show::hot, out)
        }
        CacheCommand::Purge(args) => purge(args, out),
    }
}

fn ask(
    asking: &ApiArgs,
    path: &str,
    show: fn(&Value, &mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let answer = ApiClient::new(asking)?.get(path)?;
    if asking.json {
        return print_json(&answer, out);
    }
    show(&answer, out)?;
    Ok(Exit::Done)
}

fn purge(
    PurgeArgs { targets, soft, asking }: &PurgeArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let client = ApiClient::new(asking)?;
    let mut purged = Vec::new();
    for mut body in targets.bodies() {
        body["soft"] = json!(soft);
        let answer = client.ask("POST", "/v1/cache/purges", &[], Some(&body))?;
        // Those before it are in force, and are printed already.
        let answer = answer.map_err(ApiRefusal::into_failure)?;
        if asking.json {
            body["responses"] = answer["responses"].clone();
            purged.push(body);
        } else {
            show::purged(&body, &answer, out)?;
        }
    }
    if asking.json {
        return print_json(&json!({ "purges": purged }), out);
    }
    Ok(Exit::Done)
}
