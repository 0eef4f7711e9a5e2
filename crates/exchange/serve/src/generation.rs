//! One configuration in force: built off the shards, handed to them whole.
//!
//! A DSP that a reload leaves alone keeps its connections and counters: they depend on its id and
//! its address, not on its position in the file. Must not know how a file is read.

pub(crate) mod dns;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::Seat;
use exchange_core::guard::{CallGrant, CallRate, GuardLimits};
use runtime::metrics::PerShard;
use tokio::sync::watch;
use tracing::warn;

use crate::budgets::campaigns::{Campaigns, Payer, Payers};
use crate::config::{DspAddress, ExchangeConfig, NoticesConfig, RecordConfig};
use crate::fanout::{Addresses, Endpoint};
use crate::generation::dns::{ResolvedName, Resolver};
use crate::guards::{GuardId, Guards};
use crate::metrics::{DspMetrics, SeatMetrics};
use crate::notices::Sealer;
use crate::recording::{GenerationLog, Unrecorded};

/// One configuration in force. An auction uses the same one throughout.
#[derive(Debug)]
pub struct Generation {
    /// Increases with each reload. Unique on a node with a record; else each start counts from 1.
    pub number: u64,
    /// As configured. With direct campaigns, the last of `market.dsps` stands for them.
    pub config: ExchangeConfig,
    /// In the order of `config.market.dsps`, without the direct campaigns.
    pub dsps: Vec<DspInForce>,
    /// None without direct campaigns.
    pub direct: Option<DirectInForce>,
    pub(crate) campaigns: Arc<Campaigns>,
    /// Accounts that pay for seats of DSPs.
    payers: HashMap<Seat, Payer>,
    /// Guards of publishers, by id.
    pub(crate) callers: HashMap<Box<str>, CallerGuard>,
    pub(crate) sealer: Option<Sealer>,
}

#[derive(Clone, Debug)]
pub struct DirectInForce {
    pub metrics: PerShard<DspMetrics>,
    /// Of the accounts that have campaigns, in the market's order.
    pub seats: Vec<PerShard<SeatMetrics>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CallerGuard {
    pub(crate) guard: GuardId,
    pub(crate) first_grants: Arc<[CallGrant]>,
    rate: CallRate,
}

/// Parts of a DSP that survive a reload.
#[derive(Clone, Debug)]
pub struct DspInForce {
    /// Stays the same until the DSP's address or options change.
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) guard: GuardId,
    pub(crate) first_grants: Arc<[CallGrant]>,
    /// Metrics of the DSP.
    pub metrics: PerShard<DspMetrics>,
    /// Metrics of its seats, in configured order.
    pub seats: Vec<PerShard<SeatMetrics>>,
}

/// Outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationChange {
    /// The generation now in force.
    pub number: u64,
    /// Ids of DSPs that are new.
    pub added: Vec<String>,
    /// Ids of DSPs that are gone.
    pub removed: Vec<String>,
    /// Changed keys that take effect only at the next start.
    pub needs_restart: Vec<&'static str>,
}

/// Builds generations and publishes them to the shards.
#[derive(Debug)]
pub(crate) struct GenerationBuilder {
    shards: usize,
    config: ExchangeConfig,
    campaigns: Arc<Campaigns>,
    known: HashMap<Box<str>, KnownDsp>,
    direct: DirectCounts,
    resolver: Resolver,
    guards: Guards,
    /// Kept beside the log, in case none is configured. None without a dispatcher.
    own_key: Option<[u8; 32]>,
    /// The dispatcher's configuration, which reloads do not change.
    notices: Option<NoticesConfig>,
    /// The record's configuration, which reloads do not change.
    record: Option<RecordConfig>,
    log: Option<GenerationLog>,
    /// Ids of paused DSPs, configured or not.
    paused: HashSet<String>,
    /// Seats that have an account but no DSP, each with the reason; warned of once.
    strange: BTreeMap<String, String>,
    published: watch::Sender<Arc<Generation>>,
    /// No longer in force, but auctions may still use them. Freed here, off the shards.
    retired: Vec<Arc<Generation>>,
}

#[derive(Debug)]
struct DirectCounts {
    metrics: PerShard<DspMetrics>,
    seats: HashMap<Box<str>, PerShard<SeatMetrics>>,
}

#[derive(Debug)]
struct KnownDsp {
    address: DspAddress,
    endpoint: Arc<Endpoint>,
    limits: GuardLimits,
    guard: GuardId,
    first_grants: Arc<[CallGrant]>,
    metrics: PerShard<DspMetrics>,
    seats: HashMap<Box<str>, PerShard<SeatMetrics>>,
}

