//! The pacer's part of a shard: its budgets, its campaigns, its connections, and the tasks that
//! exchange messages with the ledger, the log and other shards.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::lane::{LaneEvent, LaneHandle};
use pacer_core::calendar::QUARTER_MS;
use pacer_core::funnel::FunnelSlot;
use pacer_core::messages::{Epoch, FromShard, ToShard};
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::ReservationToken;
use pacer_core::shard::{PacedShard, PricedBatch, ShardTime, TokenRejection, TurnLimits};
use pacer_wire::{CatalogueRow, CatalogueWriter, DecisionCode, SettlementCode};
use runtime::metrics::Padded;
use runtime::process::unix_ms;
use runtime::shutdown::Shutdown;
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};
use units::{Nanos, Tick};

use super::bidders::Bidder;
use super::campaigns::{CampaignTable, NamedCampaign};
use super::changes::ChangeLog;
use super::classes::ReservationClasses;
use super::client_port::ClientPort;
use super::config::PacerConfig;
use super::counters::PacerCounts;
use super::settlements::{
    ReplyAddress, ReportedWin, SettlementResult, ShardSettlements, result_of_loss,
};
use crate::keys::Keyring;
use crate::ledger::handle::LedgerHandle;
use crate::ledger::rings::HaltFlag;

/// Interval of the exchange with the ledger; a fraction of a slice's time.
const TURN: Duration = Duration::from_millis(10);
/// Most reports of spend in a turn, and of requests: turns stay short where many campaigns spend.
const REPORTS_PER_TURN: usize = 256;
/// Most messages of the ledger that a turn takes.
const MESSAGES_PER_TURN: usize = 512;
/// Turns between two looks for changed campaigns.
const CATALOGUE_TURNS: u64 = 50;
/// Turns between two hand-overs of funnels.
const FUNNEL_TURNS: u64 = 100;
/// How long an ending shard waits for the disk, and for room in the ledger's ring.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// What all shards of the pacer share.
pub(crate) struct PacerContext {
    pub config: PacerConfig,
    pub keys: Keyring,
    /// Origin of ticks.
    pub origin: Instant,
    pub handle: LedgerHandle,
    pub halted: HaltFlag,
    pub node: u32,
    pub epoch: Epoch,
    /// The number, in tokens, of the pacer's first shard.
    pub first_shard: u16,
    pub classes: ReservationClasses,
    pub late_window: Duration,
    pub lane: LaneHandle,
    /// By shard.
    pub peers: Vec<mpsc::UnboundedSender<PeerMessage>>,
}

/// A message between shards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PeerMessage {
    /// A win of a reservation that the receiver keeps.
    Won(ReportedWin),
    /// A lost reservation of the receiver's.
    Lost(ReservationToken, ReplyAddress),
    /// A result for a connection of the receiver.
    Result(SettlementResult),
}

/// What a shard of the pacer starts with.
pub(crate) struct ShardSeat {
    pub shard: PacedShard,
    pub from_ledger: rtrb::Consumer<ToShard>,
    pub to_ledger: rtrb::Producer<FromShard>,
    pub settlements: ShardSettlements,
    pub log_events: mpsc::UnboundedReceiver<LaneEvent>,
    pub messages: mpsc::UnboundedReceiver<PeerMessage>,
    pub funnel: FunnelSlot,
}

/// The pacer on one shard.
pub(crate) struct PacerShard {
    pub index: u16,
    pub context: Arc<PacerContext>,
    pub state: RefCell<ShardState>,
    pub counts: Arc<Padded<PacerCounts>>,
    connections: RefCell<HashMap<u64, Rc<ClientPort>>>,
    connection_last: Cell<u64>,
    /// Whether the process ends.
    is_ending: Cell<bool>,
    lane: LaneHandle,
    funnel: FunnelSlot,
}

