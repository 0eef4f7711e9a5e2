//! The configuration file as a whole, and the `vickrey config` commands.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use exchange_serve::ExchangeConfig;
use runtime::admin::AdminOptions;
use runtime::config::{Section, default_toml, describe, json_schema, ms, reference_markdown, secs};
use runtime::logging::LoggingOptions;
use runtime::shards::ShardsOptions;

use crate::exit::{Exit, Failure};

/// Everything in `vickrey.toml`.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) shards: ShardsOptions,
    /// Longest drain after the first signal.
    pub(crate) drain: Duration,
    pub(crate) admin: AdminOptions,
    pub(crate) logging: LoggingOptions,
    /// `None`: the service is off.
    pub(crate) exchange: Option<ExchangeConfig>,
}

impl Config {
    /// Declares and reads the whole file.
    pub(crate) fn read(s: &mut Section<'_>) -> Self {
        let (shards, drain) = s.section("runtime", "Threads and the end of the process.", |s| {
            let drain = s.duration(
                "drain",
                "10s",
                ms(0)..=secs(3600),
                "Longest wait for what is under way after the first signal; a second one ends it.",
            );
            (ShardsOptions::read(s), drain)
        });
        let admin = s.section("admin", "Health and metrics.", AdminOptions::read);
        let logging = s.section("log", "Log lines, on stderr.", LoggingOptions::read);
        let exchange = ExchangeConfig::read(s);
        Self { shards, drain, admin, logging, exchange }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a file and report everything that is wrong with it; exits 64 if anything is
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print a commented configuration with every key at its default
    Default,
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print the reference of all keys as Markdown
    Reference,
}

pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match command {
        ConfigCommand::Check { file } => {
            let config = runtime::config::load(file, Config::read).map_err(Failure::usage)?;
            let exchange = match &config.exchange {
                Some(exchange) => format!("exchange with {} DSPs", exchange.market.dsps.len()),
                None => "no service".to_owned(),
            };
            writeln!(out, "{}: no problems; {exchange}", file.display())?;
        }
        ConfigCommand::Default => write!(out, "{}", default_toml(&describe(Config::read)))?,
        ConfigCommand::Schema => {
            let schema = json_schema(&describe(Config::read));
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
        ConfigCommand::Reference => {
            write!(out, "{}", reference_markdown(&describe(Config::read)))?;
        }
    }
    Ok(Exit::Done)
}
