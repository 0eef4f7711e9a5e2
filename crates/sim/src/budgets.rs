//! Simulation of budgets under faults: the production code of shards, ledger and tokens, with a
//! store that answers late or not at all, a log that loses unsynced records, exchanges that send
//! notices late, twice or altered, a network between them and the process that loses notices and
//! acknowledgements, crashes, and clocks that jump.
//!
//! A [`BudgetScenario`] is drawn from a seed and describes a run; [`run`] executes it. An observer
//! with books of its own checks every invariant after each step.

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

pub use options::{BudgetScenario, Manners, Weather};
pub use zone::{EVES, SimZone, ZONES};

use trace::BudgetTrace;
use world::BudgetWorld;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// Hash of every message and outcome.
    pub hash: u64,
    /// Number of reservations.
    pub reserved: u64,
    /// Number of reservations won.
    pub won: u64,
    /// The trace, if it was kept.
    pub lines: Vec<String>,
    /// The violated invariant. None if the run passed.
    pub problem: Option<String>,
}

/// The command that repeats a run.
pub fn command(seed: u64) -> String {
    format!("cargo run -p sim --example budgets -- --seed {seed:#x} --trace")
}

/// Runs a scenario on this thread.
pub fn run(options: &BudgetScenario, keeps_lines: bool) -> RunOutcome {
    let mut trace = BudgetTrace::new(keeps_lines);
    let (mut reserved, mut won) = (0, 0);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = BudgetWorld::new(options, &mut trace);
        world.run();
        world.heal();
        (reserved, won) = (world.observer.made, world.observer.won);
    }));
    let problem = ended.err().map(|panic| text_of(&*panic));
    RunOutcome { hash: trace.hash(), reserved, won, lines: trace.into_lines(), problem }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "it ended without a word".to_owned())
}
