//! Calls notice URLs. Each host has a limit of concurrent calls; further ones wait.
//!
//! Must not know what a notice is worth, nor when to retry.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use http_kit::client::{AddressRule, ClientOptions, HttpClient, RequestError};
use http_kit::dns::Resolve;
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use rustls::ClientConfig;
use tokio::sync::{Semaphore, oneshot};

use crate::config::CallLimits;
use crate::fanout::answer::NODE_HEADER;

/// Most hosts called at once: a DSP that names a new host in each notice must not fill the memory.
const HOSTS_MAX: usize = 4096;
/// Most calls in flight or queued for one host: every auction may fetch ads from a slow host.
const CALLS_MAX: usize = 1024;
/// Open connections to all hosts.
const CONNECTIONS_MAX: usize = 4096;
/// Concurrent calls on one HTTP/2 connection.
const HTTP2_CALLS_MAX: usize = 100;

#[derive(Debug)]
pub struct NoticeCall {
    /// With an absolute URI.
    pub request: Request<Full<Bytes>>,
    /// Most bytes of the answer's body; at 0 the body is dropped.
    pub body_max: usize,
    pub done: oneshot::Sender<Result<ServerAnswer, CallError>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer {
    pub status: u16,
    /// The exchange's node that answered. None for other servers.
    pub node: Option<u32>,
    /// Empty if `body_max` is 0.
    pub body: Vec<u8>,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Too many hosts, or too many calls to this one.
    #[error("too many calls are under way")]
    Saturated,
}

pub struct NoticeClient {
    http: HttpClient,
    connections_max: usize,
    hosts: RefCell<HashMap<Authority, Rc<HostCalls>>>,
    hosts_max: usize,
}

struct HostCalls {
    /// For calls in flight.
    permits: Semaphore,
    /// Calls in flight or queued.
    calls: Cell<usize>,
    is_http2: Cell<bool>,
}

impl NoticeClient {
    /// Calls the hosts that `addresses` allows; `tls` holds the trusted authorities.
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

    /// Makes a call in a task on this thread.
    pub fn call(self: &Rc<Self>, mut call: NoticeCall) {
        let Some(host) = self.admit(&call) else {
            let _ = call.done.send(Err(CallError::Saturated));
            return;
        };
        let client = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let authority = call.request.uri().authority().cloned();
            let made = tokio::select! {
                permit = host.permits.acquire() => {
                    let _permit = permit.expect("it is never closed");
                    Some(client.send(&host, call.request, call.body_max).await)
                }
                // The auction went on without the ad.
                () = call.done.closed() => None,
            };
            host.calls.set(host.calls.get() - 1);
            if let Some(authority) = authority.filter(|_| host.calls.get() == 0) {
                client.hosts.borrow_mut().remove(&authority);
            }
            if let Some(made) = made {
                let _ = call.done.send(made);
            }
        });
    }

    /// Counts a call to its host. None if there are too many.
    fn admit(&self, call: &NoticeCall) -> Option<Rc<HostCalls>> {
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

    async fn send(
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
