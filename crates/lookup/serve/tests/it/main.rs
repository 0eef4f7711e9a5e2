//! Look-ups over HTTP, of simulated providers.

mod answers;
mod bad_input;
mod caching;
mod das;
mod faults;
mod fixtures;
mod limits;
