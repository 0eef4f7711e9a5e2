//! Resolves DSPs' host names again and again, on the control thread: a slow resolver must not
//! hold up an auction. It must not know what the names are for.

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

/// A name to keep resolved.
#[derive(Clone, Debug)]
pub struct ResolvedName {
    /// Host name.
    pub host: String,
    /// Port of the addresses to publish.
    pub port: u16,
    /// Where they are published.
    pub addresses: Addresses,
}

/// A name is resolved again after its TTL, but not sooner than this, nor after a failure: a TTL of
/// nothing must not keep a name server busy.
const TTL_MIN: Duration = Duration::from_secs(5);

/// A name is resolved again at least this often: where a DSP moves in a hurry it is followed in minutes,
/// whatever TTL it had said.
const TTL_MAX: Duration = Duration::from_secs(300);

/// Resolves names until it is dropped.
#[derive(Debug)]
pub struct Resolver {
    wanted: mpsc::UnboundedSender<Vec<ResolvedName>>,
}

impl Resolver {
    /// Of no names yet.
    pub fn start(control: &Control) -> Self {
        let (wanted, told) = mpsc::unbounded_channel();
        control.spawn(move || follow(told));
        Self { wanted }
    }

    /// Keeps these names resolved, and no others any more. One reload sends one list, so the
    /// channel holds as many as an operator can write.
    pub fn keep(&self, names: Vec<ResolvedName>) {
        // What follows them ends only after this does, but at the end of the process.
        let _ = self.wanted.send(names);
    }
}

/// Each list replaces the one before.
async fn follow(mut told: mpsc::UnboundedReceiver<Vec<ResolvedName>>) {
    let mut running = JoinSet::new();
    let mut resolver = None;
    while let Some(names) = told.recv().await {
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

/// Several DSPs, or ports, may share a host: it is looked up once for all.
fn by_host(names: Vec<ResolvedName>) -> HashMap<String, Vec<ResolvedName>> {
    let mut hosts: HashMap<String, Vec<ResolvedName>> = HashMap::new();
    for name in names {
        hosts.entry(name.host.clone()).or_default().push(name);
    }
    hosts
}

/// How a host is looked up: its addresses, and until when they hold.
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

/// Resolves one host for ever.
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
                // What it resolved to last stays: an old address beats none.
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
mod tests {
    use super::*;

    /// Answers in turn, and ends with the last one for ever.
    struct Answers(Vec<Result<(Vec<IpAddr>, Duration), &'static str>>, mpsc::UnboundedSender<()>);

    impl HostLookup for Answers {
        type Error = &'static str;

        async fn lookup(&mut self, host: &str) -> Result<(Vec<IpAddr>, Instant), &'static str> {
            assert_eq!(host, "dsp.example");
            let answer = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() };
            self.1.send(()).expect("the test listens");
            answer.map(|(addresses, ttl)| (addresses, Instant::now() + ttl))
        }
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn addresses_follow_the_name_and_outlive_failures() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::time::pause();
            let addresses = Addresses::default();
            let name = ResolvedName {
                host: "dsp.example".to_owned(),
                port: 443,
                addresses: addresses.clone(),
            };
            let (asked, mut questions) = mpsc::unbounded_channel();
            let hour = Duration::from_secs(3600);
            let answers = Answers(
                vec![
                    Ok((vec![ip(1)], Duration::ZERO)),
                    Err("SERVFAIL"),
                    Ok((vec![ip(2), ip(3)], hour)),
                ],
                asked,
            );
            tokio::spawn(keep(answers, name.host.clone(), vec![name]));
            let mut after = Vec::new();
            for _ in 0..4 {
                let before = tokio::time::Instant::now();
                questions.recv().await.unwrap();
                let waited = before.elapsed().as_secs();
                tokio::task::yield_now().await;
                after.push((
                    waited,
                    addresses.current().iter().map(SocketAddr::ip).collect::<Vec<_>>(),
                ));
            }
            let want = [
                (0, vec![ip(1)]),
                (5, vec![ip(1)]), // The TTL of nothing is held to the least; the failure keeps it.
                (5, vec![ip(2), ip(3)]),
                (300, vec![ip(2), ip(3)]), // An hour is held to the most.
            ];
            assert_eq!(after, want);
            assert_eq!(addresses.current()[0].port(), 443);
        });
    }

    #[test]
    fn one_look_up_serves_all_ports_of_a_host() {
        let name = |host: &str, port| ResolvedName {
            host: host.to_owned(),
            port,
            addresses: Addresses::default(),
        };
        let hosts = by_host(vec![name("a", 1), name("b", 1), name("a", 2)]);
        assert_eq!((hosts["a"].len(), hosts["b"].len()), (2, 1));
    }
}
