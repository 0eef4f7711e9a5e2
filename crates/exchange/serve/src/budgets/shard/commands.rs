//! Routes commands to a reservation's shard: the dispatcher settles, other shards release.
//!
//! Must not know what a reservation is worth.

use exchange_core::Reservation;
use pacer_core::shard::token::{ReservationToken, TokenKey, TokenOrigin};
use tokio::sync::mpsc;

use super::ShardLedgerPort;
use crate::notices::Settlements;

/// Most queued releases per shard; the reservations of further ones expire.
const RELEASES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReservationCommand {
    Settle(ReservationToken),
    Release(ReservationToken),
}

#[derive(Clone)]
pub(crate) struct PeerShards {
    key: TokenKey,
    shards: Vec<PeerShard>,
}

#[derive(Clone)]
struct PeerShard {
    /// Identifies the shard's reservations.
    origin: TokenOrigin,
    /// Unbounded, because none may be lost; each reservation comes once.
    settlements: mpsc::UnboundedSender<ReservationToken>,
    /// Bounded: callers of beacons may send any number.
    releases: mpsc::Sender<ReservationToken>,
}

#[derive(Debug)]
pub(crate) struct ReservationCommands {
    settlements: mpsc::UnboundedReceiver<ReservationToken>,
    releases: mpsc::Receiver<ReservationToken>,
}

impl PeerShards {
    /// Senders to the shards of `ledger_ports`, and each shard's receivers.
    pub fn new(
        key: TokenKey,
        ledger_ports: &[ShardLedgerPort],
    ) -> (Self, Vec<ReservationCommands>) {
        let shard = |port: &ShardLedgerPort| {
            let (settlements, settlements_received) = mpsc::unbounded_channel();
            let (releases, releases_received) = mpsc::channel(RELEASES_MAX);
            let commands = ReservationCommands {
                settlements: settlements_received,
                releases: releases_received,
            };
            (PeerShard { origin: port.options.origin, settlements, releases }, commands)
        };
        let (shards, commands) = ledger_ports.iter().map(shard).unzip();
        (Self { key, shards }, commands)
    }

    /// The reservation's token. None if another process's key sealed it.
    pub fn open(&self, reservation: &Reservation) -> Option<ReservationToken> {
        self.key.open(reservation.token.as_str().as_bytes()).ok()
    }

    /// Settles a reservation whose billing record is durable. Call once per record, in the log's
    /// order. Ignores reservations of other nodes and earlier starts: the ledger knows them.
    fn settle(&self, reservation: &Reservation) {
        let token = self.open(reservation);
        if let Some((token, peer)) = token.and_then(|token| Some((token, self.peer(&token)?))) {
            // The shard may have ended.
            let _ended = peer.settlements.send(token);
        }
    }

    /// Queues a release; returns false if no shard here made the reservation.
    pub fn release(&self, token: ReservationToken) -> bool {
        let Some(peer) = self.peer(&token) else { return false };
        let _shed = peer.releases.try_send(token);
        true
    }

    /// The shard in this process that made the reservation.
    fn peer(&self, token: &ReservationToken) -> Option<&PeerShard> {
        let origin = token.origin();
        self.shards.get(usize::from(origin.shard)).filter(|peer| peer.origin == origin)
    }
}

impl ReservationCommands {
    /// The next command. None once all senders are gone.
    pub async fn next(&mut self) -> Option<ReservationCommand> {
        tokio::select! {
            biased;
            Some(token) = self.settlements.recv() => Some(ReservationCommand::Settle(token)),
            Some(token) = self.releases.recv() => Some(ReservationCommand::Release(token)),
            else => None,
        }
    }
}

/// Passes settlements to the ledger's books, then to the reserving shard.
pub(crate) struct SettlementRouter {
    pub ledger: Box<dyn Settlements>,
    pub peers: PeerShards,
}

impl Settlements for SettlementRouter {
    fn settled(&mut self, sequence: u64, reservation: &Reservation) {
        self.ledger.settled(sequence, reservation);
        self.peers.settle(reservation);
    }

    fn reached(&mut self, sequence: u64) {
        self.ledger.reached(sequence);
    }

    fn replayed(&mut self) {
        self.ledger.replayed();
    }

    fn applied_seq(&self) -> u64 {
        self.ledger.applied_seq()
    }
}
