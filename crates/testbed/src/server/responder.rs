//! The interface between simulated servers, which know HTTP and misbehaviour, and services, which
//! know their content.

use std::time::Duration;

use super::behaviour::{ContentFault, ServerBehaviour};
use super::counter::ConnectionCounters;
use super::http::ServerRequest;
use super::script::Script;

/// One simulated service behind a port of its own. Lives on its server's thread.
pub trait SimulatedService: Send + 'static {
    /// Faults of this service's content.
    type Fault: ContentFault;
    /// Changes to a running service, besides its behaviour.
    type Change: Send + 'static;

    /// Answers a request. Appends the whole answer to `out`, unless it is a script.
    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply;

    /// Sets the behaviour.
    fn behave(&mut self, behaviour: &ServerBehaviour<Self::Fault>);

    /// Applies a change.
    fn change(&mut self, change: Self::Change);

    /// The server's counters of connections.
    fn connections(&self) -> &ConnectionCounters;
}

/// How an answer is sent.
#[derive(Debug)]
pub enum ServiceReply {
    /// Complete, after this delay.
    Whole(Duration),
    /// At its own pace.
    Script(Box<Script>),
}

impl ServiceReply {
    /// Without delay.
    pub const AT_ONCE: Self = Self::Whole(Duration::ZERO);
}
