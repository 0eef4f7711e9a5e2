//! The `vickrey` command: parses arguments, starts services, and reports how they ended.
//!
//! `command/exit.rs` has the exit codes; docs/operating.md lists them.

mod cache;
mod campaign;
mod command;
mod config;
mod demo;
mod explain;
mod live;
mod log;
mod peers;
mod query;
mod serve;
mod simulate;

use clap::{CommandFactory as _, Parser, Subcommand};
use command::exit::{self, Exit};
use command::manual;

/// A real-time auction platform: takes OpenRTB 2.6 bid requests, calls demand-side platforms in
/// parallel under a hard deadline, clears the auction in integers, and responds.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "Start here:\n  vickrey demo                              an exchange, 50 DSPs and traffic, in one process\n  vickrey config default > vickrey.toml     a commented configuration\n  vickrey serve --config vickrey.toml       the exchange for real\n\nExit codes: 0 done, 1 objective missed or something found, 64 usage or configuration, 66 not found,\n69 unavailable, 70 defect of ours, 73 conflict, 75 stale version. docs/operating.md explains them."
)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the services in a configuration file until SIGINT or SIGTERM
    Serve(serve::ServeArgs),
    /// Check a configuration, or print the default one, its JSON Schema or its reference
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Explain one auction: which DSPs are called or skipped and why, every bid's fate, the
    /// arithmetic of prices, and who gets which notice
    Explain(explain::ExplainArgs),
    /// Run simulated DSPs for an exchange to call
    Dsp(peers::dsp::DspArgs),
    /// Run a simulated origin for a cache to stand in front of
    Origin(peers::origin::OriginArgs),
    /// Run simulated data providers, for look-ups to call
    Provider(peers::provider::ProviderArgs),
    /// Put load on a service and measure it
    #[command(subcommand)]
    Hammer(peers::hammer::HammerCommand),
    /// Read the record of an exchange: show, follow, count, verify, replay, report, export
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Try a budget on a stream of auctions: every strategy compared with the optimum of hindsight
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Show and change the campaigns of a running exchange; show what they spend, and why they do
    /// not
    #[command(subcommand)]
    Campaign(campaign::CampaignCommand),
    /// Show and change the accounts that pay for campaigns and seats
    #[command(subcommand)]
    Account(campaign::AccountCommand),
    /// List changes to the accounts and campaigns of a running exchange
    Audit(campaign::AuditArgs),
    /// Show what the HTTP cache of a running process holds, and purge it
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Ask many data providers one question
    Query(query::QueryArgs),
    /// Follow the live feed: auctions as they clear
    Watch(live::WatchArgs),
    /// Prepare access to the live floor
    #[command(subcommand)]
    Live(live::LiveCommand),
    /// Watch an exchange clear auctions among 50 simulated DSPs
    Demo(demo::DemoArgs),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS)]
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write one for every command
    Man(manual::ManArgs),
}

const COMPLETIONS: &str = "\
Examples:
  dir=~/.local/share/bash-completion/completions; mkdir -p $dir; vickrey completions bash > $dir/vickrey
  dir=~/.zfunc; mkdir -p $dir; vickrey completions zsh > $dir/_vickrey
  dir=~/.config/fish/completions; mkdir -p $dir; vickrey completions fish > $dir/vickrey.fish";

/// Commands without a result of their own: they run a service, or write a document in a format that
/// has a name.
#[cfg(test)]
const WITHOUT_JSON: [&str; 9] = [
    "vickrey live token",
    "vickrey serve",
    "vickrey config default",
    "vickrey config schema",
    "vickrey config reference",
    "vickrey simulate generate",
    "vickrey simulate extract",
    "vickrey completions",
    "vickrey man",
];

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; everything else is wrong usage.
            let usage = error.use_stderr();
            drop(error.print());
            return if usage { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let ended = match cli.command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Config(command) => config::run(&command),
        CliCommand::Explain(args) => explain::run(&args),
        CliCommand::Dsp(args) => peers::dsp::run(&args),
        CliCommand::Origin(args) => peers::origin::run(&args),
        CliCommand::Provider(args) => peers::provider::run(&args),
        CliCommand::Hammer(command) => peers::hammer::run(&command),
        CliCommand::Log(command) => log::run(&command),
        CliCommand::Simulate(command) => simulate::run(&command),
        CliCommand::Campaign(command) => campaign::run(&command),
        CliCommand::Account(command) => campaign::run_account(&command),
        CliCommand::Audit(args) => campaign::run_audit(None, &args),
        CliCommand::Cache(command) => cache::run(&command),
        CliCommand::Query(args) => query::run(&args),
        CliCommand::Watch(args) => live::run_watch(&args),
        CliCommand::Live(command) => live::run(&command),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Completions(args) => manual::completions(&args, Cli::command()),
        CliCommand::Man(args) => manual::man(&args, Cli::command()),
    };
    exit::code(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The leaf commands, with all of their names.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
        let mut below = command.get_subcommands().filter(|of| of.get_name() != "help").peekable();
        if below.peek().is_none() {
            found.push((path, command.clone()));
            return;
        }
        below.for_each(|of| leaves(of, &path, found));
    }

    #[test]
    fn every_command_that_prints_a_result_has_json() {
        let mut found = Vec::new();
        leaves(&Cli::command(), "", &mut found);
        assert!(found.len() > 25, "{}", found.len());
        for (path, command) in &found {
            let has = command.get_arguments().any(|arg| arg.get_long() == Some("json"));
            let is_listed = WITHOUT_JSON.contains(&path.as_str());
            assert!(has != is_listed, "{path}: either --json or a line in WITHOUT_JSON");
        }
        for listed in WITHOUT_JSON {
            assert!(found.iter().any(|(path, _)| path == listed), "there is no `{listed}`");
        }
    }
}
