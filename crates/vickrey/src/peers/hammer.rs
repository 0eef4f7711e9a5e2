//! `vickrey hammer`: puts load on a service and measures it.

mod cache;
mod exchange;
mod live;
mod load;
mod lookup;
mod lots;
mod pacer;

use clap::Subcommand;

use crate::command::exit::Exit;

#[derive(Debug, Subcommand)]
pub(crate) enum HammerCommand {
    /// Post bid requests to an exchange, and report its answers and their latency
    #[command(after_help = exchange::EXAMPLES)]
    Exchange(exchange::ExchangeArgs),
    /// Send batches of bid requests to a pacer, settle what they win, and report its decisions and
    /// their latency
    #[command(after_help = pacer::EXAMPLES)]
    Pacer(pacer::PacerArgs),
    /// Subscribe to a live floor in many ways and publish to it, and report what arrived, how late,
    /// and what it cost the server
    #[command(after_help = live::EXAMPLES)]
    Live(live::LiveArgs),
    /// Ask a cache for what a simulated origin has, and check every body
    #[command(after_help = cache::EXAMPLES)]
    Cache(cache::CacheLoadArgs),
    /// Send queries to a process with look-ups, and report what they came to and their latency
    #[command(after_help = lookup::EXAMPLES)]
    Lookup(lookup::LookupLoadArgs),
    /// Let bidders outbid each other on lots of a live floor, and check every price, number and winner
    #[command(after_help = lots::EXAMPLES)]
    Lots(lots::LotsArgs),
}

pub(crate) fn run(command: &HammerCommand) -> anyhow::Result<Exit> {
    match command {
        HammerCommand::Exchange(args) => exchange::run(args),
        HammerCommand::Pacer(args) => pacer::run(args),
        HammerCommand::Live(args) => live::run(args),
        HammerCommand::Cache(args) => cache::run(args),
        HammerCommand::Lookup(args) => lookup::run(args),
        HammerCommand::Lots(args) => lots::run(args),
    }
}
