//! What happens to the records of an answer: the conditions that no provider took, and the stages behind
//! `|`.

mod aggregates;
mod comparisons;
mod stages;

#[cfg(test)]
mod tests;

pub use aggregates::AggregateValue;
pub use comparisons::{holds, satisfies};
pub use stages::{PipeResult, retain, retain_rows, run};
