//! One thread that takes notices from the shards, delivers them by the rules, and calls DSPs.
//!
//! It decides nothing about a notice: `exchange_core::delivery` does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use exchange_core::delivery::{
    Attempt, Beacon, BeaconRefusal, BestEffort, Delivery, DeliveryCounters, DeliveryTime, Effect,
    Event, LaneView, Notice, SendOutcome,
};
use exchange_core::{NoticeKind, NoticeTarget, TokenId};
use http_kit::client::RequestError;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, error};
use units::Tick;

use super::client::{CallError, CallResult, CallWaiter, NoticeCall, NoticeClient, NoticeRequest};
use super::clock::DeliveryClock;
use super::journal::NoticeJournal;
use super::settlements::Settlements;

/// Most queued commands; the shard sheds and counts any further ones.
const COMMANDS_MAX: usize = 65_536;
/// Most events in one step, so that due notices do not wait.
const EVENTS_MAX: usize = 4096;

/// How often an idle loop checks how far the log is durable.
const LOG_CHECKED_EVERY: Duration = Duration::from_secs(10);
/// How long queued notices are still sent after the exchange has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Tokens of relayed ads, wins and losses to remember.
const RELAYED_MAX: usize = 1_000_000;

#[derive(Debug)]
pub enum NoticeCommand {
    /// Deliver a win or loss notice; of a token that expires at this Unix millisecond, once.
    Submit(BestEffort, Notice, Option<(TokenId, u64)>),
    /// A beacon was called; answer once it is durable.
    Beacon(Box<Beacon>, oneshot::Sender<BeaconAnswer>),
}

/// Longest wait for an ad that the DSP's win notice returns; its host may have many calls.
pub const MARKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A notice that returns an ad, which an auction or a beacon waits for.
#[derive(Debug)]
pub struct MarkupFetch {
    pub notice: Notice,
    pub body_max: usize,
    /// The token that asks, with its expiry in Unix milliseconds. Repeated calls get no answer.
    pub once: Option<(TokenId, u64)>,
    pub done: oneshot::Sender<CallResult>,
}

/// Whether the beacon is the first of its token, or why it is refused.
pub type BeaconAnswer = Result<bool, BeaconRefusal>;

/// The dispatcher ends with the last clone.
#[derive(Clone, Debug)]
pub struct NoticeSender {
    commands: mpsc::Sender<NoticeCommand>,
    fetches: mpsc::Sender<MarkupFetch>,
}

struct NoticeInbox {
    commands: mpsc::Receiver<NoticeCommand>,
    fetches: mpsc::Receiver<MarkupFetch>,
}

#[derive(Clone, Debug, Default)]
pub struct NoticeMonitor(Arc<Mutex<NoticeStatus>>);

/// State of the dispatcher.
#[derive(Clone, Debug, Default)]
pub struct NoticeStatus {
    /// Counters and levels.
    pub counters: DeliveryCounters,
    /// By DSP.
    pub lanes: Vec<LaneView>,
}

impl NoticeSender {
    /// Queues a command. Drops it and returns false if the queue is full.
    pub fn send(&self, command: NoticeCommand) -> bool {
        self.commands.try_send(command).is_ok()
    }

    /// Like [`Self::send`].
    pub fn fetch(&self, fetch: MarkupFetch) -> bool {
        self.fetches.try_send(fetch).is_ok()
    }
}

#[cfg(test)]
impl NoticeSender {
    /// A sender whose commands, at most `room`, the test receives.
    pub(crate) fn by_hand(room: usize) -> (Self, mpsc::Receiver<NoticeCommand>) {
        let ((commands, received), (fetches, _)) = (mpsc::channel(room), mpsc::channel(1));
        (Self { commands, fetches }, received)
    }
}

impl NoticeMonitor {
    pub fn status(&self) -> NoticeStatus {
        self.0.lock().expect("nothing panics while it holds the view").clone()
    }

    fn set(&self, view: NoticeStatus) {
        *self.0.lock().expect("nothing panics while it holds the view") = view;
    }
}

