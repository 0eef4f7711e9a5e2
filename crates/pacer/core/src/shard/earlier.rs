//! Wins of reservations from before a restart: which were won already.
//!
//! The durable log decides. A start passes the wins that it holds; each later one is claimed here,
//! written to the log, and then settled, as with a reservation of this start. The ledger books them
//! from the log.
//!
//! **Memory** is two bits per reservation, in blocks that are made when a win first needs one.

use std::collections::HashMap;
use std::time::Duration;

use super::outcome::TokenRejection;
use super::token::{ReservationToken, TokenOrigin};
use crate::messages::index;

/// The longest hour of a calendar, with the time until shards notice its end.
const PERIOD_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// Reservations of a word.
const WORD: u32 = 32;
/// Reservations of a block: 4 KiB.
const BLOCK: u32 = 512 * WORD;

const CLAIMED: u64 = 0b01;
const WON: u64 = 0b10;

/// A block of the reservations that a shard made in one bucket of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKey {
    origin: TokenOrigin,
    ttl: u8,
    bucket: u32,
    block: u32,
}

/// Wins of this node's earlier starts.
#[derive(Debug)]
pub struct EarlierWins {
    own: TokenOrigin,
    /// How long after its hour a token can be settled.
    horizon: Duration,
    blocks: HashMap<BlockKey, Box<[u64]>>,
}

impl EarlierWins {
    /// None known yet. `horizon` is that of the shards
    /// ([`ShardOptions::horizon`](super::ShardOptions::horizon)).
    pub fn new(own: TokenOrigin, horizon: Duration) -> Self {
        Self { own, horizon: horizon.saturating_add(PERIOD_MAX), blocks: HashMap::new() }
    }

    /// Records of the log from this time on must be replayed: earlier ones have only tokens that are
    /// too old at `unix_ms`.
    pub fn replay_from_ms(&self, unix_ms: u64) -> u64 {
        unix_ms.saturating_sub(millis(self.horizon))
    }

    /// Notes a win that the log holds.
    pub fn replay(&mut self, token: &ReservationToken) {
        if self.is_earlier(token).is_ok() {
            self.set(token, WON);
        }
    }

    /// Locks a won token until it is settled or given up.
    ///
    /// # Errors
    /// It is another node's, of this start or a later one, too old, being settled, or won.
    pub fn claim(&mut self, token: &ReservationToken, unix_ms: u64) -> Result<(), TokenRejection> {
        self.is_earlier(token)?;
        if token.period.start_unix_ms().saturating_add(millis(self.horizon)) < unix_ms {
            return Err(TokenRejection::TooOld);
        }
        match self.state(token) {
            WON => Err(TokenRejection::AlreadyWon),
            CLAIMED => Err(TokenRejection::Pending),
            _ => {
                self.set(token, CLAIMED);
                Ok(())
            }
        }
    }

    /// Ends a claim whose record is durable.
    pub fn settle(&mut self, token: &ReservationToken) {
        assert_eq!(self.state(token), CLAIMED, "what is settled was claimed");
        self.set(token, WON);
    }

    /// Gives up a claim whose record could not be written.
    pub fn unclaim(&mut self, token: &ReservationToken) {
        assert_eq!(self.state(token), CLAIMED, "what is given up was claimed");
        self.set(token, 0);
    }

    /// Drops what is too old at `unix_ms`, once all earlier starts are: all of it.
    pub fn forget(&mut self, begun_unix_ms: u64, unix_ms: u64) {
        if begun_unix_ms.saturating_add(millis(self.horizon)) < unix_ms {
            self.blocks = HashMap::new();
        }
    }

    fn is_earlier(&self, token: &ReservationToken) -> Result<(), TokenRejection> {
        let TokenOrigin { node, epoch, .. } = token.origin;
        if node != self.own.node {
            return Err(TokenRejection::OtherNode);
        }
        if epoch > self.own.epoch {
            return Err(TokenRejection::FutureEpoch);
        }
        if epoch == self.own.epoch { Err(TokenRejection::OtherShard) } else { Ok(()) }
    }

    fn state(&self, token: &ReservationToken) -> u64 {
        let (key, word, shift) = place(token);
        self.blocks.get(&key).map_or(0, |block| block[word] >> shift & 0b11)
    }

    fn set(&mut self, token: &ReservationToken, state: u64) {
        let (key, word, shift) = place(token);
        let new = || vec![0; index(BLOCK / WORD)].into_boxed_slice();
        let word = &mut self.blocks.entry(key).or_insert_with(new)[word];
        *word = *word & !(0b11 << shift) | state << shift;
    }
}

fn place(token: &ReservationToken) -> (BlockKey, usize, u32) {
    let ReservationToken { origin, ttl, bucket, sequence, .. } = *token;
    let key = BlockKey { origin, ttl: ttl.0, bucket, block: sequence / BLOCK };
    (key, index(sequence % BLOCK / WORD), sequence % WORD * 2)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
