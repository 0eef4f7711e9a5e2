//! Divides the process's file descriptors before the start. Inbound and outbound connections leave
//! enough for admin requests, files and reloads even at their limits.

use tracing::warn;

use crate::admin::HEALTH_CONNECTIONS;
use crate::shards::{EVICTING_MAX, ShardsOptions};

/// For the process: standard streams, listeners, files, name servers and threads other than shards.
const PROCESS: u64 = 128;
/// Reserved for each shard: its two event queues and their wakers.
const SHARD: u64 = 8;
/// Fewest client connections to start with.
const CONNECTIONS_MIN: u64 = 16;

/// File descriptors that a service needs besides its client connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorNeeds {
    /// Reserved regardless of connections.
    pub fixed: u64,
    /// Keys that lower `fixed`, for a message.
    pub fixed_keys: &'static str,
    /// Most outbound connections, as configured.
    pub outbound: u64,
    /// Fewest outbound connections it can work with.
    pub outbound_min: u64,
    /// The peers of outbound connections, for a message.
    pub outbound_to: &'static str,
    /// The key that lowers `outbound`.
    pub outbound_key: &'static str,
}

/// Too few file descriptors are left for connections.
#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open {descriptors} files, and needs {least}: raise `ulimit -n`, or lower \
     `runtime.shards`, `admin.connections_max`{keys}"
)]
pub struct TooFewDescriptors {
    descriptors: u64,
    least: u64,
    keys: String,
}

/// Fits the limits on connections into `descriptors`, logging those it lowers. Returns the outbound
/// connections of each service, in the order of `needs`. Fails if too few are left for connections.
pub(super) fn fit(
    shards: &mut ShardsOptions,
    admin_connections_max: usize,
    needs: &[DescriptorNeeds],
    descriptors: u64,
) -> Result<Vec<usize>, TooFewDescriptors> {
    let wanted = DescriptorDemand::of(shards, admin_connections_max, needs);
    let Some(DescriptorShares { callers, outbound }) = wanted.share(descriptors) else {
        let keys = needs.iter().map(|needs| needs.fixed_keys).filter(|keys| !keys.is_empty());
        let keys = keys.map(|keys| format!(", or {keys}")).collect();
        return Err(TooFewDescriptors { descriptors, least: wanted.least(), keys });
    };
    if callers < wanted.callers {
        warn!(
            descriptors,
            "runtime.connections_max is lowered from {} to {callers}: the limit of open files \
             allows no more; raise `ulimit -n` or lower the key",
            wanted.callers
        );
        lower(shards, usize::try_from(callers).unwrap_or(usize::MAX));
    }
    Ok(needs.iter().map(|needs| outbound_share(needs, outbound, wanted, descriptors)).collect())
}

fn outbound_share(
    needs: &DescriptorNeeds,
    outbound: u64,
    wanted: DescriptorDemand,
    descriptors: u64,
) -> usize {
    let spare = outbound.saturating_sub(wanted.outbound_min);
    let spare_wanted = wanted.outbound.saturating_sub(wanted.outbound_min).max(1);
    let own_spare = needs.outbound.saturating_sub(needs.outbound_min);
    // A single user of outbound connections gets all that are left.
    let share = u128::from(spare) * u128::from(own_spare) / u128::from(spare_wanted);
    let share = if needs.outbound == wanted.outbound { spare.into() } else { share };
    let share = needs.outbound_min + u64::try_from(share).unwrap_or(u64::MAX);
    if share < needs.outbound {
        warn!(
            descriptors,
            "connections to {} are lowered from {} to {share}: the limit of open files allows no \
             more; raise `ulimit -n` or lower {}",
            needs.outbound_to,
            needs.outbound,
            needs.outbound_key
        );
    }
    usize::try_from(share).unwrap_or(usize::MAX)
}

fn lower(shards: &mut ShardsOptions, connections_max: usize) {
    let of_address = shards.connections_per_caller_max.min(shards.connections_max);
    let share = of_address.saturating_mul(connections_max) / shards.connections_max.max(1);
    shards.connections_per_caller_max = share.max(1);
    shards.connections_max = connections_max;
}

#[derive(Clone, Copy, Debug)]
struct DescriptorDemand {
    fixed: u64,
    callers: u64,
    outbound: u64,
    outbound_min: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DescriptorShares {
    callers: u64,
    outbound: u64,
}

impl DescriptorDemand {
    fn of(shards: &ShardsOptions, admin_connections_max: usize, needs: &[DescriptorNeeds]) -> Self {
        let sum = |of: fn(&DescriptorNeeds) -> u64| needs.iter().map(of).sum::<u64>();
        Self {
            fixed: PROCESS
                + SHARD * shards.shards as u64
                + sum(|needs| needs.fixed)
                + (admin_connections_max + HEALTH_CONNECTIONS + 3 * EVICTING_MAX) as u64,
            callers: shards.connections_max as u64,
            outbound: sum(|needs| needs.outbound),
            outbound_min: sum(|needs| needs.outbound_min),
        }
    }

    /// Fewest descriptors to start with.
    fn least(self) -> u64 {
        self.fixed + CONNECTIONS_MIN + self.outbound_min
    }

    /// Gives each side half of the unreserved descriptors, or what the other leaves. Outbound gets
    /// all that clients leave, because a reload may add peers. None if that is too little.
    fn share(self, descriptors: u64) -> Option<DescriptorShares> {
        if descriptors < self.least() {
            return None;
        }
        let left = descriptors - self.fixed;
        let half = (left / 2).max(left.saturating_sub(self.outbound));
        let callers = self.callers.min(half).min(left - self.outbound_min);
        Some(DescriptorShares { callers, outbound: left - callers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let wanted =
            DescriptorDemand { fixed: 200, callers: 1000, outbound: 2000, outbound_min: 16 };
        let check_of = |wanted: DescriptorDemand, descriptors, want: Option<(u64, u64)>| {
            let shares = wanted.share(descriptors);
            let want = want.map(|(callers, outbound)| DescriptorShares { callers, outbound });
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
        // A reload may bring more to connect to.
        check(9200, Some((1000, 8000)));
        check(u64::MAX, Some((1000, u64::MAX - 1200)));
        check_of(DescriptorDemand { outbound: 20, ..wanted }, 1000, Some((780, 20)));
        check_of(DescriptorDemand { outbound: 10, ..wanted }, 1000, Some((784, 16)));
        let many = DescriptorDemand { outbound_min: 100, ..wanted };
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
