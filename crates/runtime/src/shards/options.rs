//! The number of shards and their limits.

use std::thread::available_parallelism;

use super::admission::AdmissionLimits;
use crate::config::{Optional, Section};

/// More cores than any machine has.
const SHARDS_MAX: usize = 1024;

/// The number of shards and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardsOptions {
    /// Number of shard threads, at least 1.
    pub shards: usize,
    /// Cores to bind shards to, round-robin. None if the kernel chooses.
    pub cores: Option<Vec<usize>>,
    /// Most connections open at once. A further one evicts the longest idle one, or is closed.
    pub connections_max: usize,
    /// The same limit for one IPv4 address, or one IPv6 network of 64 bits.
    pub connections_per_caller_max: usize,
    /// Most outbound connections of all shards, usually what the descriptors allow.
    pub outbound_max: usize,
    /// When a shard refuses requests.
    pub overload: AdmissionLimits,
}

impl Default for ShardsOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            cores: None,
            connections_max: 10_000,
            connections_per_caller_max: 5_000,
            outbound_max: usize::MAX,
            overload: AdmissionLimits::default(),
        }
    }
}

impl ShardsOptions {
    /// Declares and reads the keys about shards and connections, and the table `overload`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let shards = s.integer(
            "shards",
            Optional(4),
            1..=SHARDS_MAX,
            "Number of shard threads, each with its own connections. If absent, one per core.",
        );
        let cores = s.integers(
            "cores",
            Optional(&[0, 1]),
            ..rustix::thread::CpuSet::MAX_CPU,
            "CPU cores to pin shards to, round-robin. If absent, shards are not pinned.",
        );
        if cores.as_ref().is_some_and(Vec::is_empty) {
            s.problem("cores", "[]", "must name a core, or be absent");
        }
        let connections_max = s.integer(
            "connections_max",
            10_000,
            1..=1_000_000_usize,
            "Maximum number of open connections. At the limit, a new connection replaces the one \
             that has been idle longest; if none is idle, the new connection is closed at once.",
        );
        let per_caller = s.integer(
            "connections_per_caller_max",
            Optional(1000),
            1..=1_000_000_usize,
            "Maximum number of open connections from one IPv4 address or IPv6 /64 network. At the \
             limit, a new connection replaces the one from there that has been idle longest; if \
             none is idle, it is closed at once. If absent, half of `connections_max`. Raise it \
             behind a load balancer, which counts as one address.",
        );
        let about = "Limits beyond which a shard refuses requests.";
        let overload = s.section("overload", about, AdmissionLimits::read);
        let all = || available_parallelism().map_or(1, usize::from);
        Self {
            shards: shards.unwrap_or_else(all),
            cores,
            connections_max,
            connections_per_caller_max: per_caller.unwrap_or(connections_max.div_ceil(2)),
            outbound_max: usize::MAX,
            overload,
        }
    }

    pub(super) fn core_of(&self, shard: usize) -> Option<usize> {
        let cores = self.cores.as_ref().filter(|cores| !cores.is_empty())?;
        Some(cores[shard % cores.len()])
    }
}