impl Generation {
    /// Ids of the DSPs that are called, in order.
    pub fn dsp_ids(&self) -> impl Iterator<Item = &str> {
        self.config.market.dsps[..self.dsps.len()].iter().map(|dsp| &*dsp.id)
    }

    pub(crate) fn payers(&self) -> Payers<'_> {
        Payers { seats: &self.payers, campaigns: self.campaigns.catalogue.campaigns() }
    }
}

impl DirectCounts {
    /// Adds metrics of `campaigns` to `generation`, whose market already includes them.
    fn joined(
        &mut self,
        generation: Generation,
        campaigns: &Arc<Campaigns>,
        shards: usize,
    ) -> Generation {
        let market = &generation.config.market;
        let mut seat = |name: &str| {
            let counted = self.seats.entry(name.into());
            counted.or_insert_with(|| PerShard::new(shards)).clone()
        };
        let direct = market.dsps.get(generation.dsps.len()).map(|direct| DirectInForce {
            metrics: self.metrics.clone(),
            seats: direct.seats.iter().map(|name| seat(name)).collect(),
        });
        let payers = campaigns.payers(market);
        Generation { direct, payers, campaigns: Arc::clone(campaigns), ..generation }
    }
}

impl GenerationBuilder {
    /// Records the first generation, then makes it current.
    pub(crate) fn new(
        (config, campaigns): (ExchangeConfig, Campaigns),
        shards: usize,
        (resolver, guards): (Resolver, Guards),
        (own_key, mut log): (Option<[u8; 32]>, Option<GenerationLog>),
    ) -> Result<Self, Unrecorded> {
        let mut joined = config.clone();
        campaigns.join(&mut joined.market);
        let number = log.as_mut().map_or(Ok(1), |log| log.record(&joined, campaigns.number))?;
        let mut known = HashMap::new();
        let sealer = Sealer::of(&config, own_key, config.record.as_ref());
        let callers = callers(&config, &HashMap::new(), &guards);
        let (notices, record) = (config.notices.clone(), config.record.clone());
        let paused = HashSet::new();
        let campaigns = Arc::new(campaigns);
        let mut direct = DirectCounts { metrics: PerShard::new(shards), seats: HashMap::new() };
        let rest = build(number, joined, &mut known, (shards, &guards, &paused));
        let generation = direct.joined(rest, &campaigns, shards);
        let generation = Generation { sealer, callers, ..generation };
        let mut generations = Self {
            shards,
            config,
            campaigns,
            direct,
            resolver,
            guards,
            own_key,
            notices,
            record,
            log,
            paused,
            strange: BTreeMap::new(),
            published: watch::Sender::new(Arc::new(generation)),
            known,
            retired: Vec::new(),
        };
        generations.warn_of_strange();
        generations.resolve();
        Ok(generations)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Generation>> {
        self.published.subscribe()
    }

    pub(crate) fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.published.borrow())
    }

    /// Records a generation with `campaigns`, puts it in force, and returns its number.
    pub(crate) fn set_campaigns(&mut self, campaigns: Arc<Campaigns>) -> Result<u64, Unrecorded> {
        let former = std::mem::replace(&mut self.campaigns, campaigns);
        let put = self.replace(self.config.clone());
        if put.is_err() {
            self.campaigns = former;
        }
        put.map(|reloaded| reloaded.number)
    }

    pub(crate) fn replace(
        &mut self,
        mut config: ExchangeConfig,
    ) -> Result<GenerationChange, Unrecorded> {
        let before = self.current();
        let mut needs_restart = Vec::new();
        if config.listen != before.config.listen {
            needs_restart.push("exchange.listen");
            config.listen = before.config.listen;
        }
        if config.tie_key_is_drawn && before.config.tie_key_is_drawn {
            // A drawn key lasts until the next start.
            config.market.tie_key = before.config.market.tie_key;
        }
        needs_restart.extend(restart_of_notices(self.notices.as_ref(), config.notices.as_ref()));
        needs_restart.extend(restart_of_record(self.record.as_ref(), config.record.as_ref()));
        let configured = config.clone();
        self.campaigns.join(&mut config.market);
        let number = match &mut self.log {
            Some(log) => log.record(&config, self.campaigns.number)?,
            None => before.number + 1,
        };
        self.config = configured;
        // Without notices nothing new is sealed, but earlier tokens open until they expire.
        let sealer = Sealer::of(&config, self.own_key, self.record.as_ref());
        let sealer = sealer.or_else(|| before.sealer.clone());
        let callers = callers(&config, &before.callers, &self.guards);
        let beside = (self.shards, &self.guards, &self.paused);
        let rest = build(number, config, &mut self.known, beside);
        let generation = self.direct.joined(rest, &self.campaigns, self.shards);
        let generation = Generation { sealer, callers, ..generation };
        let of = |generation: &Generation| -> Vec<String> {
            generation.dsp_ids().map(str::to_owned).collect()
        };
        let (old, new) = (of(&before), of(&generation));
        drop(before);
        self.retired.push(self.published.send_replace(Arc::new(generation)));
        self.retired.retain(|generation| Arc::strong_count(generation) > 1);
        self.warn_of_strange();
        self.resolve();
        Ok(GenerationChange {
            number,
            added: new.iter().filter(|id| !old.contains(id)).cloned().collect(),
            removed: old.into_iter().filter(|id| !new.contains(id)).collect(),
            needs_restart,
        })
    }

    /// Records the generation in force again if due. Returns the wait until the next time.
    pub(crate) fn repeat_record(&mut self) -> Option<Duration> {
        self.log.as_mut().map(GenerationLog::repeat)
    }

    pub(crate) fn pause(&mut self, id: &str, paused: bool) -> bool {
        let generation = self.current();
        let Some(index) = generation.dsp_ids().position(|known| known == id) else { return false };
        if paused {
            self.paused.insert(id.to_owned());
        } else {
            self.paused.remove(id);
        }
        self.guards.pause(generation.dsps[index].guard, paused);
        true
    }

    /// Warns once of each seat that has an account but no DSP: nobody pays for it.
    fn warn_of_strange(&mut self) {
        let strange = self.campaigns.strange(&self.config.market.dsps);
        for (seat, why) in &strange {
            if self.strange.get(seat) != Some(why) {
                warn!("an account names the seat `{seat}`: {why}");
            }
        }
        self.strange = strange;
    }

    fn resolve(&self) {
        let names = self.known.values().filter_map(|known| {
            let DspAddress { host, port, .. } = &known.address;
            if host.parse::<std::net::IpAddr>().is_ok() {
                return None; // Set when the endpoint was made.
            }
            let addresses = known.endpoint.addresses.clone();
            Some(ResolvedName { host: host.clone(), port: *port, addresses })
        });
        self.resolver.keep(names.collect());
    }
}

