//! What the shards of a process are told of their reservations: by the dispatcher, which of them are spent,
//! and by each other, which of them are lost.
//!
//! It must not know what a reservation is worth.

use exchange_core::Reservation;
use pacer_core::shard::token::{ReservationToken, TokenKey, TokenOrigin};
use tokio::sync::mpsc;

use super::ShardLedgerPort;
use crate::notices::Settlements;

/// Releases that may wait on their way to a shard; of more the reservations expire.
const RELEASES_MAX: usize = 1024;

/// What a shard is asked to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReservationCommand {
    Settle(ReservationToken),
    Release(ReservationToken),
}

/// Leads to all shards of a process.
#[derive(Clone)]
pub(crate) struct PeerShards {
    key: TokenKey,
    /// By number.
    shards: Vec<PeerShard>,
}

/// Leads to one shard.
#[derive(Clone)]
struct PeerShard {
    /// Whose reservations are its own.
    origin: TokenOrigin,
    /// None may be lost. Each comes once, for a record of the log, so that no more wait than a shard has
    /// reserved.
    spent: mpsc::UnboundedSender<ReservationToken>,
    /// As often as somebody calls a beacon.
    lost: mpsc::Sender<ReservationToken>,
}

/// Where a shard hears what it is asked to do.
#[derive(Debug)]
pub(crate) struct ReservationCommands {
    spent: mpsc::UnboundedReceiver<ReservationToken>,
    lost: mpsc::Receiver<ReservationToken>,
}

impl PeerShards {
    /// To the shards of these lines, by number, and where each hears.
    pub fn new(key: TokenKey, lines: &[ShardLedgerPort]) -> (Self, Vec<ReservationCommands>) {
        let shard = |line: &ShardLedgerPort| {
            let (to_spent, spent) = mpsc::unbounded_channel();
            let (to_lost, lost) = mpsc::channel(RELEASES_MAX);
            let peer = PeerShard { origin: line.options.origin, spent: to_spent, lost: to_lost };
            (peer, ReservationCommands { spent, lost })
        };
        let (shards, commands) = lines.iter().map(shard).unzip();
        (Self { key, shards }, commands)
    }

    /// A reservation as the shard knows it. It was sealed in a beacon's token, which was opened: `None` is
    /// another process's key.
    pub fn open(&self, reservation: &Reservation) -> Option<ReservationToken> {
        self.key.open(reservation.token.as_str().as_bytes()).ok()
    }

    /// A billable event is durable: what was reserved for it is spent. To be called once for each, in the
    /// log's order. Of what another node reserved, or an earlier start, no shard knows: the ledger does.
    fn settle(&self, reservation: &Reservation) {
        let token = self.open(reservation);
        if let Some((token, peer)) = token.and_then(|token| Some((token, self.peer(&token)?))) {
            // A shard that has ended has no books.
            let _ended = peer.spent.send(token);
        }
    }

    /// What was reserved was lost; whether that concerns any shard.
    pub fn release(&self, token: ReservationToken) -> bool {
        let Some(peer) = self.peer(&token) else { return false };
        let _shed = peer.lost.try_send(token);
        true
    }

    /// Who made the reservation, in this process.
    fn peer(&self, token: &ReservationToken) -> Option<&PeerShard> {
        let origin = token.origin();
        self.shards.get(usize::from(origin.shard)).filter(|peer| peer.origin == origin)
    }
}

impl ReservationCommands {
    /// Waits for the next; `None` once nobody is left to ask.
    pub async fn next(&mut self) -> Option<ReservationCommand> {
        tokio::select! {
            biased;
            Some(token) = self.spent.recv() => Some(ReservationCommand::Settle(token)),
            Some(token) = self.lost.recv() => Some(ReservationCommand::Release(token)),
            else => None,
        }
    }
}

/// Tells the shards, too, what is settled from now on: each of its own reservations, once the ledger's
/// books have it.
pub(crate) struct SettlementRouter {
    pub books: Box<dyn Settlements>,
    pub peers: PeerShards,
}

impl Settlements for SettlementRouter {
    fn settled(&mut self, sequence: u64, reservation: &Reservation) {
        self.books.settled(sequence, reservation);
        self.peers.settle(reservation);
    }

    fn reached(&mut self, sequence: u64) {
        self.books.reached(sequence);
    }

    fn replayed(&mut self) {
        self.books.replayed();
    }

    fn applied_seq(&self) -> u64 {
        self.books.applied_seq()
    }
}