/// What the frames of all connections of a shard work on.
pub(crate) struct ShardState {
    pub shard: PacedShard,
    /// Kept for its room; empty between frames.
    pub priced: PricedBatch,
    from_ledger: rtrb::Consumer<ToShard>,
    to_ledger: rtrb::Producer<FromShard>,
    pub table: Arc<CampaignTable>,
    pub settlements: ShardSettlements,
    /// Why campaigns may not spend, by handle, as the ledger said last.
    gates: Vec<Option<SpendRefusal>>,
    changes: ChangeLog,
    /// Quarter-hours since 1970, as of the last turn.
    quarter: u32,
    /// Whether wins can be made durable, as of the last turn.
    pub is_durable: bool,
    /// Whether a grant found no room; logged once.
    is_capacity_reported: bool,
}

impl PacerShard {
    pub fn new(
        index: u16,
        context: Arc<PacerContext>,
        counts: Arc<Padded<PacerCounts>>,
        table: Arc<CampaignTable>,
        seat: ShardSeat,
    ) -> (Rc<Self>, ShardTasks) {
        let ShardSeat { shard, from_ledger, to_ledger, settlements, log_events, messages, funnel } =
            seat;
        let lane = context.lane.clone();
        let state = ShardState {
            shard,
            priced: PricedBatch::default(),
            from_ledger,
            to_ledger,
            table,
            settlements,
            gates: Vec::new(),
            changes: ChangeLog::default(),
            quarter: 0,
            is_durable: true,
            is_capacity_reported: false,
        };
        let shard = Rc::new(Self {
            index,
            context,
            state: RefCell::new(state),
            counts,
            connections: RefCell::default(),
            connection_last: Cell::new(0),
            is_ending: Cell::new(false),
            lane,
            funnel,
        });
        (shard, ShardTasks { log_events, messages })
    }

    /// Whether connections must end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// The credit to send now.
    pub fn credit(&self, state: &ShardState) -> u16 {
        if state.is_durable { self.context.config.limits.credit } else { 0 }
    }

    /// The time of an instant, in the quarter-hour of the last turn.
    pub fn time(&self, state: &ShardState, now: Instant) -> ShardTime {
        let since = now.saturating_duration_since(self.context.origin);
        ShardTime { tick: Tick::ZERO.after(since), quarter: state.quarter }
    }

    /// Registers a connection. None if the client has too many.
    pub fn connect(
        &self,
        client: usize,
        bidder: &Bidder,
        frame_bytes_max: u32,
    ) -> Option<Rc<ClientPort>> {
        let counts = bidder.counts.shard(self.index.into());
        let open = u32::try_from(counts.connections.value()).unwrap_or(0);
        if open >= self.context.config.limits.connections_max {
            return None;
        }
        counts.connections.change(1);
        let id = self.connection_last.get() + 1;
        self.connection_last.set(id);
        let port = Rc::new(ClientPort::new(id, client, counts, frame_bytes_max));
        self.connections.borrow_mut().insert(id, Rc::clone(&port));
        Some(port)
    }

    pub fn disconnect(&self, port: &ClientPort) {
        if self.connections.borrow_mut().remove(&port.id).is_some() {
            port.counts.connections.change(-1);
        }
    }

    /// Settles a token that a client reported, here or at the shard that keeps its reservation.
    pub fn lose(&self, state: &mut ShardState, token: &ReservationToken, reply: ReplyAddress) {
        match self.keeper(token) {
            Some(keeper) if keeper != self.index => {
                self.send(keeper, PeerMessage::Lost(*token, reply));
            }
            _ => {
                let now = self.time(state, Instant::now()).tick;
                let released = state.shard.ledger.release(token, now);
                if let (Ok(_), Some(funnel)) = (&released, state.shard.funnel()) {
                    funnel.lose(token.slot());
                }
                let code = result_of_loss(&released);
                state.settlements.results.push(SettlementResult { reply, code, cost: Nanos::ZERO });
            }
        }
    }

