//! Accounts and campaigns over the admin listener. Owns paths, statuses and JSON forms; the
//! registry decides what may be changed.

mod cause;
mod definitions;
mod exchange;
mod funnel;
mod handlers;
mod pace;
mod request;
mod routes;
mod shown;
mod spend_cause;
#[cfg(test)]
mod tests;
mod why;

use std::sync::Arc;

use runtime::admin::Api;

use crate::registry::{CampaignRules, Registry};
pub use exchange::{ExchangeSlot, ExchangeView, Mismatches};
use handlers::BudgetApi;
use routes::routes;

/// Largest body: a campaign with its creatives.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The API of a registry, whose budgets `exchange` spends.
pub fn api<R: CampaignRules>(registry: Arc<Registry<R>>, exchange: ExchangeSlot) -> Api {
    Api::new(BudgetApi { registry, exchange }, routes()).with_bodies(BODY_BYTES_MAX)
}

/// The API without budgets: says how to configure them.
pub fn unconfigured<R: CampaignRules>() -> Api {
    let message = "budgets are off: add [budgets], with its `directory`, to the configuration file and \
                   restart; it needs [record] and [exchange.notices] too";
    Api::unconfigured(routes::<R>(), message).with_bodies(BODY_BYTES_MAX)
}
