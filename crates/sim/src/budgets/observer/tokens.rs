//! Reservations: each is made once and ends once.

use pacer_core::ledger::SettlementRecord;
use pacer_core::messages::Epoch;
use pacer_core::shard::token::{ReservationToken, TokenOrigin, TtlClass};
use pacer_core::shard::{self, TokenRejection};
use pacer_core::store::LeaseKey;
use units::Nanos;

use super::super::clock::SimClock;
use super::super::log::{SimTokenId, id_of};
use super::super::options::{LATE_WINDOW, TTLS};
use super::super::places::start_of;
use super::{ObservedBucket, ObservedReservation, ObservedState, ObservedWin, Observer};

/// A win of a reservation, and how it must be booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ObservedClaim {
    pub(in super::super) id: SimTokenId,
    pub(in super::super) price: u64,
    pub(in super::super) amount: u64,
    pub(in super::super) is_late: bool,
}

impl ObservedClaim {
    /// Settled, late and over.
    pub(in super::super) fn figures(&self) -> [u64; 3] {
        let settled = self.price.min(self.amount);
        if self.is_late { [0, self.price, 0] } else { [settled, 0, self.price - settled] }
    }

    /// The figures in the record; it may not know which wins came late.
    pub(in super::super) fn record(&self, is_late_told: bool) -> [u64; 3] {
        if is_late_told { self.figures() } else { [self.price, 0, 0] }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("short")
}

impl Observer {
    /// A shard is about to reserve.
    pub(in super::super) fn asked(&mut self, shard: u16, clock: &SimClock) {
        let seen = self.seen_unix_ms.entry(shard).or_default();
        *seen = (*seen).max(clock.unix_ms);
        self.pass(shard, clock);
    }

    /// A shard has reserved. `is_quiet` if no message from the ledger to it is in transit.
    pub(in super::super) fn reserved(
        &mut self,
        token: &ReservationToken,
        clock: &SimClock,
        is_quiet: bool,
    ) {
        let id = id_of(token);
        let shard = token.origin().shard;
        let (slot, period, amount) = (token.slot(), token.period(), token.amount().get());
        let cell = self.cells.get_mut(&(shard, slot, period)).expect("reserved out of a grant");
        cell.reserved += amount;
        let used = cell.reserved + cell.settled + cell.returned;
        assert!(used <= cell.granted, "{used} of {} reserved, settled or returned", cell.granted);
        assert!(clock.tick_ms < cell.until_ms, "reserved when {period:?} is over");
        let seen = self.seen_unix_ms[&shard];
        assert!(start_of(period) <= seen, "reserved in {period:?} before it begins");
        let is_closed = is_quiet && self.leases.is_closed(slot);
        assert!(!is_closed, "{slot:?} is closed, and shards have heard of it");
        let class = usize::from(token.ttl().0);
        let (ttl_ms, width_ms) = (millis(TTLS[class]), millis(TTLS[class]) / 16);
        let known = self.buckets.get(&(shard, class)).filter(|it| clock.tick_ms < it.full_ms);
        let full_ms = clock.tick_ms + width_ms;
        let bucket =
            known.copied().unwrap_or(ObservedBucket { full_ms, expires_ms: full_ms + ttl_ms });
        self.buckets.insert((shard, class), bucket);
        let made = ObservedReservation {
            slot,
            period,
            amount,
            expires_ms: bucket.expires_ms,
            forgotten_ms: bucket.expires_ms + millis(LATE_WINDOW),
            state: ObservedState::Open,
            authorised: 0,
            record: None,
        };
        let before = self.tokens.insert(id, made);
        assert!(before.is_none(), "a number is given once: {id:?}");
        self.expiries.entry(shard).or_default().insert((bucket.expires_ms, id));
        self.made += 1;
        self.authorise(id, amount);
    }

    /// Expires the reservations of a shard that are due.
    pub(in super::super) fn pass(&mut self, shard: u16, clock: &SimClock) {
        let Some(open) = self.expiries.get_mut(&shard) else { return };
        let later = open.split_off(&(clock.tick_ms + 1, first()));
        for (_, id) in std::mem::replace(open, later) {
            self.expire(id);
        }
    }