    /// As [`Self::lose`], for a win. [`Self::write_wins`] must follow.
    pub fn win(&self, state: &mut ShardState, win: ReportedWin) {
        match self.keeper(&win.token) {
            Some(keeper) if keeper != self.index => self.send(keeper, PeerMessage::Won(win)),
            Some(_) => state.settlements.report(win),
            None => {
                let code = super::settlements::rejected_win(TokenRejection::OtherShard);
                let result = SettlementResult { reply: win.reply, code, cost: Nanos::ZERO };
                state.settlements.results.push(result);
            }
        }
    }

    /// The shard of the pacer that made a token, or that answers for the start which did. None if
    /// it is not the pacer's.
    fn keeper(&self, token: &ReservationToken) -> Option<u16> {
        let origin = token.origin();
        let first = self.context.first_shard;
        let shards =
            u16::try_from(self.context.peers.len()).expect("shards are counted by 16 bits");
        if origin.epoch == self.context.epoch && origin.node == self.context.node {
            return origin.shard.checked_sub(first).filter(|shard| *shard < shards);
        }
        Some(origin.shard % shards)
    }

    fn send(&self, to: u16, message: PeerMessage) {
        // A shard that has ended gives no results; clients repeat their settlements.
        let _ended = self.context.peers[usize::from(to)].send(message);
    }

    /// Writes the wins that were reported, and delivers the results that are known.
    pub fn write_wins(&self, state: &mut ShardState) {
        if state.settlements.waiting() == 0 && state.settlements.results.is_empty() {
            return;
        }
        let now = self.time(state, Instant::now()).tick;
        let ShardState { settlements, shard, table, .. } = state;
        settlements.write(&mut shard.ledger, &table.bidders, now);
        self.deliver(state);
    }

    /// Delivers results to this shard's connections, or to the shard that asked.
    fn deliver(&self, state: &mut ShardState) {
        let ShardState { settlements, table, .. } = state;
        for result in settlements.results.drain(..) {
            if result.reply.shard == self.index {
                self.complete(table, result);
            } else {
                self.send(result.reply.shard, PeerMessage::Result(result));
            }
        }
    }

    fn complete(&self, table: &CampaignTable, result: SettlementResult) {
        let SettlementResult { reply, code, cost } = result;
        let bidder = &table.bidders[usize::from(reply.client)];
        let counts = bidder.counts.of(self.index.into());
        counts.settlements[code as usize].increment();
        if let SettlementCode::Booked | SettlementCode::BookedLate = code {
            counts.billed_nanos.add(cost.get());
        }
        // The client may have left.
        if let Some(port) = self.connections.borrow().get(&reply.connection) {
            port.complete(reply.place, code);
        }
    }

    /// Takes the ledger's messages, sends reports, and tries again what the record refused.
    fn turn(&self, number: u64) {
        let state = &mut *self.state.borrow_mut();
        let unix_ms = unix_ms().max(self.context.handle.unix_ms());
        state.quarter = u32::try_from(unix_ms / QUARTER_MS).expect("quarters fit until 124,000");
        let now = self.time(state, Instant::now());
        let ShardState { shard, from_ledger, to_ledger, gates, changes, .. } = state;
        let room = to_ledger.slots();
        let received = std::iter::from_fn(|| from_ledger.pop().ok()).take(MESSAGES_PER_TURN);
        let received = received.inspect(|message| note_gate(gates, changes, message));
        let send = |message| to_ledger.push(message).expect("there is room");
        let limits = TurnLimits { room, reports_max: REPORTS_PER_TURN };
        shard.short_turn(now.tick, received, limits, send);
        if state.shard.counts().untaken > 0
            && !std::mem::replace(&mut state.is_capacity_reported, true)
        {
            error!("rights strand at a shard without room: raise budgets.campaigns_max");
        }
        self.write_wins(state);
        state.settlements.report_position(|| self.lane.sequence());
        self.set_durable(state);
        self.counts
            .settlements_waiting
            .set(i64::try_from(state.settlements.waiting()).unwrap_or(i64::MAX));
        if number.is_multiple_of(CATALOGUE_TURNS) {
            self.send_changes(state);
        }
        if number.is_multiple_of(FUNNEL_TURNS)
            && let Some(funnel) = state.shard.funnel()
        {
            // What was not taken yet is offered again with the next counts.
            let _offered = self.funnel.offer(|batch| funnel.hand_over(batch));
        }
    }

