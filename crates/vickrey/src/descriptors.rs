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
/// files that a reload reads, name servers, notices, and the threads beside the shards.
const PROCESS: u64 = 128;
/// Kept for each shard: its two event queues and what wakes them.
const SHARD: u64 = 8;
/// Fewest connections of callers, and to DSPs, that a start is worth.
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
    let wanted = Wanted {
        fixed: PROCESS
            + SHARD * config.shards.shards as u64
            + (config.admin.connections_max + VITALS_CONNECTIONS + 3 * EVICTING_MAX) as u64,
        callers: config.shards.connections_max as u64,
        // A reload may bring the first DSP.
        outbound: (config.shards.shards * exchange.market.dsps.len().max(1)) as u64
            * exchange.pool.connections_max as u64,
    };
    let Some(Shares { callers, outbound }) = wanted.share(descriptors) else {
        let least = wanted.fixed + 2 * CONNECTIONS_MIN;
        return Err(Failure::unavailable(format!(
            "this process may open {descriptors} files, and needs {least}: raise `ulimit -n`, or \
             lower `runtime.shards` or `admin.connections_max`"
        )));
    };
    let shards = &mut config.shards;
    if callers < wanted.callers {
        warn!(
            descriptors,
            "runtime.connections_max is {callers} instead of {}, which is what open files are left \
             for: raise `ulimit -n`, or lower it",
            wanted.callers
        );
        lower(shards, usize::try_from(callers).unwrap_or(usize::MAX));
    }
    if outbound < wanted.outbound {
        warn!(
            descriptors,
            "at most {outbound} connections to DSPs are opened instead of {}, which is what open \
             files are left for: raise `ulimit -n`, or lower `exchange.pool.connections_max`",
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
    outbound: u64,
}

/// Descriptors that connections get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    callers: u64,
    outbound: u64,
}

impl Wanted {
    /// Half of what is not kept for each, or what the other leaves. None if that is too little.
    fn share(self, descriptors: u64) -> Option<Shares> {
        let left = descriptors.checked_sub(self.fixed)?;
        if left < 2 * CONNECTIONS_MIN {
            return None;
        }
        let callers = self.callers.min((left / 2).max(left.saturating_sub(self.outbound)));
        Some(Shares { callers, outbound: self.outbound.min(left - callers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let wanted = Wanted { fixed: 200, callers: 1000, outbound: 2000 };
        let check = |descriptors, want: Option<(u64, u64)>| {
            let shares = wanted.share(descriptors);
            let want = want.map(|(callers, outbound)| Shares { callers, outbound });
            assert_eq!(shares, want, "{descriptors}");
        };
        check(64, None);
        check(231, None);
        check(232, Some((16, 16)));
        check(1200, Some((500, 500)));
        check(2200, Some((1000, 1000)));
        check(3199, Some((1000, 1999)));
        check(3200, Some((1000, 2000)));
        check(u64::MAX, Some((1000, 2000)));
        let few = Wanted { outbound: 10, ..wanted };
        assert_eq!(few.share(1000), Some(Shares { callers: 790, outbound: 10 }));
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
