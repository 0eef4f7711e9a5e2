//! A simulated origin: an HTTP server behind a cache. The body of every
//! path repeats that path, so a client can tell whether the cache served the right one.

mod fault;
mod object;
mod options;
mod responder;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use fault::OriginFault;
pub use object::ObjectBody;
pub use options::{OBJECT_BYTES_MAX, OriginOptions};

use crate::server::{
    self, ServerAct, ServerBehaviour, ServerError, ServerOptions, ServerSchedule, Servers,
};
use responder::{OriginCounters, OriginResponder};

/// What an origin does with a request.
pub type OriginAct = ServerAct<OriginFault>;

/// What an origin does, and with what share of its requests.
pub type OriginBehaviour = ServerBehaviour<OriginFault>;

/// A running origin. Dropping it stops it.
#[derive(Debug)]
pub struct SimulatedOrigin {
    servers: Servers<OriginResponder>,
    counters: Arc<OriginCounters>,
}

/// What an origin has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginStats {
    /// Requests.
    pub requests: u64,
    /// Of these, answered 304.
    pub not_modified: u64,
    /// Answered 206.
    pub parts: u64,
    /// Befallen by a fault.
    pub faults: u64,
    /// Refused because they were no requests that it knows.
    pub malformed: u64,
    /// Connections that are open.
    pub connections: u64,
    /// CPU time of its threads, in microseconds.
    pub cpu_us: u64,
}

/// Starts an origin: on return, it listens.
///
/// # Errors
///
/// If the options make no sense, or the system refuses a port, a thread or a core.
pub fn start(
    options: &OriginOptions,
    behaviour: OriginBehaviour,
    server: &ServerOptions,
) -> Result<SimulatedOrigin, ServerError> {
    if let Some(problem) = options.problem() {
        return Err(ServerError::Options(problem));
    }
    let counters = Arc::new(OriginCounters::default());
    let servers = server::start(server, vec![ServerSchedule::always(behaviour)], |_, origin| {
        OriginResponder::new(options.clone(), origin.to_owned(), Arc::clone(&counters))
    })?;
    Ok(SimulatedOrigin { servers, counters })
}

impl SimulatedOrigin {
    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.servers.addresses()[0]
    }

    /// `http://<address>`, or `https://` under TLS.
    pub fn url(&self) -> &str {
        &self.servers.origins()[0]
    }

    /// As [`Servers::behave`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_behaviour(&self, behaviour: impl Into<OriginBehaviour>) -> Result<(), ServerError> {
        self.servers.behave(0, behaviour.into())
    }

    /// Sets how it answers from now on. In effect on return.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or its thread has failed.
    pub fn set_options(&self, options: OriginOptions) -> Result<(), ServerError> {
        match options.problem() {
            Some(problem) => Err(ServerError::Change { index: 0, problem }),
            None => self.servers.change(0, options),
        }
    }

    /// What it has done.
    pub fn stats(&self) -> OriginStats {
        let OriginCounters { connections, requests, not_modified, parts, faults } = &*self.counters;
        let cpu: Duration = self.servers.cpu_times().iter().sum();
        OriginStats {
            requests: requests.read(),
            not_modified: not_modified.read(),
            parts: parts.read(),
            faults: faults.read(),
            malformed: connections.malformed.read(),
            connections: connections.open.read(),
            cpu_us: u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Closes every socket and joins the threads. An error means that a thread failed earlier.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn stop(self) -> io::Result<()> {
        self.servers.stop()
    }
}