    fn set_durable(&self, state: &mut ShardState) {
        let is_durable = state.settlements.is_durable() && !self.context.halted.is_set();
        if is_durable && !state.is_durable {
            let credit = self.context.config.limits.credit;
            self.connections.borrow().values().for_each(|port| port.grant(credit));
        }
        state.is_durable = is_durable;
    }

    /// Puts another generation of campaigns in force.
    fn adopt(&self, table: Arc<CampaignTable>) {
        let state = &mut *self.state.borrow_mut();
        let is_next = table.revision == state.table.revision + 1;
        match table.changed.as_ref().filter(|_| is_next) {
            Some(changed) => changed.iter().for_each(|handle| state.changes.push(*handle)),
            None => state.changes.reset(),
        }
        state.table = table;
        for port in self.connections.borrow().values() {
            if state.table.bidders[port.client].is_removed {
                port.dismiss();
            }
        }
        self.send_changes(state);
    }

    /// Sends each connection the rows that it has not seen.
    fn send_changes(&self, state: &ShardState) {
        let end = state.changes.end();
        for port in self.connections.borrow().values() {
            if port.changes_seen.get() != end {
                port.send(|out| self.write_catalogue(state, port, out));
            }
        }
    }

    /// Writes the rows that a connection has not seen; all for a new one.
    pub fn write_catalogue(&self, state: &ShardState, port: &ClientPort, out: &mut Vec<u8>) {
        let (table, end) = (&state.table, state.changes.end());
        let seen = port.changes_seen.replace(end);
        let handles = state.changes.since(seen).filter(|_| seen > 0);
        let credit = self.credit(state);
        port.note_credit(credit);
        let is_complete = handles.is_none();
        let generation = table.generation;
        let mut writer =
            CatalogueWriter::new(out, generation, credit, is_complete, port.frame_bytes_max);
        let mut put = |handle: u32, campaign: &NamedCampaign| {
            writer.put(&CatalogueRow {
                handle,
                state: state.code_of(handle, campaign),
                currency: campaign.currency,
                account: &campaign.account,
                campaign: &campaign.id,
            });
        };
        match handles {
            None => table.of_client(port.client).for_each(|(handle, it)| put(handle, it)),
            Some(handles) => {
                for handle in handles {
                    if let Some(campaign) = table.visible(port.client, handle) {
                        put(handle, campaign);
                    }
                }
            }
        }
        writer.finish();
    }

    fn log_event(&self, event: LaneEvent) {
        let state = &mut *self.state.borrow_mut();
        if let LaneEvent::Durable { through, sequence, .. } = event {
            let ShardState { settlements, shard, .. } = state;
            settlements.settle(shard, through, sequence);
            self.deliver(state);
        }
        self.set_durable(state);
    }

    fn message(&self, state: &mut ShardState, message: PeerMessage) {
        match message {
            PeerMessage::Won(win) => state.settlements.report(win),
            PeerMessage::Lost(token, reply) => self.lose(state, &token, reply),
            PeerMessage::Result(result) => self.complete(&state.table, result),
        }
    }

