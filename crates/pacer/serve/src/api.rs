//! Accounts and campaigns over the admin listener: create, read, change, pause, budget; what they
//! spend, how they follow their targets, and why they do not spend.
//!
//! Owns paths, statuses and the forms of answers. What may be changed is the registry's, whatever a
//! campaign shows.

mod asked;
mod cause;
mod definitions;
mod exchange;
mod funnel;
mod handlers;
mod pace;
mod routes;
mod shown;
mod spend_cause;
#[cfg(test)]
mod tests;
mod why;

use std::sync::Arc;

use runtime::admin::Api;

use crate::registry::{CampaignRules, Registry};
pub use exchange::{ExchangeView, Mismatches};
use handlers::BudgetApi;
use routes::routes;

/// Most that is read of a body: a campaign with its creatives.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Answers for the accounts and campaigns of `registry`, whose budgets `exchange` spends.
pub fn api<R: CampaignRules>(registry: Arc<Registry<R>>, exchange: Arc<dyn ExchangeView>) -> Api {
    Api::new(BudgetApi { registry, exchange }, routes()).with_bodies(BODY_BYTES_MAX)
}

/// Answers where no budgets are configured: says so, and how to switch them on.
pub fn unconfigured<R: CampaignRules>() -> Api {
    let message = "budgets are off: add [budgets], with its `directory`, to the configuration file and \
                   restart; it needs [record] and [exchange.notices] too";
    Api::unconfigured(routes::<R>(), message).with_bodies(BODY_BYTES_MAX)
}
