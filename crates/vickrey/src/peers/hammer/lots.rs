//! `vickrey hammer lots`: bidders who outbid each other.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use live_serve::{LiveClaims, sign_token};
use runtime::process::{raise_descriptor_limit, unix_ms};
use testbed::live::lots::{self, LotsLoadOptions};

use crate::command::exit::Exit;
use crate::command::output_file;
use crate::config::signing_key;
use crate::peers::long_run::{millis, parse_duration, progress_bar, stop_on_signal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  vickrey hammer lots --config lots.toml --account acme --account globex
  vickrey hammer lots --config lots.toml --account acme --bidders 1000 --lots 100 --duration 30s

It creates lots, lets every bidder answer every bid of another at once, closes the lots, and
charges the winners: use accounts for tests. It exits 1 if a bid is refused without a good reason,
or if a price, a number, the feed or a winner is wrong. The server's
`runtime.connections_per_caller_max` must allow two connections more than there are bidders.";

/// Bidders send the next bid as soon as they hear of the one that beats them.
#[derive(Debug, Args)]
pub(crate) struct LotsArgs {
    /// Address of the live floor
    #[arg(long, default_value = "127.0.0.1:7200")]
    address: SocketAddr,
    /// The server's configuration file, with whose `[[live.key]]` tokens are signed
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// An account that pays for bids; repeatable: bidders take turns
    #[arg(long = "account", value_name = "ACCOUNT", required = true)]
    accounts: Vec<String>,
    /// The currency of the accounts
    #[arg(long, default_value = "USD")]
    currency: String,
    /// Number of bidders, at least two for each lot
    #[arg(long, default_value_t = 100)]
    bidders: usize,
    /// Number of lots
    #[arg(long, default_value_t = 10)]
    lots: usize,
    /// How long to bid
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Seed of the bids
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Process of the server, if it runs here: reports its processor time
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Validity of tokens beyond the run.
const TOKEN_SLACK: Duration = Duration::from_secs(600);

impl LotsArgs {
    fn options(&self) -> anyhow::Result<LotsLoadOptions> {
        let key = signing_key(&self.config)?;
        let lifetime = self.duration + TOKEN_SLACK;
        let sign = |claims| sign_token(&key, claims, lifetime);
        let operator = LiveClaims {
            sub: "hammer".to_owned(),
            topics: vec!["lots".to_owned()],
            operator: true,
            ..LiveClaims::default()
        };
        let accounts = self.accounts.iter().cycle();
        let bidders = (0..self.bidders).zip(accounts).map(|(number, account)| {
            sign(LiveClaims {
                sub: format!("hammer-{number}"),
                bidder: Some(format!("hammer/{number}")),
                account: Some(account.clone()),
                ..LiveClaims::default()
            })
        });
        Ok(LotsLoadOptions {
            address: self.address,
            operator: sign(operator)?,
            bidders: bidders.collect::<Result<_, _>>()?,
            lots: self.lots,
            // Ids are not used again.
            prefix: format!("hammer-{}", unix_ms()),
            currency: self.currency.clone(),
            duration: self.duration,
            seed: self.seed,
            server: self.server,
        })
    }
}

pub(super) fn run(args: &LotsArgs) -> anyhow::Result<Exit> {
    raise_descriptor_limit();
    args.json.as_deref().map_or(Ok(()), output_file::check)?;
    let options = args.options()?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let bar = progress_bar(Some(millis(args.duration)), "{bar:30} {percent:>3}% {msg}");
    let report = lots::run(&options, &stop, &mut |progress| {
        bar.set_position(millis(progress.elapsed));
        bar.set_message(format!("{} bids accepted", progress.accepted));
    });
    drop(bar);
    let report = report.map_err(super::live::load_failure)?;
    let mut out = std::io::stdout().lock();
    write!(out, "{report}")?;
    if let Some(file) = &args.json {
        output_file::write_text(file, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    if report.accepted == 0 {
        writeln!(out, "MISSED           no bid was accepted")?;
    }
    let is_right = report.problems.is_empty() && report.accepted > 0;
    Ok(if is_right { Exit::Done } else { Exit::Missed })
}
