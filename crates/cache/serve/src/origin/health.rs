//! The health of the origins of all routes, as all shards see it.

use std::time::Instant;

use cache_core::origin_health::{HealthChange, OriginHealth};
use tracing::{info, warn};

use crate::config::CacheRoutes;

/// The origins of all routes.
#[derive(Debug)]
pub(crate) struct OriginsHealth {
    /// In the order of the configuration.
    by_route: Vec<OriginHealth>,
    started: Instant,
}

impl OriginsHealth {
    /// All well.
    pub fn new(routes: &CacheRoutes) -> Self {
        let by_route = routes.all().iter().map(|route| OriginHealth::new(route.health)).collect();
        Self { by_route, started: Instant::now() }
    }

    /// By route.
    pub fn all(&self) -> &[OriginHealth] {
        &self.by_route
    }

    /// Whether a route's origin may be asked.
    pub fn admits(&self, route: usize) -> bool {
        self.by_route[route].admits(self.started.elapsed())
    }

    /// Counts whether the origin of the route with this name has answered.
    pub fn record(&self, route: usize, name: &str, is_answered: bool) {
        match self.by_route[route].record(is_answered, self.started.elapsed()) {
            Some(HealthChange::Down) => {
                warn!(route = name, "an origin does not answer, and is left alone");
            }
            Some(HealthChange::Up) => info!(route = name, "an origin answers again"),
            None => (),
        }
    }
}
