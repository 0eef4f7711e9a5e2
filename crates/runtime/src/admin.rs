//! The admin listener: health, metrics and the operators' API. It runs on the control thread, so it
//! answers while the shards are busy.
//!
//! It must not know any service: services add metrics to the
//! [`Exposition`](crate::metrics::Exposition), checks to the [`Readiness`], and [`Api`]s with their
//! routes.
//!
//! | request | response |
//! |---|---|
//! | `GET /health/live` | 200 as long as the process answers |
//! | `GET /health/ready` | 200 when every check holds; 503 before, and while draining |
//! | `GET /metrics` | 200, OpenMetrics or Prometheus text, by `accept` |
//! | others | as the [`Api`]s define; errors as JSON, [`ErrorCode`] |
//!
//! With a token, everything but health requires it. Without one, the listener is on loopback only,
//! where every client may do everything. A web page reaches loopback too, so requests for a foreign
//! host, and changes requested by a web page, are refused.
//!
//! If all connections are busy, a few more are accepted for health and metrics alone.

mod allowance;
mod configuration;
mod host;
mod openapi;
mod options;
mod pages;
mod readiness;
mod reply;
mod rfc3339;
mod route;
mod server;
mod shown;

#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;

use crate::control::{Control, ControlTask};
use server::Server;

pub use allowance::{ChangeAllowance, ChangeLimits};
pub use configuration::{
    Configuration, ConfigurationInForce, ReloadError, ReloadSummary, ReloadedFiles, configuration,
};
pub use host::names_listener;
pub use openapi::openapi;
pub use options::AdminOptions;
pub use pages::Pages;
pub use readiness::Readiness;
pub use reply::{ErrorCode, ErrorField, Reply, ReplyResult};
pub use rfc3339::rfc3339;
pub use route::operation::{Operation, SchemaOf};
pub use route::{Api, ApiCall, Method, Route};
pub use server::HEALTH_CONNECTIONS;
pub use shown::{CountsByLabel, LatencyView, counts_schema};

/// The running admin listener. It continues through a drain until it is stopped.
#[derive(Debug)]
pub struct Admin(ControlTask);

impl Admin {
    /// Serves `pages` on a non-blocking listener from [`listen`](crate::listen::listen).
    ///
    /// # Errors
    /// If the runtime cannot register the listener.
    pub fn start(
        options: &AdminOptions,
        listener: TcpListener,
        pages: Pages,
        control: &Control,
    ) -> io::Result<Self> {
        let server = Server::new(options, pages);
        let runtime = control.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(runtime);
        Ok(Self(control.spawn(move || server.run(listener))))
    }

    /// Stops listening, and drops open connections.
    pub fn stop(self) {
        self.0.stop();
    }
}
