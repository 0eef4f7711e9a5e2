//! The open connections of a listener: their number, their addresses, and which idle one is evicted
//! for a new one.
//!
//! A connection is idle while it has no request under way: also before the first one and during a
//! TLS handshake or an incomplete head. The table must not know what is served.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Notify;

/// Most evicted connections whose sockets are still open. Each takes a descriptor beyond the limit.
pub const EVICTING_MAX: usize = 16;

/// Microseconds until a busy connection is examined again, so that a flood does not examine all.
const RECHECK_US: u64 = 10_000;

/// States of [`IdleMark`] that are not times.
const BUSY: u64 = 0;
const EVICTED: u64 = u64::MAX;

/// Limits on open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In total.
    pub total: usize,
    /// From one IPv4 address, or one IPv6 network of 64 bits.
    pub per_address: usize,
}

/// The open connections of a listener. Clones share it.
#[derive(Clone, Debug)]
pub struct ConnectionTable {
    limits: ConnectionLimits,
    origin: Instant,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    next_id: u64,
    by_id: HashMap<u64, ConnectionRow>,
    /// All connections, in the order of eviction.
    order: BTreeSet<OrderKey>,
    by_address: HashMap<IpAddr, BTreeSet<OrderKey>>,
    /// Evicted connections that have not left.
    evicting: usize,
}

/// A lower bound of the time since when the connection is idle, and its id.
type OrderKey = (u64, u64);

#[derive(Debug)]
struct ConnectionRow {
    address: IpAddr,
    idle_since: u64,
    mark: Arc<IdleMark>,
}

/// Whether one connection is idle. Its thread writes this with every request; the accepting thread
/// reads it only to find an idle connection.
#[derive(Debug)]
struct IdleMark {
    /// Microseconds of the table's clock since when it is idle; or [`BUSY`], or [`EVICTED`].
    state: AtomicU64,
    evicted: Notify,
}

#[derive(Debug)]
pub(crate) struct TableEntry {
    id: u64,
    mark: Arc<IdleMark>,
    table: ConnectionTable,
    has_left: Cell<bool>,
    pub(crate) evicted_another: bool,
}

impl ConnectionTable {
    /// An empty table.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, origin: Instant::now(), rows: Arc::default() }
    }

    /// Adds a connection from `address`. At the limit of its address this evicts the longest idle
    /// connection of that address; at the total limit, the longest idle one of all. None if no such
    /// connection is idle.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<TableEntry> {
        let (address, now) = (network_of(address), self.now());
        let mut rows = self.rows();
        let of_address = rows.by_address.get(&address).map_or(0, BTreeSet::len);
        let evicted_another = if self.limits.per_address <= of_address {
            rows.evict(Some(address), now)?;
            true
        } else if self.limits.total <= rows.by_id.len() {
            rows.evict(None, now)?;
            true
        } else {
            false
        };
        let id = rows.next_id;
        rows.next_id += 1;
        let mark = Arc::new(IdleMark { state: AtomicU64::new(now), evicted: Notify::new() });
        rows.by_id.insert(id, ConnectionRow { address, idle_since: now, mark: Arc::clone(&mark) });
        rows.order.insert((now, id));
        rows.by_address.entry(address).or_default().insert((now, id));
        drop(rows);
        Some(TableEntry {
            id,
            mark,
            table: self.clone(),
            has_left: Cell::new(false),
            evicted_another,
        })
    }

    /// Microseconds since the table was made, never [`BUSY`].
    fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// In microseconds, never [`BUSY`].
    fn at(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin);
        u64::try_from(since.as_micros()).map_or(EVICTED - 1, |now| now + 1)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().expect("nothing panics while it holds the table")
    }
}

impl Rows {
    /// Evicts the longest idle connection. None if none is idle or too many are being evicted.
    fn evict(&mut self, of: Option<IpAddr>, now: u64) -> Option<()> {
        if EVICTING_MAX <= self.evicting {
            return None;
        }
        loop {
            let order = of.map_or(Some(&self.order), |address| self.by_address.get(&address))?;
            // The time is a lower bound: a connection active since then moves back.
            let (idle_since, id) = *order.first().filter(|(idle_since, _)| *idle_since <= now)?;
            let mark = &self.by_id[&id].mark;
            let state = &mark.state;
            match state.compare_exchange(idle_since, EVICTED, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    mark.evicted.notify_one();
                    self.remove(id);
                    self.evicting += 1;
                    return Some(());
                }
                Err(BUSY) => self.reorder(id, now + RECHECK_US),
                Err(later) => self.reorder(id, later),
            }
        }
    }

    fn reorder(&mut self, id: u64, idle_since: u64) {
        let row = self.by_id.get_mut(&id).expect("what is ordered has a row");
        let former = (row.idle_since, id);
        row.idle_since = idle_since;
        let of_address = self.by_address.get_mut(&row.address).expect("its address has an order");
        for order in [&mut self.order, of_address] {
            order.remove(&former);
            order.insert((idle_since, id));
        }
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(ConnectionRow { address, idle_since, .. }) = self.by_id.remove(&id) else {
            return false;
        };
        self.order.remove(&(idle_since, id));
        let of_address = self.by_address.get_mut(&address).expect("its address has an order");
        of_address.remove(&(idle_since, id));
        if of_address.is_empty() {
            self.by_address.remove(&address);
        }
        true
    }
}