    /// Exchanges messages with the ledger, the log and other shards; never ends.
    pub async fn run(
        self: Rc<Self>,
        tasks: ShardTasks,
        mut tables: watch::Receiver<Arc<CampaignTable>>,
        shutdown: Shutdown,
    ) {
        let ShardTasks { mut log_events, mut messages } = tasks;
        let mut ticks = tokio::time::interval(TURN);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut turns, mut has_tables) = (0_u64, true);
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => {
                    turns += 1;
                    self.turn(turns);
                }
                Some(event) = log_events.recv() => {
                    self.log_event(event);
                    while let Ok(event) = log_events.try_recv() {
                        self.log_event(event);
                    }
                }
                Some(message) = messages.recv() => {
                    // Its client may be newer than this shard's table.
                    if tables.has_changed().unwrap_or(false) {
                        self.adopt(Arc::clone(&tables.borrow_and_update()));
                    }
                    let state = &mut *self.state.borrow_mut();
                    self.message(state, message);
                    while let Ok(message) = messages.try_recv() {
                        self.message(state, message);
                    }
                    self.write_wins(state);
                }
                _ = shutdown.started(), if !self.is_ending() => {
                    self.is_ending.set(true);
                    self.connections.borrow().values().for_each(|port| port.wake());
                }
                changed = tables.changed(), if has_tables => {
                    has_tables = changed.is_ok();
                    self.adopt(Arc::clone(&tables.borrow_and_update()));
                }
            }
        }
    }

    /// Waits for the disk, then returns all unreserved money and reports the rest. What finds no
    /// room in time stays frozen for its time to live, as after a crash.
    pub async fn end(&self) {
        let until = Instant::now() + CLOSE_PATIENCE;
        while !self.is_ended() {
            if until <= Instant::now() {
                warn!(
                    "a shard could not tell the ledger what it gives back: that stays frozen for up to \
                     budgets.reservation_max"
                );
                return;
            }
            tokio::time::sleep(TURN).await;
        }
    }

    fn is_ended(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let now = self.time(state, Instant::now()).tick;
        if !state.settlements.is_idle() {
            return false;
        }
        let ShardState { shard, from_ledger, to_ledger, .. } = state;
        let room = to_ledger.slots();
        let received = std::iter::from_fn(|| from_ledger.pop().ok());
        let is_sent = shard.close(now, received, room, |message| {
            to_ledger.push(message).expect("there is room");
        });
        // A stopped ledger receives nothing.
        is_sent || to_ledger.is_abandoned()
    }
}

/// What the shard's own task receives.
pub(crate) struct ShardTasks {
    log_events: mpsc::UnboundedReceiver<LaneEvent>,
    messages: mpsc::UnboundedReceiver<PeerMessage>,
}

impl ShardState {
    /// The state of a campaign's row.
    fn code_of(&self, handle: u32, campaign: &NamedCampaign) -> DecisionCode {
        if campaign.is_removed {
            return DecisionCode::Unknown;
        }
        if !campaign.is_open {
            return DecisionCode::Paused;
        }
        let at = usize::try_from(handle).expect("a handle has 32 bits");
        self.gates.get(at).copied().flatten().map_or(DecisionCode::Authorised, code_of_refusal)
    }
}

fn note_gate(gates: &mut Vec<Option<SpendRefusal>>, changes: &mut ChangeLog, message: &ToShard) {
    let ToShard::Gate(gate) = message else { return };
    let at = usize::try_from(gate.slot.0).expect("an index has 32 bits");
    if gates.len() <= at {
        gates.resize(at + 1, None);
    }
    if std::mem::replace(&mut gates[at], gate.closed) != gate.closed {
        changes.push(gate.slot.0);
    }
}

/// The decision for a refusal.
pub(crate) const fn code_of_refusal(refusal: SpendRefusal) -> DecisionCode {
    match refusal {
        SpendRefusal::Unknown => DecisionCode::Unknown,
        SpendRefusal::Paused => DecisionCode::Paused,
        SpendRefusal::OutOfFlight => DecisionCode::OutOfFlight,
        SpendRefusal::OutOfDaypart => DecisionCode::OutOfDaypart,
        SpendRefusal::BudgetExhausted => DecisionCode::BudgetExhausted,
        SpendRefusal::DayExhausted => DecisionCode::DayExhausted,
        SpendRefusal::HourExhausted => DecisionCode::HourExhausted,
        SpendRefusal::Throttled => DecisionCode::Throttled,
        SpendRefusal::BelowMinimum => DecisionCode::BelowMinimum,
        SpendRefusal::LedgerUnavailable => DecisionCode::Unavailable,
    }
}
