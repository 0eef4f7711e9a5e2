//! Plans: which calls answer a query, in which order, and about how many there will be.

mod planner;
mod rejection;
mod shown;
mod step;

#[cfg(test)]
mod tests;

pub use planner::plan;
pub use rejection::{PlanError, RejectedCall, Rejection};
pub use shown::{PlanView, to_json};
pub use step::{Plan, PlanStep, PlannedFetch};
