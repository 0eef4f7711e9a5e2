//! The cost of deciding, reserving and settling in a shard, compared with two alternatives: bare
//! atomic counters, which are the minimum and have no reservations, and a map of reservations
//! behind a lock, the obvious implementation.
//!
//! Owns the command line, the load and the figures, one line of JSON each.

mod counters;
mod map;
mod shard;

use std::alloc::System;
use std::hint::black_box;
use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Nanoseconds of one core for each of decide, reserve and settle, over many campaigns in random
/// order with many open reservations.
#[derive(Clone, Parser)]
#[command(version)]
struct Options {
    /// Campaigns.
    #[arg(long, default_value_t = 10_000)]
    campaigns: u32,
    /// Open reservations during the run.
    #[arg(long, default_value_t = 16_384)]
    open: usize,
    /// Requests per round.
    #[arg(long, default_value_t = 4_000_000)]
    requests: usize,
    /// Rounds of each, in turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Requests between two readings of the clock.
const BATCH: usize = 1024;

/// An implementation of budgets.
trait Keeper {
    /// Identifies a reservation.
    type Reservation: Copy;

    /// The bid for a request; 0 for none.
    fn decide(&mut self, campaign: u32, request: u64) -> u64;

    /// Reserves an amount in nanos.
    fn reserve(&mut self, campaign: u32, amount: u64) -> Self::Reservation;

    /// Settles reservations at these prices.
    fn settle(&mut self, settlements: &[(Self::Reservation, u64)]);

    /// Lets time pass.
    fn pass(&mut self, time: Duration);

    /// The spend of all campaigns.
    fn spent(&self) -> u64;
}

/// Total time of each of the three operations.
#[derive(Default)]
struct Took {
    decide: Duration,
    reserve: Duration,
    settle: Duration,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.campaigns > 0, "--campaigns 0: at least one");
    ensure!(options.open > 0, "--open 0: at least one");
    ensure!(options.requests >= BATCH, "--requests {}: at least {BATCH}", options.requests);
    for round in 1..=options.rounds {
        say(round, "shard", &options, &mut shard::Shard::new(options.campaigns, options.open)?)?;
        say(round, "counters", &options, &mut counters::Counters::new(options.campaigns))?;
        say(round, "map", &options, &mut map::Map::new(options.campaigns))?;
    }
    Ok(())
}

fn say(round: usize, who: &str, options: &Options, keeper: &mut impl Keeper) -> Result<()> {
    let mut load = Load::new(options);
    // Warms up until the target number of reservations is open and all memory was touched.
    load.run(options.open + 4 * BATCH + 8 * cast(options.campaigns), keeper);
    let region = Region::new(ALLOCATOR);
    let (took, requests) = load.run(options.requests, keeper);
    let allocations = region.change().allocations;
    ensure!(keeper.spent() == load.spent, "{who} does not keep its books");
    let nanos =
        |time: Duration| (time.as_secs_f64() * 1e9 / requests as f64 * 100.0).round() / 100.0;
    let line = json!({
        "round": round,
        "who": who,
        "campaigns": options.campaigns,
        "open": options.open,
        "requests": requests,
        "decide_ns": nanos(took.decide),
        "reserve_ns": nanos(took.reserve),
        "settle_ns": nanos(took.settle),
        "allocations": allocations,
    });
    Ok(writeln!(stdout(), "{line}")?)
}

/// The load, identical for every keeper.
struct Load<R> {
    campaigns: u32,
    open: std::collections::VecDeque<(R, u64)>,
    open_max: usize,
    /// Those of a batch, with their prices.
    settlements: Vec<(R, u64)>,
    random: u64,
    spent: u64,
}

impl<R: Copy> Load<R> {
    fn new(options: &Options) -> Self {
        let open = std::collections::VecDeque::with_capacity(options.open + BATCH);
        let random = 0x9e37_79b9_7f4a_7c15;
        Self {
            campaigns: options.campaigns,
            open,
            open_max: options.open,
            settlements: Vec::with_capacity(2 * BATCH),
            random,
            spent: 0,
        }
    }

    /// Runs at least `requests` requests. Returns the times and the number of requests.
    fn run(&mut self, requests: usize, keeper: &mut impl Keeper<Reservation = R>) -> (Took, usize) {
        let mut took = Took::default();
        let mut coming = [(0_u32, 0_u64); BATCH];
        let mut decided = [0_u64; BATCH];
        let batches = requests.div_ceil(BATCH);
        for _ in 0..batches {
            for request in &mut coming {
                *request = self.request();
            }
            let begun = Instant::now();
            for ((campaign, request), price) in coming.iter().zip(&mut decided) {
                *price = black_box(keeper.decide(*campaign, *request));
            }
            took.decide += begun.elapsed();
            let begun = Instant::now();
            for ((campaign, _), price) in coming.iter().zip(&decided) {
                let reservation = keeper.reserve(*campaign, *price);
                self.open.push_back((reservation, *price));
            }
            took.reserve += begun.elapsed();
            let billed = self.open.len().saturating_sub(self.open_max);
            // At three quarters of their amounts.
            let paid = |(reservation, price): (R, u64)| (reservation, price - price / 4);
            self.settlements.clear();
            self.settlements.extend(self.open.drain(..billed).map(paid));
            self.spent += self.settlements.iter().map(|(_, paid)| paid).sum::<u64>();
            let begun = Instant::now();
            keeper.settle(&self.settlements);
            took.settle += begun.elapsed();
            keeper.pass(Duration::from_micros(BATCH as u64));
        }
        (took, batches * BATCH)
    }

    /// A request for a campaign in random order.
    fn request(&mut self) -> (u32, u64) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let campaign = self.random % u64::from(self.campaigns);
        (u32::try_from(campaign).expect("less than 32 bits"), self.random)
    }
}

fn cast(number: u32) -> usize {
    usize::try_from(number).expect("an index has 32 bits")
}
