//! Passes beacons on to the nodes that sealed them, whose logs know which calls are repeated.
//!
//! Must not know a beacon's content, nor which nodes exist.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::{BeaconBase, NoticeTarget};
use http_kit::client::{AddressRule, RequestError};
use http_kit::dns::SystemNames;
use runtime::metrics::Padded;
use runtime::shutdown::Shutdown;
use rustls::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::client::{
    CallError, CallResult, CallWaiter, NoticeCall, NoticeClient, NoticeClientOptions, NoticeRequest,
};
use super::dispatcher::MARKUP_TIMEOUT;
use crate::config::{CallLimits, NoticesConfig};
use crate::fanout::answer::NODE_HEADER;
use crate::metrics::ExchangeMetrics;

pub struct NodeClient {
    client: Rc<NoticeClient>,
    /// Longest wait for an answer.
    timeout: Duration,
}

/// A call of another node's beacon.
#[derive(Clone, Copy, Debug)]
pub struct ForeignBeacon<'b> {
    /// The node's beacon URL.
    pub base: &'b BeaconBase,
    pub token: &'b str,
    /// The call's query.
    pub query: Option<&'b str>,
    pub device: IpAddr,
    /// Printable ASCII.
    pub user_agent: Option<&'b str>,
    pub node: u32,
    pub body_max: usize,
}

impl std::fmt::Debug for NodeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeClient(…)")
    }
}

impl NodeClient {
    /// Starts on the runtime of this thread. Allows any address: nodes belong to the operator.
    ///
    /// # Errors
    /// See [`NoticeClient::start`].
    pub fn start(
        notices: &NoticesConfig,
        tls: Arc<ClientConfig>,
        metrics: Arc<Padded<ExchangeMetrics>>,
        shutdown: Shutdown,
    ) -> io::Result<Self> {
        // The node may wait as long for an ad; the rest is network time.
        let within = MARKUP_TIMEOUT + notices.calls.timeout;
        let limits = CallLimits {
            connections_max: notices.node_connections_max,
            timeout: within,
            ..notices.calls.clone()
        };
        let client = NoticeClient::start(NoticeClientOptions {
            limits,
            addresses: AddressRule::Any,
            resolver: Arc::new(SystemNames::new()),
            tls,
            prior_knowledge: Box::new(|_| false),
            metrics,
            shutdown,
        })?;
        Ok(Self { client, timeout: within })
    }

    /// Calls the beacon at its node. An error means no answer.
    pub fn pass_on(&self, beacon: &ForeignBeacon<'_>) -> impl Future<Output = CallResult> + use<> {
        let base = NoticeTarget::parse(beacon.base.as_str()).expect("a base is a URL");
        let mut path = [base.path_and_query, beacon.token].concat();
        if let Some(query) = beacon.query {
            path.extend(["?", query]);
        }
        let mut request = NoticeRequest::get(&base, &path)
            .with(NODE_HEADER, beacon.node.to_string())
            .with("x-forwarded-for", beacon.device.to_string());
        if let Some(agent) = beacon.user_agent {
            request = request.with("user-agent", agent.to_owned());
        }
        let (done, answered) = oneshot::channel();
        self.client.call(NoticeCall {
            request: Rc::new(request),
            body_max: beacon.body_max,
            until: Instant::now() + self.timeout,
            waiter: CallWaiter::Fetch(done),
        });
        let within = self.timeout;
        async move {
            let answered = timeout(within, answered).await.map_err(|_| RequestError::TimedOut)?;
            answered.unwrap_or(Err(CallError::Saturated))
        }
    }
}
