//! Health, metrics and the API's document. It must not know any service: they add metrics and
//! checks.

use std::sync::{Arc, OnceLock};

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::openapi::openapi;
use super::readiness::Readiness;
use super::reply::{Reply, TEXT};
use super::route::operation::Operation;
use super::route::{Api, ApiCall, Method, Route};
use crate::metrics::{Exposition, ExpositionFormat};
use crate::shutdown::Shutdown;

/// The content of the admin listener.
#[derive(Debug)]
pub struct Pages {
    /// The metrics page.
    pub exposition: Exposition,
    /// The checks of `/health/ready`.
    pub readiness: Readiness,
    /// A draining process is not ready.
    pub shutdown: Shutdown,
    /// APIs of services under `/v1`. The first with a matching path responds.
    pub apis: Vec<Api>,
}

/// The state behind health and metrics.
#[derive(Debug)]
struct ProcessHealth {
    exposition: Exposition,
    readiness: Readiness,
    shutdown: Shutdown,
}

fn health_routes() -> Vec<Route<ProcessHealth>> {
    vec![
        Route {
            method: Method::Get,
            path: "/health/live",
            answer: |_, _| Ok(ok("live")),
            operation: Operation::new("health", "live", "Whether the process answers.").text(
                200,
                TEXT,
                "The process is alive.",
            ),
        },
        Route {
            method: Method::Get,
            path: "/health/ready",
            answer: |health, _| Ok(health.ready()),
            operation: Operation::new("health", "ready", "Whether the process may be sent traffic.")
                .text(
                    200,
                    TEXT,
                    "The process may be sent traffic. The text is `ready`, or `degraded` with what \
                     operators should know, such as a disk that fails or files of campaigns that are \
                     refused.",
                )
                .text(503, TEXT, "Not yet, or no longer. The text names the checks that fail."),
        },
        Route {
            method: Method::Get,
            path: "/metrics",
            answer: |health, call| Ok(health.metrics(call)),
            operation: Operation::new("metrics", "metrics", "All metrics, for Prometheus.")
                .text(200, ExpositionFormat::PrometheusText.media_type(), "Prometheus text,")
                .text(200, ExpositionFormat::OpenMetrics.media_type(), "or OpenMetrics where `accept` prefers it."),
        },
    ]
}

fn document() -> Vec<Route<Arc<OnceLock<Value>>>> {
    vec![Route {
        method: Method::Get,
        path: "/v1/openapi.json",
        answer: |document, _| Ok(Reply::json(&document.get())),
        operation: Operation::new("document", "openapi", "This document.")
            .json::<Map<String, Value>>(200, "This document."),
    }]
}

impl Pages {
    /// All APIs: health and metrics first, the document of all of them last.
    pub(super) fn into_apis(self) -> Vec<Api> {
        let Self { exposition, readiness, shutdown, apis } = self;
        let health = Api::new(ProcessHealth { exposition, readiness, shutdown }, health_routes());
        let written = Arc::new(OnceLock::new());
        let document = Api::new(Arc::clone(&written), document());
        let apis: Vec<Api> = [health].into_iter().chain(apis).chain([document]).collect();
        written.get_or_init(|| openapi(&apis));
        apis
    }
}

impl ProcessHealth {
    fn ready(&self) -> Reply {
        if self.shutdown.is_started() {
            return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "draining");
        }
        match self.readiness.missing()[..] {
            [] => match self.readiness.remarks()[..] {
                [] => ok("ready"),
                // Traffic may still come, so the status is 200; the text is for people.
                ref told => ok(&format!("degraded; {}", told.join("; "))),
            },
            ref missing => {
                let line = format!("not ready: {}", missing.join(", "));
                Reply::text(StatusCode::SERVICE_UNAVAILABLE, &line)
            }
        }
    }

    fn metrics(&self, call: &ApiCall) -> Reply {
        let format = ExpositionFormat::accepted(call.headers("accept"));
        Reply::page(format.media_type(), self.exposition.text_in(format))
    }
}

fn ok(line: &str) -> Reply {
    Reply::text(StatusCode::OK, line)
}