/// Reuses from `known` the DSPs that are still configured, and drops the others.
fn build(
    number: u64,
    config: ExchangeConfig,
    known: &mut HashMap<Box<str>, KnownDsp>,
    (shards, guards, paused): (usize, &Guards, &HashSet<String>),
) -> Generation {
    let mut still = HashMap::with_capacity(config.market.dsps.len());
    let mut dsps = Vec::with_capacity(config.market.dsps.len());
    let configured = config.market.dsps.iter().zip(&config.endpoints).zip(&config.guards);
    for ((rules, address), limits) in configured {
        let mut dsp = known.remove(&rules.id).unwrap_or_else(|| {
            let (guard, first_grants) = guards.add(*limits, paused.contains(&*rules.id));
            KnownDsp {
                address: address.clone(),
                endpoint: endpoint(address),
                limits: *limits,
                guard,
                first_grants,
                metrics: PerShard::new(shards),
                seats: HashMap::new(),
            }
        });
        if dsp.limits != *limits {
            guards.change(dsp.guard, *limits);
            dsp.limits = *limits;
        }
        if dsp.address != *address {
            dsp.endpoint = endpoint_after(&dsp, address);
            dsp.address = address.clone();
        }
        let mut seat = |name: &str| {
            let counted = dsp.seats.entry(name.into());
            counted.or_insert_with(|| PerShard::new(shards)).clone()
        };
        let seats = rules.seats.iter().map(|name| seat(name)).collect();
        dsps.push(DspInForce {
            endpoint: Arc::clone(&dsp.endpoint),
            guard: dsp.guard,
            first_grants: Arc::clone(&dsp.first_grants),
            metrics: dsp.metrics.clone(),
            seats,
        });
        still.insert(rules.id.clone(), dsp);
    }
    for gone in std::mem::replace(known, still).into_values() {
        guards.remove(gone.guard);
    }
    Generation {
        number,
        config,
        dsps,
        direct: None,
        campaigns: Arc::default(),
        payers: HashMap::new(),
        callers: HashMap::new(),
        sealer: None,
    }
}

