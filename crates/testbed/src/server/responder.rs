//! What a simulated service answers: the seam between servers, which know HTTP and misbehaviour,
//! and services, which know their content.

use std::time::Duration;

use super::behaviour::{ContentFault, ServerBehaviour};
use super::counter::ConnectionCounters;
use super::http::ServerRequest;
use super::script::Script;

/// One simulated service behind a port of its own. Lives on its server's thread.
pub trait SimulatedService: Send + 'static {
    /// What only this service can get wrong.
    type Fault: ContentFault;
    /// What can be changed while it runs, beside its behaviour.
    type Change: Send + 'static;

    /// Answers a request. Appends the whole answer to `out`, unless it is a script.
    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply;

    /// Behaves like this from now on.
    fn behave(&mut self, behaviour: &ServerBehaviour<Self::Fault>);

    /// Changes from now on.
    fn change(&mut self, change: Self::Change);

    /// Where its server counts connections.
    fn connections(&self) -> &ConnectionCounters;
}

/// How an answer leaves.
#[derive(Debug)]
pub enum ServiceReply {
    /// Whole, after this time.
    Whole(Duration),
    /// In its own way.
    Script(Box<Script>),
}

impl ServiceReply {
    /// At once.
    pub const AT_ONCE: Self = Self::Whole(Duration::ZERO);
}
