//! Calls notice URLs over connections like those of the fan-out: HTTP/1.1, or HTTP/2 where the host
//! offers it. Each host has a limit of connections; calls that find none wait.
//!
//! Must not know what a notice is worth, nor when to retry.

mod call;
mod connection;
mod host;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_kit::client::{AddressRule, Connector, ConnectorOptions};
use http_kit::dns::Resolve;
use runtime::metrics::Padded;
use runtime::shutdown::Shutdown;
use rustls::ClientConfig;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

pub use self::call::{
    CallError, CallResult, CallWaiter, NoticeCall, NoticeHost, NoticeRequest, ServerAnswer,
};
use self::host::{HostCalls, HostParts, NoticeReactor};
use crate::config::CallLimits;
use crate::metrics::ExchangeMetrics;

/// Most hosts with calls: a DSP that names a new host in each notice must not fill the memory.
const HOSTS_MAX: usize = 4096;
/// Open connections to all hosts. While half of them are open, each call closes the idle ones.
const CONNECTIONS_MAX: usize = 4096;
/// How often overdue calls and idle connections are looked for.
const SWEPT_EVERY: Duration = Duration::from_millis(100);

pub struct NoticeClient {
    parts: Rc<HostParts>,
    hosts: RefCell<HashMap<NoticeHost, Rc<HostCalls>>>,
    hosts_max: usize,
    is_swept: Cell<bool>,
}

/// How hosts are connected to.
pub struct NoticeClientOptions {
    pub limits: CallLimits,
    pub addresses: AddressRule,
    pub resolver: Arc<dyn Resolve>,
    /// Trusted authorities.
    pub tls: Arc<ClientConfig>,
    /// Whether a host speaks HTTP/2 without TLS (RFC 9113, section 3.3).
    pub prior_knowledge: Box<dyn Fn(&NoticeHost) -> bool + Send>,
    pub metrics: Arc<Padded<ExchangeMetrics>>,
    /// Begins if connections can no longer be waited for.
    pub shutdown: Shutdown,
}

impl NoticeClient {
    /// Starts on the runtime of this thread.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn start(options: NoticeClientOptions) -> io::Result<Rc<Self>> {
        let NoticeClientOptions { limits, addresses, resolver, tls, prior_knowledge, .. } = options;
        let reactor = NoticeReactor::start(options.metrics, CONNECTIONS_MAX, &options.shutdown)?;
        let timeout = limits.timeout;
        let connector = Connector::new(ConnectorOptions { addresses, timeout, tls }, resolver);
        let parts = HostParts {
            connector,
            prior_knowledge,
            reactor,
            connections_max: limits.connections_max.max(1),
            timeout,
            idle_timeout: limits.idle_timeout,
        };
        Ok(Rc::new(Self {
            parts: Rc::new(parts),
            hosts: RefCell::default(),
            hosts_max: HOSTS_MAX,
            is_swept: Cell::new(false),
        }))
    }

    /// Makes a call, or has it wait for a connection.
    pub fn call(self: &Rc<Self>, call: NoticeCall) {
        if self.parts.reactor.sockets_left() <= CONNECTIONS_MAX / 2 {
            self.hosts.borrow().values().for_each(|host| host.close_idle());
        }
        let refused = match self.host(&call.request.host) {
            Some(host) => host.call(call).err(),
            None => Some(call),
        };
        if let Some(refused) = refused {
            refused.waiter.tell(Err(CallError::Saturated));
        }
        self.sweep_until_empty();
    }

    /// The calls of a host. None if too many hosts have calls.
    fn host(&self, host: &NoticeHost) -> Option<Rc<HostCalls>> {
        if let Some(known) = self.hosts.borrow().get(host) {
            return Some(Rc::clone(known));
        }
        let hosts = &mut *self.hosts.borrow_mut();
        if self.hosts_max <= hosts.len() {
            hosts.retain(|_, host| {
                let is_called = host.is_called();
                if !is_called {
                    host.close_all();
                }
                is_called
            });
        }
        (hosts.len() < self.hosts_max).then(|| {
            let calls = Rc::new(HostCalls::new(host.clone(), Rc::clone(&self.parts)));
            Rc::clone(hosts.entry(host.clone()).or_insert(calls))
        })
    }

    /// Sweeps in a task of its own, as long as there are hosts.
    fn sweep_until_empty(self: &Rc<Self>) {
        if self.is_swept.replace(true) {
            return;
        }
        let client = Rc::downgrade(self);
        spawn_local(async move {
            loop {
                sleep(SWEPT_EVERY).await;
                let Some(client) = client.upgrade() else { return };
                if !client.sweep(Instant::now()) {
                    return client.is_swept.set(false);
                }
            }
        });
    }

    /// Whether any host is left.
    fn sweep(&self, now: Instant) -> bool {
        let hosts: Vec<_> = self.hosts.borrow().values().cloned().collect();
        hosts.iter().for_each(|host| host.sweep(now));
        self.hosts.borrow_mut().retain(|_, host| !host.is_empty());
        !self.hosts.borrow().is_empty()
    }
}

impl Drop for NoticeClient {
    fn drop(&mut self) {
        self.hosts.get_mut().values().for_each(|host| host.close_all());
    }
}

#[cfg(test)]
mod tests;
