//! Calls the URLs of notices: each host has so many calls under way at once, and the others wait.
//!
//! It must not know what a notice is worth, nor when to try again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_kit::address::Network;
use http_kit::client::{AddressRule, ClientOptions, HttpClient, RequestError};
use http_kit::dns::Resolve;
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use rustls::ClientConfig;
use tokio::sync::{Semaphore, oneshot};

use crate::fanout::answer::NODE_HEADER;

/// Hosts that are called at once; a DSP that names a host for each notice must not fill the memory.
const HOSTS_MAX: usize = 4096;
/// Calls that may wait for one host: ads are asked for by each auction, however slowly they come.
const CALLS_MAX: usize = 1024;
/// Open connections, to all hosts.
const CONNECTIONS_MAX: usize = 4096;
/// Calls under way to a host that speaks HTTP/2, on one connection.
const HTTP2_CALLS_MAX: usize = 100;

/// One call.
#[derive(Debug)]
pub struct NoticeCall {
    /// For an absolute URI.
    pub request: Request<Full<Bytes>>,
    /// Most bytes of the answer's body that are wanted; it is dropped where none are.
    pub body_max: usize,
    /// Hears what came of it.
    pub done: oneshot::Sender<Result<ServerAnswer, CallError>>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer {
    /// Status code.
    pub status: u16,
    /// The node of the exchange that answered, if one did.
    pub node: Option<u32>,
    /// Empty unless it was wanted.
    pub body: Vec<u8>,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request has no answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// More hosts are being called than may be, or too many calls wait for this one.
    #[error("too many calls are under way")]
    Saturated,
}

/// What bounds the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Longest wait for a connection and its answer.
    pub timeout: Duration,
    /// Most connections to one host.
    pub connections_max: usize,
    /// An idle connection is closed after this long.
    pub idle_timeout: Duration,
    /// Ranges that may be called although they are not public.
    pub networks_allowed: Vec<Network>,
}

impl CallLimits {
    /// Where a DSP has named the host.
    pub fn public(&self) -> AddressRule {
        AddressRule::PublicAnd(self.networks_allowed.clone())
    }
}

/// Calls many hosts from one thread.
pub struct NoticeClient {
    http: HttpClient,
    connections_max: usize,
    hosts: RefCell<HashMap<Authority, Rc<HostCalls>>>,
    hosts_max: usize,
}

/// The calls to one host.
struct HostCalls {
    /// Of calls that are under way.
    permits: Semaphore,
    /// Calls that are under way, or wait to be.
    calls: Cell<usize>,
    is_http2: Cell<bool>,
}

impl NoticeClient {
    /// To addresses that `addresses` allows; `tls` says whom to trust.
    pub fn new(
        limits: &CallLimits,
        addresses: AddressRule,
        resolver: Arc<dyn Resolve>,
        tls: Arc<ClientConfig>,
    ) -> Rc<Self> {
        let connections_max = limits.connections_max.max(1);
        let options = ClientOptions {
            timeout: limits.timeout,
            idle_timeout: limits.idle_timeout,
            idle_per_host_max: connections_max,
            connections_max: CONNECTIONS_MAX,
            addresses,
            tls,
        };
        let (http, hosts) = (HttpClient::new(options, resolver), RefCell::default());
        Rc::new(Self { http, connections_max, hosts, hosts_max: HOSTS_MAX })
    }

    /// Makes a call, on the thread's local tasks.
    pub fn call(self: &Rc<Self>, mut call: NoticeCall) {
        let Some(host) = self.enter(&call) else {
            let _ = call.done.send(Err(CallError::Saturated));
            return;
        };
        let client = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let authority = call.request.uri().authority().cloned();
            let made = tokio::select! {
                permit = host.permits.acquire() => {
                    let _permit = permit.expect("it is never closed");
                    Some(client.make(&host, call.request, call.body_max).await)
                }
                // Nobody waits any more: an auction has gone on without the ad.
                () = call.done.closed() => None,
            };
            host.calls.set(host.calls.get() - 1);
            if let Some(authority) = authority.filter(|_| host.calls.get() == 0) {
                client.hosts.borrow_mut().remove(&authority);
            }
            if let Some(made) = made {
                // Whoever asked may have gone.
                let _ = call.done.send(made);
            }
        });
    }

    /// Counts a call to its host. None if too many are.
    fn enter(&self, call: &NoticeCall) -> Option<Rc<HostCalls>> {
        let authority = call.request.uri().authority()?;
        let mut hosts = self.hosts.borrow_mut();
        let known = hosts.get(authority).map(Rc::clone);
        let host = match known {
            Some(host) => host,
            None if self.hosts_max <= hosts.len() => return None,
            None => {
                let permits = Semaphore::new(self.connections_max);
                let host = HostCalls { permits, calls: Cell::new(0), is_http2: Cell::new(false) };
                Rc::clone(hosts.entry(authority.clone()).or_insert(Rc::new(host)))
            }
        };
        let waiting = host.calls.get().saturating_sub(self.connections_max);
        (waiting < CALLS_MAX).then(|| {
            host.calls.set(host.calls.get() + 1);
            host
        })
    }

    async fn make(
        &self,
        host: &HostCalls,
        request: Request<Full<Bytes>>,
        body_max: usize,
    ) -> Result<ServerAnswer, CallError> {
        let answer = self.http.request(request, body_max).await?;
        if answer.version() == Version::HTTP_2 && !host.is_http2.replace(true) {
            host.permits.add_permits(HTTP2_CALLS_MAX.saturating_sub(self.connections_max));
        }
        let node = answer.headers().get(NODE_HEADER);
        let node = node.and_then(|node| node.to_str().ok()?.parse().ok());
        let status = answer.status().as_u16();
        Ok(ServerAnswer { status, node, body: answer.into_body().into() })
    }
}

#[cfg(test)]
mod tests;
