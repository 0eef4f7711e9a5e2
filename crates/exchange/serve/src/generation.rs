//! One configuration in force: built off the shards, handed to them whole.
//!
//! A DSP that a reload leaves alone keeps its connections and its counts: both hang on its id and
//! on how it is reached, not on its place in the file. It must not know how a file is read.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use runtime::metrics::PerShard;
use tokio::sync::watch;

use crate::config::ExchangeConfig;
use crate::dns::{Name, Resolver};
use crate::fanout::{Addresses, Endpoint, EndpointOptions};
use crate::metrics::{DspMetrics, SeatMetrics};

/// One configuration in force. An auction sees one from its beginning to its end.
#[derive(Debug)]
pub struct Generation {
    /// Counts from 1; each reload that changes anything makes the next.
    pub number: u64,
    /// What was configured.
    pub config: ExchangeConfig,
    /// In the order of `config.market.dsps`.
    pub dsps: Vec<DspInForce>,
}

/// What outlives a reload of one DSP.
#[derive(Clone, Debug)]
pub struct DspInForce {
    /// The same one for as long as the DSP is reached in the same way.
    pub(crate) endpoint: Arc<Endpoint>,
    /// What each shard counts of it.
    pub metrics: PerShard<DspMetrics>,
    /// What each shard counts of its seats, in configured order.
    pub seats: Vec<PerShard<SeatMetrics>>,
}

/// What a reload has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The generation now in force.
    pub number: u64,
    /// Ids of DSPs that were not there before.
    pub added: Vec<String>,
    /// Ids of DSPs that are no longer there.
    pub removed: Vec<String>,
    /// Keys that differ from what is in force and take effect only at the next start.
    pub needs_restart: Vec<&'static str>,
}

/// Builds generations and publishes them to the shards.
#[derive(Debug)]
pub(crate) struct Generations {
    shards: usize,
    known: HashMap<Box<str>, Known>,
    resolver: Resolver,
    published: watch::Sender<Arc<Generation>>,
    /// No longer in force, and perhaps still in an auction's hands: freed here, so that no shard
    /// spends its time on that.
    retired: Vec<Arc<Generation>>,
}

/// A configured DSP.
#[derive(Debug)]
struct Known {
    reached: (String, u16, EndpointOptions),
    endpoint: Arc<Endpoint>,
    metrics: PerShard<DspMetrics>,
    seats: HashMap<Box<str>, PerShard<SeatMetrics>>,
}

impl Generations {
    /// Makes `config` the first generation, for as many shards.
    pub(crate) fn new(config: ExchangeConfig, shards: usize, resolver: Resolver) -> Self {
        let mut known = HashMap::new();
        let generation = build(1, config, &mut known, shards);
        let generations = Self {
            shards,
            resolver,
            published: watch::Sender::new(Arc::new(generation)),
            known,
            retired: Vec::new(),
        };
        generations.resolve();
        generations
    }

    /// The generation in force, and those to come.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Generation>> {
        self.published.subscribe()
    }

    /// The generation in force.
    pub(crate) fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.published.borrow())
    }

    /// Puts `config` in force.
    pub(crate) fn replace(&mut self, mut config: ExchangeConfig) -> Reloaded {
        let before = self.current();
        let mut needs_restart = Vec::new();
        if config.listen != before.config.listen {
            needs_restart.push("exchange.listen");
            config.listen = before.config.listen;
        }
        let generation = build(before.number + 1, config, &mut self.known, self.shards);
        let number = generation.number;
        let of = |generation: &Generation| -> Vec<String> {
            generation.config.market.dsps.iter().map(|dsp| dsp.id.to_string()).collect()
        };
        let (old, new) = (of(&before), of(&generation));
        drop(before);
        self.retired.push(self.published.send_replace(Arc::new(generation)));
        self.retired.retain(|generation| Arc::strong_count(generation) > 1);
        self.resolve();
        Reloaded {
            number,
            added: new.iter().filter(|id| !old.contains(id)).cloned().collect(),
            removed: old.into_iter().filter(|id| !new.contains(id)).collect(),
            needs_restart,
        }
    }

    fn resolve(&self) {
        let generation = self.current();
        let names = self.known.values().filter_map(|known| {
            let (host, port, _) = &known.reached;
            if host.parse::<std::net::IpAddr>().is_ok() {
                return None; // Was set when the endpoint was made.
            }
            let addresses = known.endpoint.addresses.clone();
            Some(Name { host: host.clone(), port: *port, addresses })
        });
        self.resolver.keep(names.collect(), generation.config.dns);
    }
}

