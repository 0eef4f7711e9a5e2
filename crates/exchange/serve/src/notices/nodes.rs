//! Passes beacons on to the nodes that sealed them, whose logs know which calls are repeated.
//!
//! Must not know a beacon's content, nor which nodes exist.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::{BeaconBase, NoticeTarget};
use http_kit::client::{AddressRule, RequestError};
use http_kit::dns::Resolve;
use hyper::header::{HeaderValue, USER_AGENT};
use rustls::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::{CallError, NoticeCall, NoticeClient, ServerAnswer};
use super::dispatcher::{MARKUP_TIMEOUT, get};
use crate::config::{CallLimits, NoticesConfig};
use crate::fanout::answer::NODE_HEADER;

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
    /// Allows any address: nodes belong to the operator.
    pub fn new(
        notices: &NoticesConfig,
        resolver: Arc<dyn Resolve>,
        tls: Arc<ClientConfig>,
    ) -> Self {
        // The node may wait as long for an ad; the rest is network time.
        let within = MARKUP_TIMEOUT + notices.calls.timeout;
        let limits = CallLimits {
            connections_max: notices.node_connections_max,
            timeout: within,
            ..notices.calls.clone()
        };
        Self {
            client: NoticeClient::new(&limits, AddressRule::Any, resolver, tls),
            timeout: within,
        }
    }

    /// Calls the beacon at its node. An error means no answer.
    pub fn pass_on(
        &self,
        beacon: &ForeignBeacon<'_>,
    ) -> impl Future<Output = Result<ServerAnswer, CallError>> + use<> {
        let base = NoticeTarget::parse(beacon.base.as_str()).expect("a base is a URL");
        let mut path = [base.path_and_query, beacon.token].concat();
        if let Some(query) = beacon.query {
            path.extend(["?", query]);
        }
        let mut request = get(&base, &path).expect("a base and a token are short");
        let headers = request.headers_mut();
        headers.insert(NODE_HEADER, beacon.node.into());
        let device = HeaderValue::try_from(beacon.device.to_string());
        headers.insert("x-forwarded-for", device.expect("an address is printable"));
        if let Some(agent) = beacon.user_agent.and_then(|agent| agent.parse().ok()) {
            headers.insert(USER_AGENT, agent);
        }
        let (done, answered) = oneshot::channel();
        self.client.call(NoticeCall { request, body_max: beacon.body_max, done });
        let within = self.timeout;
        async move {
            let answered = timeout(within, answered).await.map_err(|_| RequestError::TimedOut)?;
            answered.unwrap_or(Err(CallError::Saturated))
        }
    }
}
