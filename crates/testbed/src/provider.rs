//! Simulated data providers, for look-ups: a catalogue of physics data, what is known about users,
//! pages and places, and items that all of a farm's providers know a part of. Any of them may be slow,
//! wrong or overloaded.

mod catalogue;
mod fault;
mod load;
mod maps;
mod options;
mod responder;

use std::io;
use std::sync::Arc;

use serde::Serialize;

pub use catalogue::{CatalogueOptions, FILE_BYTES_MAX};
pub use fault::ProviderFault;
pub use load::{LookupLoad, LookupLoadAnswer, LookupLoadOptions, LookupOutcomes};
pub use maps::farm_map;
pub use options::ProviderOptions;

use crate::server::{
    self, ServerAct, ServerBehaviour, ServerError, ServerOptions, ServerSchedule, Servers,
};
use responder::{ProviderCounters, ProviderResponder};

/// What a provider does with a request.
pub type ProviderAct = ServerAct<ProviderFault>;

/// What a provider does, and with what share of its requests.
pub type ProviderBehaviour = ServerBehaviour<ProviderFault>;

/// Running providers. Dropping them stops them.
#[derive(Debug)]
pub struct ProviderFarm {
    servers: Servers<ProviderResponder>,
    counters: Vec<Arc<ProviderCounters>>,
}

/// What a provider has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStats {
    /// Requests.
    pub requests: u64,
    /// The most that were being answered at a time.
    pub concurrent_max: u64,
    /// Requests refused because too many were being answered.
    pub overloaded: u64,
    /// Requests befallen by a fault.
    pub faults: u64,
    /// Requests for what it does not have.
    pub unknown: u64,
    /// Connections that are open.
    pub connections: u64,
}

/// Starts a provider for each behaviour: on return, all listen.
///
/// # Errors
///
/// If the options make no sense, or the system refuses a port, a thread or a core.
pub fn start(
    options: &ProviderOptions,
    behaviours: Vec<ProviderBehaviour>,
    server: &ServerOptions,
) -> Result<ProviderFarm, ServerError> {
    if let Some(problem) = options.problem() {
        return Err(ServerError::Options(problem));
    }
    let counters: Vec<Arc<ProviderCounters>> = behaviours.iter().map(|_| Arc::default()).collect();
    let schedules = behaviours.into_iter().map(ServerSchedule::always).collect();
    let servers = server::start(server, schedules, |index, origin| {
        let counters = Arc::clone(&counters[index]);
        ProviderResponder::new(index, options.clone(), origin.to_owned(), counters)
    })?;
    Ok(ProviderFarm { servers, counters })
}

impl ProviderFarm {
    /// Their URLs.
    pub fn urls(&self) -> &[String] {
        self.servers.origins()
    }

    /// As [`Servers::behave`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_behaviour(
        &self,
        index: usize,
        behaviour: impl Into<ProviderBehaviour>,
    ) -> Result<(), ServerError> {
        self.servers.behave(index, behaviour.into())
    }

    /// Sets how a provider answers from now on. In effect on return.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or its thread has failed.
    pub fn set_options(&self, index: usize, options: ProviderOptions) -> Result<(), ServerError> {
        match options.problem() {
            Some(problem) => Err(ServerError::Change { index, problem }),
            None => self.servers.change(index, options),
        }
    }

    /// What each has seen.
    pub fn stats(&self) -> Vec<ProviderStats> {
        let stats = self.counters.iter().map(|counters| ProviderStats {
            requests: counters.requests.read(),
            concurrent_max: counters.concurrent_max.read(),
            overloaded: counters.overloaded.read(),
            faults: counters.faults.read(),
            unknown: counters.unknown.read(),
            connections: counters.connections.open.read(),
        });
        stats.collect()
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
