//! What every process shows of itself: health and metrics.
//!
//! It must not know any service: they add metrics and checks.

use hyper::StatusCode;

use super::readiness::Readiness;
use super::reply::Reply;
use super::route::{Api, Call, Method, Route};
use crate::metrics::{Exposition, Format};
use crate::shutdown::Shutdown;

/// What the admin listener shows.
#[derive(Debug)]
pub struct Pages {
    /// The metrics page.
    pub exposition: Exposition,
    /// The checks of `/health/ready`.
    pub readiness: Readiness,
    /// A process that drains is not ready.
    pub shutdown: Shutdown,
    /// What services add, at paths under `/v1`. The first that has a path answers.
    pub apis: Vec<Api>,
}

/// What health and metrics are answered from.
#[derive(Debug)]
pub struct Vitals {
    exposition: Exposition,
    readiness: Readiness,
    shutdown: Shutdown,
}

/// Health and metrics.
pub static VITALS: &[Route<Vitals>] = &[
    Route { method: Method::Get, path: "/health/live", answer: |_, _| ok("live") },
    Route { method: Method::Get, path: "/health/ready", answer: |vitals, _| vitals.ready() },
    Route { method: Method::Get, path: "/metrics", answer: |vitals, call| vitals.metrics(call) },
];

impl Pages {
    /// All that is answered: health and metrics first.
    pub(super) fn into_apis(self) -> Vec<Api> {
        let Self { exposition, readiness, shutdown, apis } = self;
        let vitals = Api::new(Vitals { exposition, readiness, shutdown }, VITALS);
        [vitals].into_iter().chain(apis).collect()
    }
}

impl Vitals {
    fn ready(&self) -> Reply {
        if self.shutdown.is_started() {
            return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "draining");
        }
        match self.readiness.missing()[..] {
            [] => match self.readiness.remarks()[..] {
                [] => ok("ready"),
                // Traffic may come all the same: the status says so, and the word that a person looks.
                ref told => ok(&format!("degraded; {}", told.join("; "))),
            },
            ref missing => {
                let line = format!("not ready: {}", missing.join(", "));
                Reply::text(StatusCode::SERVICE_UNAVAILABLE, &line)
            }
        }
    }

    fn metrics(&self, call: &Call) -> Reply {
        let format = Format::accepted(call.headers("accept"));
        Reply::page(format.media_type(), self.exposition.text_in(format))
    }
}

fn ok(line: &str) -> Reply {
    Reply::text(StatusCode::OK, line)
}
