//! What outlives a generation: endpoints, guards and counters of DSPs, publishers and direct
//! campaigns.
//!
//! They depend on ids and addresses, not on positions in the file.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exchange_core::Market;
use exchange_core::guard::{CallRate, GuardLimits};
use runtime::metrics::PerShard;

use crate::budgets::campaigns::{Campaigns, remote_payers};
use crate::config::{DspAddress, ExchangeConfig};
use crate::fanout::{Addresses, Endpoint};
use crate::generation::dns::{ResolvedName, Resolver};
use crate::generation::in_force::{CallerGuard, DirectInForce, DspInForce, Generation};
use crate::guards::Guards;
use crate::metrics::{DspMetrics, SeatMetrics};

#[derive(Debug)]
pub(crate) struct DspRegistry {
    shards: usize,
    pub(super) guards: Guards,
    resolver: Resolver,
    dsps: HashMap<Box<str>, KnownDsp>,
    /// Ids of paused DSPs, configured or not.
    paused: HashSet<String>,
    direct_metrics: PerShard<DspMetrics>,
    /// By the account of direct campaigns.
    direct_seats: HashMap<Box<str>, PerShard<SeatMetrics>>,
}

#[derive(Debug)]
struct KnownDsp {
    address: DspAddress,
    limits: GuardLimits,
    seats: HashMap<Box<str>, PerShard<SeatMetrics>>,
    /// Its seats are those of the generation.
    in_force: DspInForce,
}

impl DspRegistry {
    pub fn new(shards: usize, guards: Guards, resolver: Resolver) -> Self {
        Self {
            shards,
            guards,
            resolver,
            dsps: HashMap::new(),
            paused: HashSet::new(),
            direct_metrics: PerShard::new(shards),
            direct_seats: HashMap::new(),
        }
    }

    /// A generation without a sealer, enrichments, and payers of sold deals. `config` has the direct
    /// campaigns in its market. Forgets the DSPs and publishers that `config` no longer has.
    pub fn generation(
        &mut self,
        number: u64,
        config: ExchangeConfig,
        campaigns: &Arc<Campaigns>,
        before: Option<&Generation>,
    ) -> Generation {
        let known = HashMap::new();
        let callers = self.callers(&config, before.map_or(&known, |before| &before.callers));
        let dsps = self.dsps(&config);
        Generation {
            number,
            direct: self.direct(&config.market, dsps.len()),
            payers: campaigns.payers(&config.market),
            sold_payers: Vec::new(),
            remote_payers: remote_payers(
                &config.market,
                config.pacer.as_ref().map_or(&[], |pacer| &pacer.seats[..]),
            ),
            config,
            dsps,
            campaigns: Arc::clone(campaigns),
            callers,
            sealer: None,
            enrichments: Vec::new(),
        }
    }

    fn dsps(&mut self, config: &ExchangeConfig) -> Vec<DspInForce> {
        let mut still = HashMap::with_capacity(config.market.dsps.len());
        let mut dsps = Vec::with_capacity(config.market.dsps.len());
        let configured = config.market.dsps.iter().zip(&config.endpoints).zip(&config.guards);
        for ((rules, address), limits) in configured {
            let mut dsp = self.dsps.remove(&rules.id).unwrap_or_else(|| {
                let is_paused = self.paused.contains(&*rules.id);
                let (guard, first_grants) = self.guards.add(*limits, is_paused);
                let (endpoint, metrics) = (endpoint(address), PerShard::new(self.shards));
                let seats = Vec::new();
                KnownDsp {
                    address: address.clone(),
                    limits: *limits,
                    seats: HashMap::new(),
                    in_force: DspInForce { endpoint, guard, first_grants, metrics, seats },
                }
            });
            if dsp.limits != *limits {
                self.guards.change(dsp.in_force.guard, *limits);
                dsp.limits = *limits;
            }
            if dsp.address != *address {
                dsp.in_force.endpoint = endpoint_after(&dsp, address);
                dsp.address = address.clone();
            }
            let seats = rules.seats.iter();
            dsp.in_force.seats =
                seats.map(|name| seat(&mut dsp.seats, name, self.shards)).collect();
            dsps.push(dsp.in_force.clone());
            still.insert(rules.id.clone(), dsp);
        }
        for gone in std::mem::replace(&mut self.dsps, still).into_values() {
            self.guards.remove(gone.in_force.guard);
        }
        dsps
    }

    /// Metrics of direct campaigns, which follow the DSPs that are called.
    fn direct(&mut self, market: &Market, called: usize) -> Option<DirectInForce> {
        let direct = market.dsps.get(called)?;
        let seats = direct.seats.iter();
        let seats = seats.map(|name| seat(&mut self.direct_seats, name, self.shards)).collect();
        Some(DirectInForce { metrics: self.direct_metrics.clone(), seats })
    }

    /// Guards of publishers. One that had a guard keeps it.
    fn callers(
        &self,
        config: &ExchangeConfig,
        before: &HashMap<Box<str>, CallerGuard>,
    ) -> HashMap<Box<str>, CallerGuard> {
        let guards = &self.guards;
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

    /// Pauses or resumes a DSP, also for later generations.
    pub fn pause(&mut self, id: &str, paused: bool) {
        if paused {
            self.paused.insert(id.to_owned());
        } else {
            self.paused.remove(id);
        }
        if let Some(known) = self.dsps.get(id) {
            self.guards.pause(known.in_force.guard, paused);
        }
    }

    /// Has the names of all DSPs resolved.
    pub fn resolve(&self) {
        let names = self.dsps.values().filter_map(|known| {
            let DspAddress { host, port, .. } = &known.address;
            if host.parse::<IpAddr>().is_ok() {
                return None; // Set when the endpoint was made.
            }
            let addresses = known.in_force.endpoint.addresses.clone();
            Some(ResolvedName { host: host.clone(), port: *port, addresses })
        });
        self.resolver.resolve_all(names.collect());
    }
}

fn seat(
    known: &mut HashMap<Box<str>, PerShard<SeatMetrics>>,
    name: &str,
    shards: usize,
) -> PerShard<SeatMetrics> {
    known.entry(name.into()).or_insert_with(|| PerShard::new(shards)).clone()
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
    Arc::new(Endpoint::new(&address.options, known.in_force.endpoint.addresses.clone()))
}