/// Takes over from `known` what is still configured, and forgets the rest.
fn build(
    number: u64,
    config: ExchangeConfig,
    known: &mut HashMap<Box<str>, Known>,
    shards: usize,
) -> Generation {
    let mut still = HashMap::with_capacity(config.market.dsps.len());
    let mut dsps = Vec::with_capacity(config.market.dsps.len());
    for (rules, reached) in config.market.dsps.iter().zip(&config.endpoints) {
        let mut dsp = known.remove(&rules.id).unwrap_or_else(|| Known {
            reached: reached.clone(),
            endpoint: endpoint(reached),
            metrics: PerShard::new(shards),
            seats: HashMap::new(),
        });
        if dsp.reached != *reached {
            dsp.endpoint = endpoint(reached);
            dsp.reached = reached.clone();
        }
        let mut seat = |name: &str| {
            let counted = dsp.seats.entry(name.into());
            counted.or_insert_with(|| PerShard::new(shards)).clone()
        };
        let seats = rules.seats.iter().map(|name| seat(name)).collect();
        let (endpoint, metrics) = (Arc::clone(&dsp.endpoint), dsp.metrics.clone());
        dsps.push(DspInForce { endpoint, metrics, seats });
        still.insert(rules.id.clone(), dsp);
    }
    *known = still;
    Generation { number, config, dsps }
}

fn endpoint((host, port, options): &(String, u16, EndpointOptions)) -> Arc<Endpoint> {
    let addresses = Addresses::default();
    if let Ok(address) = host.parse() {
        addresses.set(vec![SocketAddr::new(address, *port)]);
    }
    Arc::new(Endpoint::new(options, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dsps: &str) -> ExchangeConfig {
        let text = format!("[exchange]\nlisten = \"127.0.0.1:0\"\n{dsps}");
        let config = runtime::config::parse("test.toml", &text, ExchangeConfig::read);
        config.unwrap_or_else(|problems| panic!("{problems}")).expect("the service is on")
    }

    fn dsp(id: &str, port: u16, keys: &str) -> String {
        format!("[[dsp]]\nid = \"{id}\"\nurl = \"http://127.0.0.1:{port}/bid\"\n{keys}\n")
    }

    fn generations(dsps: &str) -> Generations {
        Generations::new(config(dsps), 1, Resolver::start().expect("a thread"))
    }

    #[test]
    fn what_a_reload_leaves_alone_is_kept() {
        let mut all = generations(&(dsp("a", 1, "") + &dsp("b", 2, "") + &dsp("c", 3, "")));
        let first = all.current();
        first.dsps[1].metrics.shard(0).retries.increment();
        first.dsps[1].seats[0].shard(0).wins.increment();
        // `b` moves in the file and is bought from elsewhere, `c` moves to another port.
        let b = dsp("b", 2, "countries = [\"DEU\"]\nseats = [\"x\", \"b\"]");
        let reloaded = all.replace(config(&(b + &dsp("c", 4, "") + &dsp("d", 5, ""))));
        let want = Reloaded {
            number: 2,
            added: vec!["d".to_owned()],
            removed: vec!["a".to_owned()],
            needs_restart: vec![],
        };
        assert_eq!(reloaded, want);
        let second = all.current();
        assert!(Arc::ptr_eq(&first.dsps[1].endpoint, &second.dsps[0].endpoint));
        assert_eq!(second.dsps[0].metrics.shard(0).retries.value(), 1);
        assert_eq!(second.dsps[0].seats[1].shard(0).wins.value(), 1, "seat `b` is `b` still");
        assert_eq!(second.dsps[0].seats[0].shard(0).wins.value(), 0);
        assert!(!Arc::ptr_eq(&first.dsps[2].endpoint, &second.dsps[1].endpoint));
    }

    #[test]
    fn what_cannot_change_is_told() {
        let mut all = generations("");
        let mut other = config("");
        other.listen = "127.0.0.1:1".parse().unwrap();
        assert_eq!(all.replace(other).needs_restart, ["exchange.listen"]);
        assert_eq!(all.current().config.listen.port(), 0, "what is in force stays told");
    }

    #[test]
    fn a_retired_generation_is_freed_when_its_last_auction_is_over() {
        let mut all = generations("");
        let held = all.current();
        all.replace(config(""));
        assert_eq!(all.retired.len(), 1);
        drop(held);
        all.replace(config(""));
        assert_eq!(all.retired.len(), 0);
    }
}
