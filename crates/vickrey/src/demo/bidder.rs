//! The simulated bidder of both demos, and the campaign that it spends beside the exchange.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use testbed::pacer::{PacerLoadOptions, PacerLoadProgress};
use units::{Nanos, Ppm};

use super::args::DemoArgs;
use super::format::{decimal, utc};
use crate::command::exit::{CommandFailure, Exit};
use crate::config::budgets::{CampaignBudgets, standing};

/// Its id and its secret at the pacer.
pub(super) const CLIENT: &str = "bidder";
/// Its account and its campaign beside the exchange.
pub(super) const CAMPAIGN: &str = "bidder";
/// Bid requests per second that it asks about beside the exchange.
pub(super) const RATE_PER_S: u64 = 2_000;

/// Longest wait for the ledger to take the last wins.
const BOOKS_PATIENCE: Duration = Duration::from_secs(10);
/// Share of authorised bids that win; the others are reported as lost.
const WON: Ppm = Ppm::new(100_000).expect("a share");
const BIDDABLE: Ppm = Ppm::new(300_000).expect("a share");
/// What a win costs on average, in nanos: the middle of the testbed's values, less a quarter.
const WIN_NANOS: u64 = 2_250_000;

/// What all wins of a run could cost, in nanos.
pub(super) fn cost_of_wins(duration: Duration, rate_per_s: u64) -> u64 {
    let requests = duration.as_secs().max(1).saturating_mul(rate_per_s);
    let share = |whole: u64, ppm: Ppm| whole / 1000 * u64::from(ppm.get()) / 1000;
    share(share(requests, BIDDABLE), WON).saturating_mul(WIN_NANOS)
}

/// Its load on a pacer.
pub(super) fn load(
    address: SocketAddr,
    rate_per_s: u64,
    duration: Duration,
    seed: u64,
) -> PacerLoadOptions {
    PacerLoadOptions {
        address,
        client: CLIENT.to_owned(),
        secret: CLIENT.to_owned(),
        connections: 1,
        depth: 4,
        batch: 10,
        candidates: 1,
        biddable: BIDDABLE,
        won: WON,
        lost: Ppm::ONE,
        rate: Some(rate_per_s),
        deadline: Duration::from_millis(100),
        warm_up: Duration::ZERO,
        duration,
        seed,
        core: None,
    }
}

/// Progress in a line; the rate is that since `last`.
pub(super) fn brief(now: &PacerLoadProgress, last: Option<&PacerLoadProgress>) -> String {
    let (before, since) = last.map_or((0, Duration::ZERO), |last| (last.requests, last.elapsed));
    let millis = (now.elapsed.saturating_sub(since)).as_millis().max(1);
    let rate = u128::from(now.requests - before) * 1000 / millis;
    let authorised = u128::from(now.authorised) * 100 / u128::from(now.requests.max(1));
    let latency = &now.latency_us;
    let billed = u64::try_from(now.billed_nanos).unwrap_or(u64::MAX);
    format!(
        "{rate} decisions/s  {authorised} % authorised  batches p50 {} us p99 {} us p99.9 {} us  billed {} USD",
        latency.p50,
        latency.p99,
        latency.p999,
        decimal(billed, 9)
    )
}

/// What the ledger has spent on these campaigns, once it is what was billed, or after a while.
pub(super) fn await_books(budgets: &CampaignBudgets, ids: &[&str], billed: u128) -> u128 {
    let until = Instant::now() + BOOKS_PATIENCE;
    loop {
        let of = |id: &&str| u128::from(standing(budgets, id).0.unwrap_or(Nanos::ZERO).get());
        let spent = ids.iter().map(of).sum();
        if spent == billed || until <= Instant::now() {
            return spent;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Fails unless ledger and bidder agree.
pub(super) fn compare(spent: u128, billed: u128) -> anyhow::Result<()> {
    if spent == billed {
        return Ok(());
    }
    let message = format!("the ledger has spent {spent} nanos, and the bidder was billed {billed}");
    Err(CommandFailure::with_exit(Exit::Missed, anyhow::anyhow!(message)))
}

/// Budget of its campaign beside the exchange: it ends before the demo.
pub(super) fn budget(args: &DemoArgs) -> Nanos {
    Nanos::new(cost_of_wins(args.duration, RATE_PER_S) / 100 * 60)
}

/// Defines its account and its campaign beside the exchange.
pub(super) fn define(folder: &Path, args: &DemoArgs) -> io::Result<()> {
    let now = SystemTime::now();
    let (start, end) = (utc(now), utc(now + args.duration + Duration::from_secs(2)));
    let budget = decimal(budget(args).get(), 9);
    let text = format!(
        "[[account]]\nid = \"{CLIENT}\"\ncurrency = \"USD\"\n\n\
         [[campaign]]\nid = \"{CAMPAIGN}\"\naccount = \"{CLIENT}\"\nstart = \"{start}\"\nend = \"{end}\"\n\
         budget = \"{budget}\"\nstrategy = {{ name = \"even\" }}\n"
    );
    std::fs::write(folder.join("bidder.toml"), text)
}
