//! The rules of budgets: who may spend what, when, and at what price. Integers and given times only:
//! no socket, no clock, no thread.
//!
//! The **ledger** holds the rights of every account and campaign, and leases them, durably, before
//! they are used. A **shard** spends slices of these leases: reserves, and settles, releases or lets
//! expire each reservation once. A **strategy** says how fast, and at what price.

pub mod calendar;
pub mod ledger;
pub mod messages;
pub mod refusal;
pub mod shard;
pub mod store;
pub mod strategy;
pub mod token;