    /// Expires the reservations of dead epochs that are due.
    pub(in super::super) fn pass_dead(&mut self, clock: &SimClock) {
        let later = self.dead_expiries.split_off(&(clock.tick_ms + 1, first()));
        for (_, id) in std::mem::replace(&mut self.dead_expiries, later) {
            if self.tokens[&id].state == ObservedState::Open {
                self.set_state(id, ObservedState::Expired);
                self.authorise(id, 0);
            }
        }
    }

    fn expire(&mut self, id: SimTokenId) {
        if self.tokens[&id].state == ObservedState::Open {
            self.set_state(id, ObservedState::Expired);
            self.free(id);
        }
    }

    /// Ends the reservation of the money.
    fn free(&mut self, id: SimTokenId) {
        let it = self.tokens[&id];
        let cell = self.cells.get_mut(&(id.0.shard, it.slot, it.period));
        cell.expect("reserved out of a grant").reserved -= it.amount;
        self.authorise(id, 0);
    }

    fn set_state(&mut self, id: SimTokenId, state: ObservedState) {
        self.tokens.get_mut(&id).expect("the reservation was made").state = state;
    }

    pub(in super::super) fn released(&mut self, id: SimTokenId, amount: Nanos) {
        let it = self.tokens[&id];
        assert_eq!((it.state, it.amount), (ObservedState::Open, amount.get()), "released {id:?}");
        self.set_state(id, ObservedState::Released);
        self.free(id);
    }

    /// A shard has accepted a claim.
    pub(in super::super) fn claimed(&mut self, claimed: &ObservedClaim) {
        let it = self.tokens[&claimed.id];
        let was_open = it.state == ObservedState::Open;
        assert!(
            matches!(
                it.state,
                ObservedState::Open | ObservedState::Released | ObservedState::Expired
            ),
            "claimed twice: {it:?}"
        );
        assert_eq!((claimed.is_late, claimed.amount), (!was_open, it.amount), "claimed: {it:?}");
        self.set_state(claimed.id, ObservedState::Claimed { was_open });
    }

    /// A claim was given up.
    pub(in super::super) fn unclaimed(&mut self, id: SimTokenId, clock: &SimClock) {
        let it = self.tokens[&id];
        assert_eq!(it.record, None, "what is durable is not given up");
        match it.state {
            ObservedState::Claimed { was_open: true } if clock.tick_ms < it.expires_ms => {
                self.set_state(id, ObservedState::Open);
                self.expiries.entry(id.0.shard).or_default().insert((it.expires_ms, id));
            }
            ObservedState::Claimed { was_open: true } => {
                self.set_state(id, ObservedState::Expired);
                self.free(id);
            }
            ObservedState::Claimed { was_open: false } => {
                self.set_state(id, ObservedState::Expired);
            }
            state => panic!("given up, but it is {state:?}: {id:?}"),
        }
    }

    /// A record has become durable.
    pub(in super::super) fn durable(
        &mut self,
        id: SimTokenId,
        record: &SettlementRecord,
        clock: &SimClock,
    ) {
        let it = *self.tokens.get(&id).expect("what is won was reserved");
        assert_eq!(it.record, None, "a reservation is settled once: {id:?}");
        let key = record.key;
        let due = LeaseKey { slot: it.slot, period: it.period, node: id.0.node, epoch: id.0.epoch };
        assert_eq!(key, due, "a win is booked to the hour of its reservation");
        self.tokens.get_mut(&id).expect("it is there").record = Some(record.seq);
        let (settled, late, over) = (record.settled.get(), record.late.get(), record.over.get());
        let price = settled + late + over;
        let spent = self.spent.entry(key).or_default();
        spent.settled += settled;
        spent.late += late;
        spent.over += over;
        let is_late =
            !matches!(it.state, ObservedState::Open | ObservedState::Claimed { was_open: true });
        let in_time = if is_late { 0 } else { price.min(it.amount) };
        let is_ancient = it.forgotten_ms <= clock.tick_ms;
        if is_ancient {
            spent.ancient += price;
        }
        self.came.insert(record.seq, ObservedWin { in_time, is_ancient });
        self.won += 1;
        spent.beside += price - in_time;
        if let ObservedState::Claimed { .. } = it.state {
            let claimed = ObservedClaim { id, price, amount: it.amount, is_late };
            let due = claimed.record(self.is_late_told);
            assert_eq!([settled, late, over], due, "the record of {it:?}");
        } else {
            self.set_state(id, ObservedState::Won);
        }
        self.authorise(id, in_time);
    }

