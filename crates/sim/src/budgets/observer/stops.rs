//! After a clean stop, only reservations remain of a process's leases.

use super::{ObservedState, Observer};

impl Observer {
    /// A shard has closed and reported.
    pub(in super::super) fn shard_closed(&mut self, shard: u16) {
        for ((of, slot, period), cell) in &self.cells {
            if *of == shard {
                *self.held_at_end.entry((*slot, *period)).or_default() += cell.reserved;
                self.leases.receive(*slot, *period, shard, cell.granted);
            }
        }
        self.leases.close_shard(shard);
    }

    /// The process has stopped and all its state is durable. What remains of its leases is at most
    /// the reserved amounts, and nothing was returned of reservations that can still be won in
    /// time.
    pub(in super::super) fn check_stopped(&self) {
        for (key, lease) in self.leases.own_leases() {
            let left = lease.granted.get() - lease.returned.get() - lease.settled.get();
            let held = self.held_at_end.get(&(key.slot, key.period)).copied().unwrap_or(0);
            assert!(left <= held, "{left} stands of {key:?}, reservations held {held}: {lease:?}");
            let is_open = |it: &&super::ObservedReservation| {
                let is_of = (it.slot, it.period) == (key.slot, key.period);
                is_of
                    && matches!(
                        it.state,
                        ObservedState::Open | ObservedState::Claimed { was_open: true }
                    )
            };
            let of_epoch = self.tokens.iter().filter(|(id, _)| id.0.epoch == key.epoch);
            let open = of_epoch.map(|(_, it)| it).filter(is_open).filter(|it| it.record.is_none());
            let open: u64 = open.map(|it| it.amount).sum();
            let used = lease.returned.get() + self.leases.won_in_time(key) + open;
            assert!(used <= lease.granted.get(), "{used} given back or used of {key:?}: {lease:?}");
        }
    }
}
