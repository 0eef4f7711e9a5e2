//! Ping-pong on lots: every bidder answers every bid of another at once, on many lots. What the server
//! accepted, what its feed told and how each lot ended must be what the bids sent come to.

mod bidder;
mod check;
mod report;
mod run;
mod socket;

use std::net::SocketAddr;
use std::time::Duration;

use super::options::LiveLoadError;

pub use report::LotsLoadReport;
pub use run::{LotsLoadProgress, run};

/// One run.
#[derive(Clone, Debug)]
pub struct LotsLoadOptions {
    /// The live floor's address.
    pub address: SocketAddr,
    /// The token of an operator who may see the topic `lots`.
    pub operator: String,
    /// A token for each bidder. Bidders take turns in choosing a lot.
    pub bidders: Vec<String>,
    /// Number of lots.
    pub lots: usize,
    /// What their ids begin with.
    pub prefix: String,
    /// The currency of the bidders' accounts.
    pub currency: String,
    /// How long bidders bid.
    pub duration: Duration,
    /// Seed of the bids.
    pub seed: u64,
    /// The server's process on this machine, whose processor time is reported.
    pub server: Option<u32>,
}

impl LotsLoadOptions {
    fn check(&self) -> Result<(), LiveLoadError> {
        let missing = [
            (self.lots == 0, "at least one lot"),
            (self.bidders.len() < 2 * self.lots, "at least two bidders for each lot"),
            (self.duration.is_zero(), "a duration"),
        ];
        match missing.into_iter().find(|(is_missing, _)| *is_missing) {
            Some((_, what)) => Err(LiveLoadError::Options(what)),
            None => Ok(()),
        }
    }

    fn id(&self, lot: usize) -> String {
        format!("{}-{lot}", self.prefix)
    }
}

/// The price of the first bid, and how much more each must be, in cents per 1000 impressions.
const START_CENTS: u64 = 100;
const INCREMENT_CENTS: u64 = 1;

/// Cents as decimal text.
fn price_text(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Decimal text in whole cents. None for anything else.
fn parse_cents(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let cents = match fraction.len() {
        0 => 0,
        1 => fraction.parse::<u64>().ok()? * 10,
        2 => fraction.parse().ok()?,
        _ => return None,
    };
    Some(whole.parse::<u64>().ok()? * 100 + cents)
}