    /// A shard has settled a claim.
    pub(in super::super) fn settled(&mut self, claimed: &ObservedClaim, told: &shard::SettledWin) {
        let it = self.tokens[&claimed.id];
        assert!(it.record.is_some(), "settled before it is durable: {it:?}");
        let figures = claimed.figures();
        let said = [told.settled, told.late, told.over].map(Nanos::get);
        assert_eq!((said, told.slot, told.period), (figures, it.slot, it.period), "{it:?}");
        let key = (claimed.id.0.shard, it.slot, it.period);
        let cell = self.cells.get_mut(&key).expect("reserved out of a grant");
        let [settled, late, over] = figures;
        if !claimed.is_late {
            cell.reserved -= it.amount;
        }
        cell.settled += settled;
        cell.late += late;
        cell.over += over;
        self.set_state(claimed.id, ObservedState::Won);
    }

    /// The exchange gets the acknowledgement of a win.
    pub(in super::super) fn acknowledged(&self, id: SimTokenId) {
        let it = &self.tokens[&id];
        assert!(it.record.is_some(), "acknowledged before it is durable: {it:?}");
    }

    /// A shard has rejected a token.
    pub(in super::super) fn rejected(&self, id: SimTokenId, why: TokenRejection, clock: &SimClock) {
        let it = &self.tokens[&id];
        let is_so = match why {
            TokenRejection::Pending => matches!(it.state, ObservedState::Claimed { .. }),
            TokenRejection::AlreadyWon => it.state == ObservedState::Won,
            TokenRejection::AlreadyReleased => it.state == ObservedState::Released,
            TokenRejection::Expired => it.state == ObservedState::Expired,
            TokenRejection::TooOld => it.forgotten_ms <= clock.tick_ms,
            TokenRejection::DeadEpoch | TokenRejection::OtherShard => true,
            TokenRejection::OtherNode | TokenRejection::FutureEpoch | TokenRejection::NeverMade => {
                false
            }
        };
        assert!(is_so, "{why:?}, but it is {it:?}");
    }

    /// The process has ended. Its open reservations can still be won.
    pub(in super::super) fn crashed(&mut self) {
        self.leases.end();
        let open: Vec<SimTokenId> = std::mem::take(&mut self.expiries)
            .into_values()
            .flatten()
            .map(|(_, id)| id)
            .chain(self.tokens.iter().filter(|(_, it)| is_claimed(it.state)).map(|(id, _)| *id))
            .collect();
        for id in open {
            let it = self.tokens[&id];
            let state = match it.state {
                ObservedState::Claimed { .. } if it.record.is_some() => ObservedState::Won,
                ObservedState::Claimed { was_open: true } => ObservedState::Open,
                ObservedState::Claimed { was_open: false } => ObservedState::Expired,
                state => state,
            };
            self.set_state(id, state);
            if state == ObservedState::Open {
                self.dead_expiries.insert((it.expires_ms, id));
            }
        }
        self.cells.clear();
        self.held_at_end.clear();
        self.buckets.clear();
        self.seen_unix_ms.clear();
        self.gates.clear();
    }
}

fn is_claimed(state: ObservedState) -> bool {
    matches!(state, ObservedState::Claimed { .. })
}

/// Sorts before all others.
fn first() -> SimTokenId {
    let origin = TokenOrigin { node: 0, epoch: Epoch(0), shard: 0 };
    (origin, (TtlClass(0), 0, 0))
}
