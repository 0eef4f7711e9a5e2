//! A process: shards, ledger, and the rings between them. A crash loses all of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pacer_core::ledger::{Ledger, LedgerInput, LedgerOutbox, LedgerSettings, LedgerTime};
use pacer_core::messages::{BudgetGrant, Receipt, RefillRequest, SpendReport, SpendingGate};
use pacer_core::shard::token::ReservationToken;
use pacer_core::shard::{self, ShardLedger, TokenClaim};
use pacer_core::store::{Batch, StoreWriter};

use super::super::exchange::ReservationEnd;
use super::super::log::SimTokenId;
use super::super::observer::ObservedClaim;
use super::remains::ProcessRemains;
use super::ring::SimRing;

/// From the ledger to a shard.
#[derive(Clone, Copy, Debug)]
pub(super) enum LedgerMessage {
    Grant(BudgetGrant),
    Gate(SpendingGate),
}

/// From a shard to the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) enum ShardMessage {
    Report(SpendReport),
    Want(RefillRequest),
    Receipt(Receipt),
    Closed,
}

/// A notice for another shard's token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forward {
    pub(super) token: ReservationToken,
    pub(super) act: ReservationEnd,
}

/// A claim whose record is not durable yet.
#[derive(Debug)]
pub(super) struct PendingClaim {
    pub(super) shard: u16,
    pub(super) claim: TokenClaim,
    pub(super) claimed: ObservedClaim,
}

/// From the log to a shard.
#[derive(Debug)]
pub(super) enum ClaimNews {
    Durable(PendingClaim),
    Lost(PendingClaim),
}

/// One shard, with its rings.
pub(super) struct SimShard {
    pub(super) shard: ShardLedger,
    pub(super) down: SimRing<LedgerMessage>,
    /// Messages that wait because the ring is full.
    pub(super) held: VecDeque<LedgerMessage>,
    pub(super) up: SimRing<ShardMessage>,
    pub(super) forwards: SimRing<Forward>,
    pub(super) news: SimRing<ClaimNews>,
    /// The last messages of a closing shard. None until it closes.
    pub(super) last: Option<VecDeque<ShardMessage>>,
}

pub(super) struct Process {
    pub(super) writer: StoreWriter,
    pub(super) ledger: Ledger,
    pub(super) outbox: LedgerOutbox,
    pub(super) desks: Vec<SimShard>,
    /// By number of the record.
    pub(super) claims: BTreeMap<u64, PendingClaim>,
    /// Claims whose record is lost, until their shard knows.
    pub(super) lost: BTreeSet<SimTokenId>,
    /// Wins that are recorded without a claim, by number of the record.
    pub(super) orphans: BTreeMap<u64, SimTokenId>,
    /// Messages for the ledger, with the step of their arrival.
    pub(super) mail: Vec<(u64, LedgerInput)>,
    /// The batch that the store is committing.
    pub(super) sent: Option<Batch>,
    /// The last record that the ledger received.
    pub(super) told: u64,
    /// When the replay begins, which may be late.
    pub(super) replay_at_ms: u64,
    pub(super) is_replayed: bool,
    /// Start of the process on the monotonic clock.
    pub(super) born_ms: u64,
    /// The step by which a stopping process must end. None if it is not stopping.
    pub(super) stops_by: Option<u64>,
    /// Whether the ledger has received `Close`.
    pub(super) is_close_told: bool,
    /// The step until which each shard, and last the ledger, sleeps.
    asleep: Vec<u64>,
}

/// What a process starts with.
pub(super) struct Birth<'a> {
    pub(super) settings: LedgerSettings,
    pub(super) now: LedgerTime,
    pub(super) remains: &'a ProcessRemains,
    pub(super) applied_seq: u64,
    pub(super) replay_at_ms: u64,
    pub(super) ring_capacity: usize,
}

impl Process {
    pub(super) fn new(birth: &Birth<'_>, shards: &[shard::ShardOptions]) -> Self {
        let LedgerSettings { node, epoch, .. } = birth.settings;
        let leases = birth.remains.leases().iter().copied();
        let desk = |options: &shard::ShardOptions| SimShard {
            shard: ShardLedger::new(options).expect("options within their ranges"),
            down: SimRing::new(birth.ring_capacity),
            held: VecDeque::new(),
            up: SimRing::new(birth.ring_capacity),
            forwards: SimRing::new(birth.ring_capacity),
            news: SimRing::new(usize::MAX),
            last: None,
        };
        let ledger = Ledger::new(birth.settings.clone(), birth.now, leases, birth.applied_seq);
        Self {
            writer: StoreWriter { node, epoch },
            ledger: ledger
                .with_sums(birth.remains.sums().iter().copied())
                .with_epoch_lifetimes(birth.remains.lives().iter().copied()),
            outbox: LedgerOutbox::default(),
            desks: shards.iter().map(desk).collect(),
            claims: BTreeMap::new(),
            lost: BTreeSet::new(),
            orphans: BTreeMap::new(),
            mail: Vec::new(),
            sent: None,
            told: birth.applied_seq,
            replay_at_ms: birth.replay_at_ms,
            is_replayed: false,
            born_ms: birth.now.tick.nanos() / 1_000_000,
            stops_by: None,
            is_close_told: false,
            asleep: vec![0; shards.len() + 1],
        }
    }

    pub(super) fn desk(&mut self, shard: u16) -> &mut SimShard {
        &mut self.desks[usize::from(shard)]
    }

    /// Whether no message from the ledger to a shard is in transit.
    pub(super) fn is_quiet(&self, shard: u16) -> bool {
        let desk = &self.desks[usize::from(shard)];
        desk.down.is_empty() && desk.held.is_empty()
    }

    /// `who` is a shard, or the number of shards for the ledger.
    pub(super) fn is_awake(&self, who: u16, step: u64) -> bool {
        self.asleep[usize::from(who)] <= step
    }

    pub(super) fn sleep(&mut self, who: u16, until: u64) {
        self.asleep[usize::from(who)] = until;
    }
}
