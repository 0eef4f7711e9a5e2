//! Which beacons were called: remembered until their tokens expire, and pinned to the journal's
//! records that say so.

use std::collections::{BTreeMap, BTreeSet};

use units::Tick;

use super::event::DeliveryTime;
use super::journal::NoticeEnd;
use crate::notices::token::TokenId;

/// How far a beacon's notice has come.
#[derive(Debug)]
pub(crate) enum BeaconState {
    /// Its record is on its way to the log; these calls wait for it, the first one first. None does
    /// while the log is failing, and the record may become durable all the same.
    /// Without a job there is nobody to tell.
    Accepting { job: Option<u64>, calls: Vec<u64> },
    /// Its record is durable; this notice is owed.
    Owed { job: u64 },
    /// It is owed no more.
    Settled {
        outcome: NoticeEnd,
        /// Whether the journal says so.
        recorded: bool,
    },
}

/// One beacon.
#[derive(Debug)]
pub(crate) struct KnownBeacon {
    pub expires_ms: u64,
    pub state: BeaconState,
    /// Whether a call of it was acknowledged; of one that was known before the start that is assumed.
    pub acknowledged: bool,
    /// Sequence of the record that a start needs.
    pin: Option<u64>,
}

/// All beacons.
#[derive(Debug, Default)]
pub(crate) struct KnownBeacons {
    tokens: BTreeMap<TokenId, KnownBeacon>,
    pins: BTreeMap<u64, TokenId>,
    /// Of those that need nothing but to be remembered.
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

    /// The record at `sequence` is what a start needs of this beacon, instead of an earlier one.
    pub fn pin(&mut self, id: TokenId, sequence: u64) {
        let Some(token) = self.tokens.get_mut(&id) else { return };
        if let Some(before) = token.pin.replace(sequence) {
            self.pins.remove(&before);
        }
        self.pins.insert(sequence, id);
    }

    /// The lowest sequence that is needed.
    pub fn lowest_pin(&self) -> Option<u64> {
        self.pins.keys().next().copied()
    }

    /// Beacons whose records are oldest.
    pub fn oldest(&self, count: usize) -> Vec<TokenId> {
        self.pins.values().take(count).copied().collect()
    }

    /// From here on it only needs to be remembered, until it expires.
    pub fn expire(&mut self, id: TokenId, now: DeliveryTime) {
        if let Some(token) = self.tokens.get(&id) {
            self.expiries.insert((now.tick_at(token.expires_ms), id));
        }
    }

    /// Forgets those that have expired by both clocks: one that was set forward and back again
    /// would make a forgotten token good once more.
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