/// Guards of publishers. One that had a guard keeps it.
fn callers(
    config: &ExchangeConfig,
    before: &HashMap<Box<str>, CallerGuard>,
    guards: &Guards,
) -> HashMap<Box<str>, CallerGuard> {
    let limited = config.callers.iter().filter_map(|(id, terms)| Some((&**id, terms.rate?)));
    let of = |(id, rate): (&str, CallRate)| {
        let limits = GuardLimits::of_rate(rate);
        let caller = match before.get(id) {
            Some(known) if known.rate == rate => known.clone(),
            Some(known) => {
                guards.change(known.guard, limits);
                CallerGuard { rate, ..known.clone() }
            }
            None => {
                let (guard, first_grants) = guards.add(limits, false);
                CallerGuard { guard, first_grants, rate }
            }
        };
        (id.into(), caller)
    };
    let after: HashMap<_, _> = limited.map(of).collect();
    for (id, gone) in before {
        if !after.contains_key(id) {
            guards.remove(gone.guard);
        }
    }
    after
}

/// Notice keys that need a restart: those of delivery.
fn restart_of_notices(
    dispatcher: Option<&NoticesConfig>,
    after: Option<&NoticesConfig>,
) -> Option<&'static str> {
    let fixed = |notices: &NoticesConfig| {
        let trusted = notices.authorities.clone();
        (notices.calls.clone(), trusted, notices.policy, notices.node_connections_max)
    };
    (dispatcher.map(fixed) != after.map(fixed)).then_some("exchange.notices")
}

/// The same for the record: a reload changes only which bodies are recorded.
fn restart_of_record(
    open: Option<&RecordConfig>,
    after: Option<&RecordConfig>,
) -> Option<&'static str> {
    let fixed =
        |record: &RecordConfig| RecordConfig { bodies: Default::default(), ..record.clone() };
    (open.map(fixed) != after.map(fixed)).then_some("record")
}

fn endpoint(DspAddress { host, port, options }: &DspAddress) -> Arc<Endpoint> {
    let addresses = Addresses::default();
    if let Ok(address) = host.parse() {
        addresses.set(vec![SocketAddr::new(address, *port)]);
    }
    Arc::new(Endpoint::new(options, addresses))
}

/// A known DSP at another address or with other options. The same host keeps its addresses.
fn endpoint_after(known: &KnownDsp, address: &DspAddress) -> Arc<Endpoint> {
    let is_same_place = known.address.host == address.host && known.address.port == address.port;
    if !is_same_place {
        return endpoint(address);
    }
    Arc::new(Endpoint::new(&address.options, known.endpoint.addresses.clone()))
}

#[cfg(test)]
mod tests {
    use runtime::control::Control;

    use super::*;

    fn config(dsps: &str) -> ExchangeConfig {
        let text = format!("[exchange]\nlisten = \"127.0.0.1:0\"\n{dsps}");
        let config = runtime::config::parse("test.toml", &text, ExchangeConfig::read);
        config.unwrap_or_else(|problems| panic!("{problems}")).expect("the service is on")
    }

    fn dsp(id: &str, port: u16, keys: &str) -> String {
        format!("[[dsp]]\nid = \"{id}\"\nurl = \"http://127.0.0.1:{port}/bid\"\n{keys}\n")
    }

    fn generations(dsps: &str) -> GenerationBuilder {
        let control = Control::start().expect("a thread");
        let resolver = Resolver::start(&control);
        GenerationBuilder::new(
            (config(dsps), Campaigns::default()),
            1,
            (resolver, Guards::new(1).0),
            (None, None),
        )
        .expect("nothing is recorded")
    }

