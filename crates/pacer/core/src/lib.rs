//! The rules of budgets: who may spend what, when, and at what price. Integers and given times only:
//! no socket, no clock, no thread.
//!
//! The **ledger** holds the rights of every account and campaign, and leases them, durably, before
//! they are used. A **shard** spends slices of these leases: reserves, and settles, releases or lets
//! expire each reservation once. A **strategy** says how fast, and at what price;
//! **pacing** asks the strategy of every campaign when its slot of time is over. **Definitions** of accounts
//! and campaigns are read and compared by rules of their own.

pub mod calendar;
pub mod definitions;
mod encoding;
pub mod funnel;
pub mod ledger;
pub mod messages;
pub mod pacing;
pub mod refusal;
pub mod shard;
pub mod store;
pub mod strategy;
