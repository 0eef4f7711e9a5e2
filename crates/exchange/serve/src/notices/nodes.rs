//! Passes beacons on to the nodes that sealed them: the log of that node alone knows whether a beacon
//! was called before.
//!
//! It must not know what a beacon says, nor which nodes there are.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use exchange_core::{BeaconBase, NoticeTarget};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::{Answered, Call, CallError, CallLimits, Client, Resolve};
use super::network::Network;
use super::office::{opening, origin};
use crate::beacon::RELAYED_WITHIN;
use crate::config::NoticesConfig;
use crate::fanout::Tls;
use crate::fanout::answer::NODE_HEADER;

/// Calls other nodes from one shard.
pub struct NodeClient {
    client: Rc<Client>,
    /// Longest wait for an answer.
    within: Duration,
}

/// A beacon of another node, as it was called here.
#[derive(Clone, Copy, Debug)]
pub struct ForeignBeacon<'b> {
    /// Where its node takes it.
    pub base: &'b BeaconBase,
    /// The token, which was opened.
    pub token: &'b str,
    /// What the caller has put behind it.
    pub query: Option<&'b str>,
    /// Who called.
    pub device: IpAddr,
    /// Its user agent, printable ASCII.
    pub user_agent: Option<&'b str>,
    /// This node.
    pub node: u32,
    /// Most bytes of the answer's body that are wanted.
    pub body_max: usize,
}

impl std::fmt::Debug for NodeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeClient(…)")
    }
}

impl NodeClient {
    /// Nodes are the operator's own, at whatever address.
    pub fn new(notices: &NoticesConfig, resolver: Box<dyn Resolve>, tls: Tls) -> Self {
        let anywhere = |range| Network::parse(range).expect("a range");
        // The node may wait as long itself for an ad; the rest is for the way to it.
        let within = RELAYED_WITHIN + notices.calls.timeout;
        let limits = CallLimits {
            connections_max: notices.node_connections_max,
            // A node answers the calls on a connection one after the other.
            pipeline_max: 1,
            networks_allowed: ["0.0.0.0/0", "::/0"].map(anywhere).to_vec(),
            timeout: within,
            ..notices.calls.clone()
        };
        Self { client: Client::new(limits, resolver, tls), within }
    }

    /// Calls the beacon where it belongs; an error means that there is no answer.
    pub fn pass_on(
        &self,
        beacon: &ForeignBeacon<'_>,
    ) -> impl Future<Output = Result<Answered, CallError>> + use<> {
        let base = NoticeTarget::parse(beacon.base.as_str()).expect("a base is a URL");
        let mut path = [base.path_and_query, beacon.token].concat();
        if let Some(query) = beacon.query {
            path.extend(["?", query]);
        }
        let mut head = opening(&base, &path);
        head.extend([NODE_HEADER, ": ", &beacon.node.to_string(), "\r\n"]);
        head.extend(["x-forwarded-for: ", &beacon.device.to_string(), "\r\n"]);
        if let Some(agent) = beacon.user_agent {
            head.extend(["user-agent: ", agent, "\r\n"]);
        }
        head.push_str("\r\n");
        let (done, answered) = oneshot::channel();
        let body_max = beacon.body_max;
        self.client.call(Call { origin: origin(&base), head, pipelined: false, body_max, done });
        let within = self.within;
        async move {
            let answered = timeout(within, answered).await.map_err(|_| CallError::TimedOut)?;
            answered.unwrap_or(Err(CallError::Saturated))
        }
    }
}