/// The running dispatcher. Once every [`NoticeSender`] is gone it sends queued notices for a while,
/// then ends. Owed billing notices stay in the log, which must close after it.
#[derive(Debug)]
pub struct NoticeDispatcher {
    thread: JoinHandle<()>,
}

impl NoticeDispatcher {
    /// Starts the thread. `delivery` and `settlements` must have replayed what `journal` holds; the
    /// thread passes all later ones to `settlements`.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub fn start(
        delivery: Delivery,
        journal: NoticeJournal,
        client: impl FnOnce() -> io::Result<Rc<NoticeClient>> + Send + 'static,
        settlements: Box<dyn Settlements>,
        times: NoticeTiming,
    ) -> io::Result<(Self, NoticeSender, NoticeMonitor)> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        drop(runtime?); // Only checks that it can be made: a runtime is not `Send`.
        let (commands, commands_received) = mpsc::channel(COMMANDS_MAX);
        let (fetches, fetches_received) = mpsc::channel(COMMANDS_MAX);
        let received = NoticeInbox { commands: commands_received, fetches: fetches_received };
        let (events, events_received) = mpsc::unbounded_channel();
        let monitor = NoticeMonitor::default();
        let own_monitor = monitor.clone();
        let thread = std::thread::Builder::new().name("notices".to_owned()).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let Ok(runtime) = runtime else {
                error!("no runtime for notices: none will be sent");
                return;
            };
            runtime.block_on(async move {
                let client = match client() {
                    Ok(client) => client,
                    Err(error) => return error!(%error, "no notices will be sent"),
                };
                let notices = NoticeLoop {
                    delivery,
                    call: move |call| client.call(call),
                    journal,
                    settlements,
                    reached: 0,
                    events,
                    waiting: HashMap::new(),
                    calls: 0,
                    relayed: RelayedTokens::default(),
                    times,
                    monitor: own_monitor,
                };
                notices.run(received, events_received).await;
            });
        })?;
        Ok((Self { thread }, NoticeSender { commands, fetches }, monitor))
    }

    pub fn join(self) {
        if self.thread.join().is_err() {
            error!("the notices' thread had panicked");
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NoticeTiming {
    pub clock: DeliveryClock,
    /// How long commands and events gather for one turn, which costs two wake-ups and a log commit.
    pub linger: Duration,
    /// Shorter than delivery's own, so that delivery learns how every call ended.
    pub answer_timeout: Duration,
}

struct NoticeLoop<C> {
    delivery: Delivery,
    call: C,
    journal: NoticeJournal,
    settlements: Box<dyn Settlements>,
    /// Last durable position of the log that delivery knows.
    reached: u64,
    events: mpsc::UnboundedSender<Event>,
    waiting: HashMap<u64, oneshot::Sender<BeaconAnswer>>,
    calls: u64,
    relayed: RelayedTokens,
    times: NoticeTiming,
    monitor: NoticeMonitor,
}

impl<C: Fn(NoticeCall)> NoticeLoop<C> {
    async fn run(
        mut self,
        mut received: NoticeInbox,
        mut events_received: mpsc::UnboundedReceiver<Event>,
    ) {
        let (mut commands, mut inbox, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
        let mut closing_until = None;
        let mut next_turn = Instant::now();
        let mut is_crowded = false;
        let clock = self.times.clock;
        loop {
            let wake_at = self.delivery.wake_at(clock.now()).map(|tick| clock.instant(tick));
            let look_at = Instant::now() + LOG_CHECKED_EVERY;
            let wake_at = [wake_at, closing_until].into_iter().flatten().fold(look_at, Ord::min);
            tokio::select! {
                Some(fetch) = received.fetches.recv() => {
                    self.fetch(fetch);
                    continue;
                }
                taken = received.commands.recv_many(&mut commands, EVENTS_MAX), if closing_until.is_none() => {
                    if taken == 0 {
                        closing_until = Some(Instant::now() + CLOSE_TIMEOUT);
                    }
                }
                _ = events_received.recv_many(&mut inbox, EVENTS_MAX) => (),
                news = self.journal.next_event() => inbox.push(news),
                () = tokio::time::sleep_until(wake_at) => (),
            }
            if !is_crowded && received.commands.len() + commands.len() < EVENTS_MAX {
                self.linger(next_turn, &mut received.fetches).await;
            }
            next_turn = Instant::now() + self.times.linger;
            commands
                .extend(std::iter::from_fn(|| received.commands.try_recv().ok()).take(EVENTS_MAX));
            inbox.extend(std::iter::from_fn(|| events_received.try_recv().ok()).take(EVENTS_MAX));
            inbox.push(self.journal.durable_position());
            inbox.extend(std::iter::from_fn(|| self.journal.try_next_event()).take(EVENTS_MAX));
            for command in commands.drain(..) {
                self.take(command, &mut inbox);
            }
            self.delivery.step(clock.now(), &mut inbox, &mut outbox);
            self.act(&mut outbox);
            let mut counters = self.delivery.counters();
            counters.beacons_duplicate += self.relayed.repeated;
            let lanes: Vec<_> = self.delivery.lanes().collect();
            is_crowded = lanes.iter().any(waits_for_calls);
            self.monitor.set(NoticeStatus { counters, lanes });
            let Some(until) = closing_until else { continue };
            let is_idle = counters.in_flight == 0 && counters.best_effort_waiting == 0;
            if is_idle || until <= Instant::now() {
                return;
            }
        }
    }

    fn take(&mut self, command: NoticeCommand, inbox: &mut Vec<Event>) {
        match command {
            NoticeCommand::Submit(kind, notice, once) => {
                if !self.is_repeated(once) {
                    inbox.push(Event::Submit { kind, notice });
                }
            }
            NoticeCommand::Beacon(mut beacon, answer) => {
                self.calls += 1;
                beacon.call = self.calls;
                self.waiting.insert(self.calls, answer);
                inbox.push(Event::Beacon(beacon));
            }
        }
    }

    /// Gathers events until the next turn; fetches of ads do not wait.
    async fn linger(&mut self, next_turn: Instant, fetches: &mut mpsc::Receiver<MarkupFetch>) {
        if next_turn <= Instant::now() {
            return;
        }
        let mut turn = std::pin::pin!(tokio::time::sleep_until(next_turn));
        loop {
            tokio::select! {
                Some(fetch) = fetches.recv() => self.fetch(fetch),
                () = &mut turn => return,
            }
        }
    }

    fn fetch(&mut self, MarkupFetch { notice, body_max, once, done }: MarkupFetch) {
        if self.is_repeated(once) {
            return; // A repeated call gets no answer: `done` is dropped.
        }
        if let Some(request) = request(&notice) {
            let (until, waiter) = (Instant::now() + MARKUP_TIMEOUT, CallWaiter::Fetch(done));
            (self.call)(NoticeCall { request, body_max, until, waiter });
        }
    }

    fn is_repeated(&mut self, once: Option<(TokenId, u64)>) -> bool {
        let now = self.times.clock.now();
        once.is_some_and(|(id, expires_ms)| !self.relayed.is_first(id, expires_ms, now))
    }

    fn act(&mut self, outbox: &mut Vec<Effect>) {
        for effect in outbox.drain(..) {
            match effect {
                Effect::Journal { ticket, record } => {
                    if let Some(refused) = self.journal.write(ticket, &record) {
                        let _ = self.events.send(refused);
                    }
                }
                Effect::Send { attempt, kind, notice } => self.send(attempt, kind, &notice),
                Effect::Settled { sequence, reservation } => {
                    self.settlements.settled(sequence, &reservation);
                }
                Effect::Acknowledge { call, duplicate } => self.answer(call, Ok(duplicate)),
                Effect::Refuse { call, refusal } => self.answer(call, Err(refusal)),
                Effect::GiveUp { notice, tries, reason, .. } => {
                    // Log the host alone: the URL contains a price.
                    let dsp = &**notice.dsp();
                    let host = NoticeTarget::parse(notice.url()).map(|target| target.host);
                    error!(dsp, host, tries, ?reason, "a billing notice is given up");
                }
            }
        }
        let settled_through = self.delivery.settled_through();
        if settled_through > self.reached {
            self.reached = settled_through;
            self.settlements.reached(settled_through);
        }
        self.journal.keep_from(self.delivery.keep_from(self.settlements.applied_seq()));
    }

    fn answer(&mut self, call: u64, acknowledged: BeaconAnswer) {
        let _ = self.waiting.remove(&call).map(|answer| answer.send(acknowledged));
    }

    fn send(&self, attempt: Attempt, kind: NoticeKind, notice: &Notice) {
        let Some(request) = request(notice) else {
            let outcome = SendOutcome::Forbidden;
            return drop(self.events.send(Event::Sent { attempt, outcome }));
        };
        let (events, dsp) = (self.events.clone(), Arc::clone(notice.dsp()));
        let waiter = CallWaiter::Delivery(Box::new(move |result| {
            let outcome = match result {
                Ok(answered) => SendOutcome::Status(answered.status),
                Err(CallError::Request(RequestError::Forbidden(address))) => {
                    debug!(
                        %dsp, %address,
                        "a notice's host is not public; exchange.notices.networks_allowed allows it"
                    );
                    SendOutcome::Forbidden
                }
                Err(error) => {
                    debug!(%dsp, %error, ?kind, "a notice failed");
                    SendOutcome::Failed
                }
            };
            let _ = events.send(Event::Sent { attempt, outcome });
        }));
        let until = Instant::now() + self.times.answer_timeout;
        (self.call)(NoticeCall { request, body_max: 0, until, waiter });
    }
}

/// Whether notices queue for calls to end, so that each end needs a turn at once. Those of a
/// failing DSP wait for their retry, and do not speed up turns.
fn waits_for_calls(lane: &LaneView) -> bool {
    let held = lane.billing_owed + lane.best_effort_waiting;
    0 < lane.in_flight && lane.in_flight < held && lane.failures == 0
}

/// Tokens whose ad was fetched, or whose win or loss was sent, until they expire. After a restart a
/// DSP may get one of them again.
#[derive(Debug, Default)]
struct RelayedTokens {
    repeated: u64,
    /// Expiry in Unix milliseconds.
    known: BTreeMap<TokenId, u64>,
    expiry: BTreeSet<(Tick, TokenId)>,
}

impl RelayedTokens {
    /// Whether this is the token's first call and there is room to remember it.
    fn is_first(&mut self, id: TokenId, expires_ms: u64, now: DeliveryTime) -> bool {
        self.forget_expired(now);
        if self.known.contains_key(&id) {
            self.repeated += 1;
            return false;
        }
        if self.known.len() >= RELAYED_MAX {
            return false;
        }
        self.known.insert(id, expires_ms);
        self.expiry.insert((now.tick_at(expires_ms), id))
    }

    /// Forgets tokens that have expired by both clocks: a wall clock set forward and back would
    /// make a forgotten token valid again.
    fn forget_expired(&mut self, now: DeliveryTime) {
        while let Some((at, id)) = self.expiry.first().copied().filter(|(at, _)| *at <= now.tick) {
            self.expiry.remove(&(at, id));
            match self.known.get(&id) {
                Some(expires_ms) if *expires_ms > now.unix_ms => {
                    self.expiry.insert((now.tick_at(*expires_ms), id));
                }
                _ => drop(self.known.remove(&id)),
            }
        }
    }
}

/// The request of a notice. None if its URL cannot be called.
fn request(notice: &Notice) -> Option<Rc<NoticeRequest>> {
    let target = NoticeTarget::parse(notice.url())?;
    let request = NoticeRequest::get(&target, target.path_and_query).with("user-agent", "vickrey");
    let forwarded = notice.forwarded().headers();
    Some(Rc::new(
        forwarded.fold(request, |request, (name, value)| request.with(name, value.to_owned())),
    ))
}

#[cfg(test)]
mod tests;