impl TableEntry {
    pub(super) fn set_busy(&self) {
        self.mark.state.store(BUSY, Ordering::Relaxed);
    }

    pub(super) fn set_idle(&self, now: Instant) {
        self.mark.state.store(self.table.at(now), Ordering::Relaxed);
    }

    /// Waits until the connection is evicted and must close at once.
    pub(super) async fn evicted(&self) {
        self.mark.evicted.notified().await;
    }

    pub(super) fn leave(&self) {
        if self.has_left.replace(true) {
            return;
        }
        let mut rows = self.table.rows();
        if !rows.remove(self.id) {
            rows.evicting -= 1;
        }
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The network that counts as one caller: an IPv6 caller usually owns a whole /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(total: usize, per_address: usize) -> ConnectionTable {
        ConnectionTable::new(ConnectionLimits { total, per_address })
    }

    fn is_evicted(entry: &TableEntry) -> bool {
        entry.mark.state.load(Ordering::Relaxed) == EVICTED
    }

    #[test]
    fn an_address_has_its_share() {
        let table = table(10, 2);
        let enter = |address: &str| {
            let entry = table.enter(address.parse().unwrap());
            entry.inspect(TableEntry::set_busy)
        };
        let first = enter("192.0.2.1").unwrap();
        let _second = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());
        let _other = enter("192.0.2.2").unwrap();
        drop(first);
        let _again = enter("192.0.2.1").unwrap();
        assert!(enter("192.0.2.1").is_none());

        let six = [enter("2001:db8::1").unwrap(), enter("2001:db8::2:1").unwrap()];
        assert!(enter("2001:db8::3").is_none(), "the same network");
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(six);
        let rows = table.rows();
        assert_eq!(rows.by_address.len(), 2, "an address without connections is forgotten");
        assert_eq!((rows.by_id.len(), rows.order.len(), rows.evicting), (3, 3, 0));
    }

    #[test]
    fn the_longest_idle_goes_first() {
        let table = table(4, 2);
        let enter = |address: &str| table.enter(address.parse().unwrap());
        let [a1, a2, b1, b2] =
            ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"].map(|who| enter(who).unwrap());
        // The first was active after the others. Times are set, so that none are equal.
        let entered = table.now();
        for (entry, after) in [(&a2, 1), (&b1, 2), (&b2, 3), (&a1, 4)] {
            entry.mark.state.store(entered + after, Ordering::Relaxed);
        }
        while table.now() <= entered + 4 {
            std::thread::yield_now();
        }
        // At its limit an address loses its own connection, although another's is idle for longer.
        let b3 = enter("192.0.2.2").unwrap();
        assert!(b3.evicted_another && is_evicted(&b1));
        assert!(![&a1, &a2, &b2].into_iter().any(is_evicted));
        // At the total limit the longest idle one of all goes.
        b2.set_busy();
        let c1 = enter("192.0.2.3").unwrap();
        assert!(c1.evicted_another && is_evicted(&a2));
        for entry in [&a1, &b3, &c1] {
            entry.set_busy();
        }
        assert!(enter("192.0.2.4").is_none(), "all others are busy");
        assert_eq!(table.rows().evicting, 2);
        drop((a2, b1));
        assert_eq!(table.rows().evicting, 0);
        assert!(enter("192.0.2.4").is_none(), "their places were taken when they were evicted");
        // A connection found busy is soon examined again.
        a1.set_idle(Instant::now());
        while enter("192.0.2.4").is_none() {
            std::thread::yield_now();
        }
        assert!(is_evicted(&a1) && !is_evicted(&b2));
    }

    #[test]
    fn few_are_being_evicted_at_once() {
        let table = table(EVICTING_MAX + 1, usize::MAX);
        let enter = || table.enter("192.0.2.1".parse().unwrap());
        let mut places: Vec<_> = (0..=EVICTING_MAX).map(|_| enter().unwrap()).collect();
        let newer: Vec<_> = (0..EVICTING_MAX).map(|_| enter().unwrap()).collect();
        assert!(enter().is_none(), "none of the evicted ones has left");
        let evicted = places.iter().position(is_evicted).unwrap();
        drop(places.swap_remove(evicted));
        assert!(enter().is_some());
        drop(newer);
    }
}
