//! What the process may open at once, shared out before it starts: connections of callers and to
//! DSPs get no more than the rest can spare, so that operators, the record and a reload are served
//! while those are at their limits.

use exchange_serve::ExchangeConfig;
use runtime::admin::VITALS_CONNECTIONS;
use runtime::shards::{EVICTING_MAX, ShardsOptions};
use tracing::warn;

use crate::config::Config;
use crate::exit::Failure;

/// Kept for the process itself: standard streams, listeners, the record's and the ledger's files,
/// files that a reload reads, name servers, and the threads beside the shards.
const PROCESS: u64 = 128;
/// Kept for each shard: its two event queues and what wakes them.
const SHARD: u64 = 8;
/// Fewest connections of callers, and to DSPs, that a start is worth; each shard needs at least one
/// for each DSP.
const CONNECTIONS_MIN: u64 = 16;

/// Fits the limits on connections into `descriptors`, and tells which ones were lowered.
///
/// # Errors
///
/// When too few are left for any connections.
pub(crate) fn fit(
    config: &mut Config,
    exchange: &ExchangeConfig,
    descriptors: u64,
) -> anyhow::Result<()> {
    let wanted = Wanted::of(config, exchange);
    let Some(Shares { callers, outbound }) = wanted.share(descriptors) else {
        let least = wanted.least();
        return Err(Failure::unavailable(format!(
            "this process may open {descriptors} files, and needs {least}: raise `ulimit -n`, or \
             lower `runtime.shards`, `admin.connections_max`, or `connections_max` or \
             `node_connections_max` of `exchange.notices`"
        )));
    };
    let shards = &mut config.shards;
    if callers < wanted.callers {
        warn!(
            descriptors,
            "runtime.connections_max is lowered from {} to {callers}: the limit of open files \
             allows no more; raise `ulimit -n` or lower the key",
            wanted.callers
        );
        lower(shards, usize::try_from(callers).unwrap_or(usize::MAX));
    }
    if outbound < wanted.outbound {
        warn!(
            descriptors,
            "connections to DSPs are lowered from {} to {outbound}: the limit of open files allows \
             no more; raise `ulimit -n` or lower exchange.pool.connections_max",
            wanted.outbound
        );
    }
    shards.outbound_max = usize::try_from(outbound).unwrap_or(usize::MAX);
    Ok(())
}

/// Lowers the connections of callers; an address keeps its share of them.
fn lower(shards: &mut ShardsOptions, connections_max: usize) {
    let of_address = shards.connections_per_caller_max.min(shards.connections_max);
    let share = of_address.saturating_mul(connections_max) / shards.connections_max.max(1);
    shards.connections_per_caller_max = share.max(1);
    shards.connections_max = connections_max;
}

/// Descriptors that limits ask for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Kept, whatever connections there are.
    fixed: u64,
    callers: u64,
    /// Connections to the DSPs of the start.
    outbound: u64,
    /// Fewest connections to DSPs.
    outbound_min: u64,
}

/// Descriptors that connections get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    callers: u64,
    outbound: u64,
}

impl Wanted {
    fn of(config: &Config, exchange: &ExchangeConfig) -> Self {
        let shards = config.shards.shards as u64;
        // A reload may bring the first DSP.
        let dsps = exchange.market.dsps.len().max(1) as u64;
        let of_notices = exchange.notices.as_ref().zip(exchange.record.as_ref());
        let notices = of_notices.map_or(0, |(notices, record)| {
            let nodes = notices.nodes.keys().filter(|node| **node != record.node).count() as u64;
            dsps * notices.calls.connections_max as u64
                + shards * nodes * notices.node_connections_max as u64
        });
        Self {
            fixed: PROCESS
                + SHARD * shards
                + notices
                + (config.admin.connections_max + VITALS_CONNECTIONS + 3 * EVICTING_MAX) as u64,
            callers: config.shards.connections_max as u64,
            outbound: shards * dsps * exchange.pool.connections_max as u64,
            outbound_min: CONNECTIONS_MIN.max(shards * dsps),
        }
    }

    /// Fewest descriptors that a start is worth.
    fn least(self) -> u64 {
        self.fixed + CONNECTIONS_MIN + self.outbound_min
    }

    /// Half of what is not kept for each, or what the other leaves; to DSPs all that callers leave,
    /// for a reload may bring more of them. None if that is too little.
    fn share(self, descriptors: u64) -> Option<Shares> {
        if descriptors < self.least() {
            return None;
        }
        let left = descriptors - self.fixed;
        let half = (left / 2).max(left.saturating_sub(self.outbound));
        let callers = self.callers.min(half).min(left - self.outbound_min);
        Some(Shares { callers, outbound: left - callers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let wanted = Wanted { fixed: 200, callers: 1000, outbound: 2000, outbound_min: 16 };
        let check_of = |wanted: Wanted, descriptors, want: Option<(u64, u64)>| {
            let shares = wanted.share(descriptors);
            let want = want.map(|(callers, outbound)| Shares { callers, outbound });
            assert_eq!(shares, want, "{descriptors}");
        };
        let check = |descriptors, want| check_of(wanted, descriptors, want);
        check(64, None);
        check(231, None);
        check(232, Some((16, 16)));
        check(1200, Some((500, 500)));
        check(2200, Some((1000, 1000)));
        check(3199, Some((1000, 1999)));
        check(3200, Some((1000, 2000)));
        // A reload may bring more DSPs.
        check(9200, Some((1000, 8000)));
        check(u64::MAX, Some((1000, u64::MAX - 1200)));
        check_of(Wanted { outbound: 20, ..wanted }, 1000, Some((780, 20)));
        check_of(Wanted { outbound: 10, ..wanted }, 1000, Some((784, 16)));
        // Each shard can ask each DSP.
        let many = Wanted { outbound_min: 100, ..wanted };
        check_of(many, 315, None);
        check_of(many, 316, Some((16, 100)));
        check_of(many, 400, Some((100, 100)));
    }

    #[test]
    fn an_address_keeps_its_share() {
        let mut shards = ShardsOptions::default();
        lower(&mut shards, 100);
        assert_eq!((shards.connections_max, shards.connections_per_caller_max), (100, 50));
        shards.connections_per_caller_max = 100;
        lower(&mut shards, 16);
        assert_eq!((shards.connections_max, shards.connections_per_caller_max), (16, 16));
    }
}
