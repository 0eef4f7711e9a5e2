//! Called beacons. Each is remembered until its token expires, and pins its record in the journal.

use std::collections::{BTreeMap, BTreeSet};

use units::Tick;

use super::event::DeliveryTime;
use super::journal::NoticeEnd;
use crate::notices::token::TokenId;

#[derive(Debug)]
pub(crate) enum BeaconState {
    /// Its record is pending, and `calls` wait for it, in order. While the log fails no call waits,
    /// but the record may still become durable. A `job` of None means that no notice is sent.
    Accepting { job: Option<u64>, calls: Vec<u64> },
    /// Its record is durable; this notice is owed.
    Owed { job: u64 },
    /// Its notice is delivered, given up, or never existed.
    Settled {
        outcome: NoticeEnd,
        /// Whether the journal has the outcome.
        recorded: bool,
    },
}

#[derive(Debug)]
pub(crate) struct KnownBeacon {
    pub expires_ms: u64,
    pub state: BeaconState,
    /// Whether a call was acknowledged; assumed for beacons from before the start.
    pub acknowledged: bool,
    /// Sequence of the record that a start needs.
    pin: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct KnownBeacons {
    tokens: BTreeMap<TokenId, KnownBeacon>,
    pins: BTreeMap<u64, TokenId>,
    expiries: BTreeSet<(Tick, TokenId)>,
}

impl KnownBeacons {
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn token(&mut self, id: TokenId) -> Option<&mut KnownBeacon> {
        self.tokens.get_mut(&id)
    }

    pub fn insert(&mut self, id: TokenId, expires_ms: u64, state: BeaconState) {
        let acknowledged = !matches!(state, BeaconState::Accepting { .. });
        self.tokens.insert(id, KnownBeacon { expires_ms, state, acknowledged, pin: None });
    }

    pub fn remove(&mut self, id: TokenId) -> Option<KnownBeacon> {
        let token = self.tokens.remove(&id)?;
        if let Some(pin) = token.pin {
            self.pins.remove(&pin);
        }
        Some(token)
    }

    /// Replaces an earlier pin of its record.
    pub fn pin(&mut self, id: TokenId, sequence: u64) {
        let Some(token) = self.tokens.get_mut(&id) else { return };
        if let Some(before) = token.pin.replace(sequence) {
            self.pins.remove(&before);
        }
        self.pins.insert(sequence, id);
    }

    /// Lowest sequence that is needed.
    pub fn lowest_pin(&self) -> Option<u64> {
        self.pins.keys().next().copied()
    }

    /// Beacons with the oldest records.
    pub fn oldest(&self, count: usize) -> Vec<TokenId> {
        self.pins.values().take(count).copied().collect()
    }

    /// Unpins its record; it is only remembered until it expires.
    pub fn expire(&mut self, id: TokenId, now: DeliveryTime) {
        if let Some(token) = self.tokens.get(&id) {
            self.expiries.insert((now.tick_at(token.expires_ms), id));
        }
    }

    /// Forgets beacons that have expired by both clocks. By Unix time alone, setting the clock
    /// forward and back would revive a forgotten token.
    pub fn forget_expired(&mut self, now: DeliveryTime) {
        while let Some((at, id)) = self.expiries.first().copied().filter(|(at, _)| *at <= now.tick)
        {
            self.expiries.remove(&(at, id));
            match self.tokens.get(&id) {
                Some(token) if token.expires_ms > now.unix_ms => self.expire(id, now),
                _ => drop(self.remove(id)),
            }
        }
    }

    pub fn wake_at(&self) -> Option<Tick> {
        self.expiries.first().map(|(at, _)| *at)
    }
}
