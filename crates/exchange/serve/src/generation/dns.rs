//! Keeps DSPs' host names resolved, on the control thread: a slow resolver must not delay auctions.
//! Must not know what the names are for.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use http_kit::dns::system_resolver;
use runtime::control::Control;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::fanout::Addresses;

#[derive(Clone, Debug)]
pub struct ResolvedName {
    pub host: String,
    /// Port of the published addresses.
    pub port: u16,
    pub addresses: Addresses,
}

/// Shortest wait, also after failures: a TTL of 0 must not load the name server.
const TTL_MIN: Duration = Duration::from_secs(5);

/// Longest wait before a new look-up: a DSP that moves is followed in minutes, whatever its TTL.
const TTL_MAX: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct Resolver {
    names: mpsc::UnboundedSender<Vec<ResolvedName>>,
}

impl Resolver {
    pub fn start(control: &Control) -> Self {
        let (names, received) = mpsc::unbounded_channel();
        control.spawn(move || follow(received));
        Self { names }
    }

    /// Replaces the names to resolve. Each reload sends one list, so the channel stays short.
    pub fn resolve_all(&self, names: Vec<ResolvedName>) {
        // The receiver ends earlier only when the process ends.
        let _ = self.names.send(names);
    }
}

async fn follow(mut received: mpsc::UnboundedReceiver<Vec<ResolvedName>>) {
    let mut running = JoinSet::new();
    let mut resolver = None;
    while let Some(names) = received.recv().await {
        running.abort_all();
        if names.is_empty() {
            continue;
        }
        if resolver.is_none() {
            let made = system_resolver();
            let warn = |error: &String| {
                warn!(error, "no resolver: DSPs with host names cannot be reached");
            };
            resolver = made.inspect_err(warn).ok();
        }
        let Some(resolver) = &resolver else { continue };
        for (host, names) in by_host(names) {
            running.spawn(keep(resolver.clone(), host, names));
        }
    }
}

/// DSPs and ports may share a host, which is looked up once.
fn by_host(names: Vec<ResolvedName>) -> HashMap<String, Vec<ResolvedName>> {
    let mut hosts: HashMap<String, Vec<ResolvedName>> = HashMap::new();
    for name in names {
        hosts.entry(name.host.clone()).or_default().push(name);
    }
    hosts
}

trait HostLookup: Send + 'static {
    type Error: std::fmt::Display + Send;

    fn lookup(
        &mut self,
        host: &str,
    ) -> impl Future<Output = Result<(Vec<IpAddr>, Instant), Self::Error>> + Send;
}

impl HostLookup for TokioResolver {
    type Error = hickory_resolver::net::NetError;

    async fn lookup(&mut self, host: &str) -> Result<(Vec<IpAddr>, Instant), Self::Error> {
        let found = self.lookup_ip(host).await?;
        Ok((found.iter().collect(), found.valid_until()))
    }
}

async fn keep(mut resolver: impl HostLookup, host: String, names: Vec<ResolvedName>) {
    let mut failed = false;
    loop {
        let pause = match resolver.lookup(&host).await {
            Ok((addresses, valid_until)) => {
                if failed || names.iter().any(|name| name.addresses.current().is_empty()) {
                    info!(host, ?addresses, "resolved");
                }
                failed = false;
                for name in &names {
                    let of_port = addresses.iter().map(|ip| SocketAddr::new(*ip, name.port));
                    name.addresses.set(of_port.collect());
                }
                valid_until.saturating_duration_since(Instant::now())
            }
            Err(error) => {
                // Keep the last addresses: an old one beats none.
                if failed {
                    debug!(host, %error, "still cannot be resolved");
                } else {
                    warn!(host, %error, "cannot be resolved; trying on");
                }
                failed = true;
                Duration::ZERO
            }
        };
        tokio::time::sleep(pause.clamp(TTL_MIN, TTL_MAX)).await;
    }
}

#[cfg(test)]
mod tests;
