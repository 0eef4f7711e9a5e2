//! When calls are made: for each provider and instance, a lane decides which call is next, how many run
//! at a time, and which are made again.

mod breaker;
mod lane;
mod limit;
mod queue;
mod rate;
mod retry;

#[cfg(test)]
mod tests;

pub use lane::{
    AttemptEnd, AttemptOutcome, AttemptPermit, CallRefusal, LaneStatus, ProviderLane,
    ProviderLaneOptions, StartedCall,
};
pub use queue::{CallClass, CallNumber, LookupUser, QueuedCall};
