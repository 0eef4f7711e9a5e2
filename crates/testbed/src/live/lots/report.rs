//! What a ping-pong measured, for people and for machines.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::LotsLoadOptions;
use super::bidder::BidCounts;
use crate::load::Quantiles;

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LotsLoadReport {
    /// The live floor's address.
    pub target: String,
    /// How long bidders bid, in seconds.
    pub duration_s: f64,
    /// Number of bidders.
    pub bidders: usize,
    /// Number of lots.
    pub lots: usize,
    /// Bids that were accepted. All were durable then.
    pub accepted: u64,
    /// Per second.
    pub accepted_per_s: u64,
    /// Bids that were refused because others were faster.
    pub outrun: u64,
    /// Bids that were refused because the server was busy.
    pub busy: u64,
    /// From the sending of a bid to its acceptance, in microseconds.
    pub latency_us: Quantiles,
    /// Processor time of the server, in microseconds, if its process is known.
    pub server_cpu_us: Option<u64>,
    /// Whether prices, numbers, feed and winners were compared. Not if the run was stopped: bidders had
    /// not heard all answers.
    pub is_checked: bool,
    /// What is wrong: refusals without a good reason, prices, numbers, what the feed told, winners.
    pub problems: Vec<String>,
}

impl LotsLoadReport {
    pub(super) fn of(
        options: &LotsLoadOptions,
        counts: &mut BidCounts,
        elapsed: Duration,
        server_cpu_us: Option<u64>,
        is_checked: bool,
    ) -> Self {
        let accepted = counts.accepted.iter().map(|lot| lot.len() as u64).sum();
        let per_s = u128::from(accepted) * 1_000_000 / elapsed.as_micros().max(1);
        Self {
            target: options.address.to_string(),
            duration_s: elapsed.as_secs_f64(),
            bidders: options.bidders.len(),
            lots: options.lots,
            accepted,
            accepted_per_s: u64::try_from(per_s).unwrap_or(u64::MAX),
            outrun: counts.outrun,
            busy: counts.busy,
            latency_us: Quantiles::of(&counts.latency_us),
            server_cpu_us,
            is_checked,
            problems: std::mem::take(&mut counts.problems),
        }
    }
}

/// Problems that are printed.
const PROBLEMS_SHOWN: usize = 10;

impl fmt::Display for LotsLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bidders, lots, accepted, accepted_per_s, outrun, busy, .. } = self;
        writeln!(f, "target           {}", self.target)?;
        writeln!(f, "floor            {bidders} bidders on {lots} lots, {:.1} s", self.duration_s)?;
        writeln!(f, "accepted         {accepted}, {accepted_per_s} per second")?;
        writeln!(
            f,
            "refused          {outrun} outrun by others, {busy} while the server was busy"
        )?;
        let Quantiles { p50, p99, p999, max, .. } = self.latency_us;
        writeln!(f, "latency          p50 {p50} us, p99 {p99} us, p99.9 {p999} us, max {max} us")?;
        if let Some(cpu_us) = self.server_cpu_us {
            writeln!(f, "server           {} ms of processor time", cpu_us / 1000)?;
        }
        let checked = if self.is_checked { "" } else { "; not compared, because it was stopped" };
        writeln!(f, "books            {} problems{checked}", self.problems.len())?;
        for problem in self.problems.iter().take(PROBLEMS_SHOWN) {
            writeln!(f, "                 {problem}")?;
        }
        Ok(())
    }
}
