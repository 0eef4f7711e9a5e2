//! Resolves DSPs' host names again and again, on a thread of its own: a slow resolver must not
//! hold up an auction.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::{ResolverBuilder, TokioResolver};
use tracing::{debug, info, warn};

use crate::config::DnsLimits;
use crate::fanout::Addresses;

/// A name to keep resolved.
#[derive(Debug)]
pub struct Name {
    /// Host name or address.
    pub host: String,
    /// Port of the addresses to publish.
    pub port: u16,
    /// Where they are published.
    pub addresses: Addresses,
}

/// Publishes addresses at once and keeps names resolved until the handle is dropped.
pub fn start(names: Vec<Name>, limits: DnsLimits) -> std::io::Result<Resolver> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut to_resolve = Vec::new();
    for name in names {
        match name.host.parse::<IpAddr>() {
            Ok(address) => name.addresses.set(vec![SocketAddr::new(address, name.port)]),
            Err(_) => to_resolve.push(name),
        }
    }
    if to_resolve.is_empty() {
        return Ok(Resolver { _stop: stop });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("dns".to_owned()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = resolve_all(to_resolve, limits) => (),
                _ = stopped => (),
            }
        });
    })?;
    Ok(Resolver { _stop: stop })
}

/// Keeps names resolved until dropped.
#[derive(Debug)]
pub struct Resolver {
    _stop: tokio::sync::oneshot::Sender<()>,
}

async fn resolve_all(names: Vec<Name>, limits: DnsLimits) {
    let resolver = match TokioResolver::builder_tokio().and_then(ResolverBuilder::build) {
        Ok(resolver) => resolver,
        Err(error) => {
            warn!(%error, "no resolver: DSPs with host names cannot be reached");
            return std::future::pending().await;
        }
    };
    let tasks: Vec<_> = names.into_iter().map(|name| keep(&resolver, name, limits)).collect();
    let mut set = tokio::task::JoinSet::new();
    for task in tasks {
        set.spawn(task);
    }
    while set.join_next().await.is_some() {}
}

/// Resolves one name for ever.
fn keep(
    resolver: &TokioResolver,
    name: Name,
    limits: DnsLimits,
) -> impl Future<Output = ()> + Send + 'static {
    let resolver = resolver.clone();
    async move {
        let mut failed = false;
        loop {
            let pause = match resolver.lookup_ip(name.host.as_str()).await {
                Ok(found) => {
                    let addresses: Vec<_> =
                        found.iter().map(|ip| SocketAddr::new(ip, name.port)).collect();
                    if name.addresses.current().is_empty() || failed {
                        info!(host = name.host, ?addresses, "resolved");
                    }
                    failed = false;
                    name.addresses.set(addresses);
                    found.valid_until().saturating_duration_since(Instant::now())
                }
                Err(error) => {
                    // What it resolved to last stays: an old address beats none.
                    if failed {
                        debug!(host = name.host, %error, "still cannot be resolved");
                    } else {
                        warn!(host = name.host, %error, "cannot be resolved; trying on");
                    }
                    failed = true;
                    Duration::ZERO
                }
            };
            tokio::time::sleep(pause.clamp(limits.ttl_min, limits.ttl_max.max(limits.ttl_min)))
                .await;
        }
    }
}
