//! What operators see of the cache and do with it: metrics and the admin API.

pub(crate) mod api;
pub(crate) mod metrics;
