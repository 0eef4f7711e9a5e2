//! `vickrey live token` and `vickrey watch`: the live floor, for people.

mod line;
mod watch;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use live_serve::{LiveClaims, sign_token};

use crate::command::exit::Exit;
use crate::config::signing_key;
use crate::peers::long_run::parse_duration;

pub(crate) use watch::{WatchArgs, run as run_watch};

#[derive(Debug, Subcommand)]
pub(crate) enum LiveCommand {
    /// Sign a token that lets a client in, with the first key of `[live]`, and print it
    Token(TokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The configuration file with `[[live.key]]`
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Who it is for: a name in logs and in published messages
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// A seat whose fates it may see: `dsp/seat`, or `dsp` for all seats of a DSP; repeatable
    #[arg(long = "seat", value_name = "SEAT")]
    seats: Vec<String>,
    /// A topic that it may see entirely, or `*` for all; repeatable
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// A topic to which it may publish, or `*` for all; repeatable
    #[arg(long = "publish", value_name = "TOPIC")]
    publish: Vec<String>,
    /// As whom it may bid for lots: `dsp/seat`; needs --account
    #[arg(long, value_name = "SEAT", requires = "account")]
    bidder: Option<String>,
    /// The account that pays for its bids
    #[arg(long, value_name = "ACCOUNT", requires = "bidder")]
    account: Option<String>,
    /// It may create lots, and open, extend, close and cancel them
    #[arg(long)]
    operator: bool,
    /// How long it is valid: for example 15m, 24h
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    expires: Duration,
}

pub(crate) fn run(command: &LiveCommand) -> anyhow::Result<Exit> {
    let LiveCommand::Token(args) = command;
    let key = signing_key(&args.config)?;
    let TokenArgs { subject, seats, topics, publish, expires, bidder, account, operator, .. } =
        args;
    let claims = LiveClaims {
        sub: subject.clone(),
        seats: seats.clone(),
        topics: topics.clone(),
        publish: publish.clone(),
        bidder: bidder.clone(),
        account: account.clone(),
        operator: *operator,
        ..LiveClaims::default()
    };
    let token = sign_token(&key, claims, *expires)?;
    writeln!(std::io::stdout(), "{token}")?;
    Ok(Exit::Done)
}
