//! The thread that drives the sequencer of lots. It alone has the clock by which commands are
//! received.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use eventlog::LogReadError;
use eventlog::lane::{LaneEvent, LaneHandle, RetentionClaim};
use live_core::floor::{FloorCommand, FloorRefusal, FloorSettings, LotFloor};
use live_core::ports::{HoldPort, SoldLotPort};
use record::Record;
use runtime::process::unix_ms;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tracing::error;

use super::counts::LotCounts;
use super::outlet::{AnswerAddress, ClientAnswer, FloorOutcome, ThreadOutlet};
use super::replay::replay;

/// Commands that wait for the thread; more are refused as busy.
const INBOX_MAX: usize = 16_384;
/// Commands taken before other messages are looked at.
const COMMANDS_PER_TURN: usize = 256;
/// Room in the log's ring.
const RING_BYTES: usize = 4 << 20;
/// How often lots are forgotten and counted.
const STOCK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait of a caller.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

struct LotsRequest {
    to: AnswerAddress,
    command: FloorCommand,
}

/// Asks the thread.
#[derive(Clone, Debug)]
pub(crate) struct LotsHandle {
    inbox: mpsc::SyncSender<LotsRequest>,
    thread: Thread,
    pub counts: Arc<LotCounts>,
}

impl LotsHandle {
    /// Sends a command. The answer comes to its address.
    ///
    /// # Errors
    /// Too many wait, or the thread has ended; there is no answer then.
    pub fn send(&self, to: AnswerAddress, command: FloorCommand) -> Result<(), FloorRefusal> {
        self.inbox.try_send(LotsRequest { to, command }).map_err(|error| match error {
            TrySendError::Full(_) => FloorRefusal::Busy,
            TrySendError::Disconnected(_) => FloorRefusal::Paused("the process ends".to_owned()),
        })?;
        self.thread.unpark();
        Ok(())
    }

    /// Sends a command and waits for its answer. Never use it on a shard.
    ///
    /// # Errors
    /// It is refused, or there is no answer in time: what becomes of the command is unknown then.
    pub fn call(&self, command: FloorCommand) -> FloorOutcome {
        let (caller, answer) = mpsc::sync_channel(1);
        self.send(AnswerAddress::Caller(caller), command)?;
        answer.recv_timeout(CALL_TIMEOUT).unwrap_or_else(|error| {
            let reason = match error {
                RecvTimeoutError::Timeout => "there was no answer in time; look at the lot",
                RecvTimeoutError::Disconnected => "the process ends",
            };
            Err(FloorRefusal::Paused(reason.to_owned()))
        })
    }
}