    #[test]
    fn what_a_reload_leaves_alone_is_kept() {
        let mut all = generations(&(dsp("a", 1, "") + &dsp("b", 2, "") + &dsp("c", 3, "")));
        let first = all.current();
        first.dsps[1].metrics.shard(0).retries.increment();
        first.dsps[1].seats[0].shard(0).wins.increment();
        // `b` moves in the file and gets other seats; `c` moves to another port.
        let b = dsp("b", 2, "countries = [\"DEU\"]\nseats = [\"x\", \"b\"]");
        let reloaded = all.replace(config(&(b + &dsp("c", 4, "") + &dsp("d", 5, "")))).unwrap();
        let want = GenerationChange {
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

    /// Names resolve later; until then the DSP would not be asked.
    #[test]
    fn a_dsp_that_is_reached_in_another_way_keeps_its_addresses() {
        let named =
            |rest: &str| format!("[[dsp]]\nid = \"a\"\nurl = \"http://dsp.invalid:{rest}\"\n");
        let mut all = generations(&named("1/bid"));
        let known = SocketAddr::from(([192, 0, 2, 1], 1));
        all.current().dsps[0].endpoint.addresses.set(vec![known]);
        all.replace(config(&named("1/other"))).unwrap();
        assert_eq!(*all.current().dsps[0].endpoint.addresses.current(), [known]);
        all.replace(config(&named("2/other"))).unwrap();
        assert!(all.current().dsps[0].endpoint.addresses.current().is_empty(), "elsewhere");
    }

    #[test]
    fn what_cannot_change_is_told() {
        let mut all = generations("");
        let mut other = config("");
        other.listen = "127.0.0.1:1".parse().unwrap();
        assert_eq!(all.replace(other).unwrap().needs_restart, ["exchange.listen"]);
        assert_eq!(all.current().config.listen.port(), 0, "what is in force stays told");
    }

    #[test]
    fn how_notices_are_delivered_needs_a_restart() {
        let notices = |keys: &str| {
            format!("[record]\n[exchange.notices]\nurl = \"https://exchange.example/n/\"\n{keys}\n")
        };
        let mut all = generations(&notices(""));
        for keys in ["retries = 9", "timeout = \"1s\"", "node_connections_max = 1"] {
            assert_eq!(
                all.replace(config(&notices(keys))).unwrap().needs_restart,
                ["exchange.notices"],
                "{keys}"
            );
            let again = all.replace(config(&notices(keys))).unwrap();
            assert_eq!(again.needs_restart, ["exchange.notices"], "{keys} is not in force yet");
            assert!(
                all.replace(config(&notices(""))).unwrap().needs_restart.is_empty(),
                "{keys} is gone"
            );
        }
        let takes_over = notices("markup_timeout = \"1ms\"");
        assert!(all.replace(config(&takes_over)).unwrap().needs_restart.is_empty());
    }

    /// Outstanding tokens name the node, and the log belongs to it.
    #[test]
    fn a_node_stays_what_it_was_until_the_next_start() {
        let of = |node: u32, other: u32| {
            let notices = "[exchange.notices]\nurl = \"https://exchange.example/n/\"\n";
            let nodes =
                format!("[[exchange.notices.node]]\nid = {other}\nurl = \"http://10.0.0.1/n/\"\n");
            config(&format!("{notices}{nodes}[record]\nnode = {node}\n"))
        };
        let control = Control::start().expect("a thread");
        let resolver = Resolver::start(&control);
        let beside = (resolver, Guards::new(1).0);
        let start = (of(1, 5), Campaigns::default());
        let mut all = GenerationBuilder::new(start, 1, beside, (Some([7; 32]), None)).unwrap();
        assert_eq!(all.replace(of(2, 6)).unwrap().needs_restart, ["record"]);
        let generation = all.current();
        let sealer = generation.sealer.as_ref().expect("notices are ours to fire");
        assert_eq!(sealer.node, 1);
        assert_eq!(sealer.nodes.keys().collect::<Vec<_>>(), [&6], "who else there is may change");
    }

    #[test]
    fn a_drawn_tie_key_outlives_a_reload() {
        let mut all = generations("");
        let drawn = all.current().config.market.tie_key;
        all.replace(config("")).unwrap();
        assert!(all.current().config.market.tie_key == drawn);
        let key = "tie_key = \"00112233445566778899aabbccddeeff\"\n";
        all.replace(config(key)).unwrap();
        assert!(all.current().config.market.tie_key != drawn);
    }

    #[test]
    fn a_pause_outlasts_the_dsps_absence() {
        use exchange_core::guard::BreakerState;
        let mut all = generations(&dsp("a", 1, ""));
        assert!(all.pause("a", true));
        assert!(!all.pause("b", true), "there is none");
        all.replace(config("")).unwrap();
        all.replace(config(&dsp("a", 1, ""))).unwrap();
        let dsp = &all.current().dsps[0];
        assert_eq!(all.guards.status(dsp.guard).unwrap().state, BreakerState::Paused);
        let mut first = exchange_core::guard::ShardGuard::new(&dsp.first_grants[0]);
        assert!(first.admit().is_err(), "not even before the governors' next step");
    }

    #[test]
    fn a_retired_generation_is_freed_when_its_last_auction_is_over() {
        let mut all = generations("");
        let held = all.current();
        all.replace(config("")).unwrap();
        assert_eq!(all.retired.len(), 1);
        drop(held);
        all.replace(config("")).unwrap();
        assert_eq!(all.retired.len(), 0);
    }
}
