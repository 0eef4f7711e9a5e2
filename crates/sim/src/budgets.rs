//! Money under faults: shards, ledger and the code of tokens as they are in production, with a store
//! that answers late or not at all, a log that loses what it has not written, exchanges that tell what
//! they like, crashes, and clocks that jump.
//!
//! [`BudgetScenario`] follow from a seed and say what happens; [`run`] lets it happen, while an observer of its
//! own bookkeeping asserts after every step what must hold. [`BudgetBug`]s are planted to prove that it would
//! find them.

mod bug;
mod clock;
mod exchange;
mod log;
mod observer;
mod operator;
mod options;
mod places;
mod trace;
mod world;
mod zone;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pacer_core::{ledger, shard};

pub use bug::{BudgetBug, Wiring};
pub use options::{BudgetScenario, Manners, Weather};
pub use zone::{EVES, SimZone, ZONES};

use trace::BudgetTrace;
use world::BudgetWorld;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// Of every message and outcome.
    pub hash: u64,
    /// How many reservations were made, and won.
    pub reserved: u64,
    /// Of those.
    pub won: u64,
    /// What happened, if it was to be kept.
    pub lines: Vec<String>,
    /// What did not hold, if anything.
    pub problem: Option<String>,
}

/// How a run is repeated.
pub fn command(seed: u64) -> String {
    format!("cargo run -p sim --example budgets -- --seed {seed:#x} --trace")
}

/// Lets a run happen, with a mistake or without, on this thread.
pub fn run(options: &BudgetScenario, bug: Option<BudgetBug>, keeps_lines: bool) -> RunOutcome {
    shard::bug::plant(match bug {
        Some(BudgetBug::Shard(bug)) => Some(bug),
        _ => None,
    });
    ledger::plant(match bug {
        Some(BudgetBug::Ledger(bug)) => Some(bug),
        _ => None,
    });
    let mut trace = BudgetTrace::new(keeps_lines);
    let (mut reserved, mut won) = (0, 0);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = BudgetWorld::new(options, bug, &mut trace);
        world.run();
        world.heal();
        (reserved, won) = (world.observer.made, world.observer.won);
    }));
    shard::bug::plant(None);
    ledger::plant(None);
    let problem = ended.err().map(|panic| text_of(&*panic));
    RunOutcome { hash: trace.hash(), reserved, won, lines: trace.into_lines(), problem }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it ended without a word".to_owned())
}