/// The thread; it ends when this is dropped.
pub(crate) struct LotsThread {
    pub handle: LotsHandle,
    is_ending: Arc<AtomicBool>,
    join: Option<JoinHandle<()>>,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LotsStartError {
    /// The log cannot be read.
    #[error("the lots of the record cannot be read: {0}")]
    Log(#[from] LogReadError),
    /// The system refuses a thread.
    #[error("the thread of the lots cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// What it needs.
pub(crate) struct LotsParts {
    pub record: Record,
    pub holds: Box<dyn HoldPort>,
    /// None: no exchange runs here.
    pub sold: Option<Box<dyn SoldLotPort>>,
}

impl LotsThread {
    /// Replays the log and starts the thread. The answers to clients arrive by shard.
    ///
    /// # Errors
    /// The log cannot be read, or the thread not started.
    pub fn start(
        parts: LotsParts,
        settings: FloorSettings,
        shards: usize,
    ) -> Result<(Self, Vec<UnboundedReceiver<ClientAnswer>>), LotsStartError> {
        let LotsParts { record, mut holds, mut sold } = parts;
        let claim = record.durable.protect();
        let mut floor = LotFloor::new(settings, record.durable.epoch());
        replay(&record, &mut floor)?;
        let sleeper = Arc::new(OnceLock::<Thread>::new());
        let waker = || {
            let sleeper = Arc::clone(&sleeper);
            move || {
                if let Some(thread) = sleeper.get() {
                    thread.unpark();
                }
            }
        };
        let (log_sender, log) = mpsc::channel();
        let wake = waker();
        let listener = move |event| {
            let _unheard = log_sender.send(event);
            wake();
        };
        let ring = record.rings.durable_ring(RING_BYTES, Some(Box::new(listener)));
        holds.wake_with(Box::new(waker()));
        if let Some(sold) = &mut sold {
            sold.wake_with(Box::new(waker()));
        }
        let (clients, answers) = (0..shards).map(|_| unbounded_channel()).unzip();
        let (inbox, requests) = mpsc::sync_channel(INBOX_MAX);
        let counts = Arc::<LotCounts>::default();
        let is_ending = Arc::<AtomicBool>::default();
        let outlet = ThreadOutlet {
            ring,
            holds,
            sold,
            unsold: Vec::new(),
            clients,
            counts: Arc::clone(&counts),
            buffer: Vec::new(),
        };
        let running = FloorThread {
            floor,
            outlet,
            requests,
            log,
            lane: record.durable.clone(),
            claim,
            is_ending: Arc::clone(&is_ending),
        };
        let join =
            std::thread::Builder::new().name("lots".to_owned()).spawn(move || running.run())?;
        let thread = sleeper.get_or_init(|| join.thread().clone()).clone();
        thread.unpark();
        let handle = LotsHandle { inbox, thread, counts };
        Ok((Self { handle, is_ending, join: Some(join) }, answers))
    }
}

impl LotsThread {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.join.as_ref().is_some_and(|join| !join.is_finished())
    }
}

impl Drop for LotsThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.handle.thread.unpark();
        if let Some(join) = self.join.take()
            && join.join().is_err()
        {
            error!("the thread of the lots had panicked");
        }
    }
}

struct FloorThread {
    floor: LotFloor<AnswerAddress>,
    outlet: ThreadOutlet,
    requests: mpsc::Receiver<LotsRequest>,
    log: mpsc::Receiver<LaneEvent>,
    lane: LaneHandle,
    claim: RetentionClaim,
    is_ending: Arc<AtomicBool>,
}

impl FloorThread {
    fn run(mut self) {
        let mut now_ms = unix_ms();
        self.floor.begin(now_ms, &mut self.outlet);
        let mut stock_at = Instant::now();
        while !self.is_ending.load(Ordering::Acquire) {
            // The clock may go back; the time of lots does not.
            now_ms = now_ms.max(unix_ms());
            let is_more = self.turn(now_ms);
            if stock_at <= Instant::now() {
                stock_at = Instant::now() + STOCK_EVERY;
                self.take_stock(now_ms);
            }
            if !is_more {
                let due_ms = self.floor.next_tick_ms(now_ms);
                let wait =
                    due_ms.map(|due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms)));
                std::thread::park_timeout(wait.unwrap_or(STOCK_EVERY).min(STOCK_EVERY));
            }
        }
    }

    /// Takes what has come; returns whether more has.
    fn turn(&mut self, now_ms: u64) -> bool {
        let Self { floor, outlet, requests, log, .. } = self;
        for event in log.try_iter() {
            if let LaneEvent::Durable { through, sequence, .. } = event {
                floor.durable(through.0, sequence, outlet);
            }
        }
        while let Some(reply) = outlet.holds.poll() {
            floor.money(now_ms, reply, outlet);
        }
        while let Some(reply) = outlet.sold.as_mut().and_then(|sold| sold.poll()) {
            floor.offered(reply);
        }
        let mut taken = VecDeque::with_capacity(COMMANDS_PER_TURN);
        taken.extend(requests.try_iter().take(COMMANDS_PER_TURN));
        let is_more = taken.len() == COMMANDS_PER_TURN;
        for LotsRequest { to, command } in taken {
            floor.command(now_ms, to, command, outlet);
        }
        floor.tick(now_ms, outlet);
        for reply in std::mem::take(&mut outlet.unsold) {
            floor.offered(reply);
        }
        is_more
    }

    fn take_stock(&mut self, now_ms: u64) {
        self.outlet.counts.take_stock(&self.floor);
        // A record that is not durable yet gets a later sequence.
        let next = self.lane.sequence() + 1;
        self.claim.keep_from(self.floor.forget(now_ms).map_or(next, |needed| needed.min(next)));
    }
}
