//! The rules of budgets: who may spend what, when, and at what price. They use integers and given
//! times: no socket, no clock, no thread.
//!
//! The **ledger** owns the budgets of all accounts and campaigns, and leases them durably before
//! use. A **shard** spends slices of these leases: it reserves, then settles, releases or expires
//! each reservation once. A **strategy** decides how fast, and at what price; **pacing** runs each
//! campaign's strategy at the end of its slot. **Definitions** of accounts and campaigns are parsed
//! and compared by their own rules.

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
