//! Where notices are sent from: one thread that is told by the shards, keeps to the rules of
//! delivery, and calls DSPs.
//!
//! It makes no decision about a notice: those are `exchange_core::delivery`'s.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exchange_core::delivery::{
    Attempt, Beacon, BeaconRefusal, Delivery, DeliveryCounters, DeliveryTime, Effect, Event,
    LaneView, Notice, SendOutcome,
};
use exchange_core::{NoticeKind, NoticeTarget, TokenId};
use http_body_util::Full;
use http_kit::client::RequestError;
use hyper::Request;
use hyper::header::{ACCEPT, HeaderName, HeaderValue, USER_AGENT};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, error};
use units::Tick;

use super::client::{CallError, NoticeCall, NoticeClient, ServerAnswer};
use super::journal::NoticeJournal;
use super::settlements::Settlements;

/// Orders of shards that may wait; more are shed, and counted by whoever gives them.
const ORDERS_MAX: usize = 65_536;
/// Events taken in one step, so that what is due is not kept waiting.
const EVENTS_MAX: usize = 4096;

/// How often it is seen how far others have brought the log, when nothing else happens.
const LOG_LOOKED_AT: Duration = Duration::from_secs(10);
/// How long what waits is still sent when the exchange has ended.
const CLOSING: Duration = Duration::from_secs(3);
/// Tokens of relayed ads, wins and losses that are remembered.
const RELAYED_MAX: usize = 1_000_000;

/// What a shard asks for.
#[derive(Debug)]
pub enum NoticeCommand {
    /// Deliver a win or loss notice.
    Submit(exchange_core::delivery::BestEffort, Notice),
    /// The same, of a token that may be called again until it expires, in Unix milliseconds.
    SubmitOnce(exchange_core::delivery::BestEffort, Notice, (TokenId, u64)),
    /// A beacon was called; the answer follows once that is durable.
    Beacon(Box<Beacon>, oneshot::Sender<BeaconAnswer>),
}

/// A notice that is answered with an ad, for which somebody waits.
#[derive(Debug)]
pub struct MarkupFetch {
    /// To be called.
    pub notice: Notice,
    /// Most bytes of it.
    pub body_max: usize,
    /// The token that asks for it, and until when that is remembered: the same is answered once.
    pub once: Option<(TokenId, u64)>,
    /// Hears what came.
    pub done: oneshot::Sender<Result<ServerAnswer, CallError>>,
}

/// What becomes of a beacon's call.
pub type BeaconAnswer = Result<bool, BeaconRefusal>;

/// Where orders are given; clones lead to the same. The dispatcher ends with the last of them.
#[derive(Clone, Debug)]
pub struct NoticeSender {
    orders: mpsc::Sender<NoticeCommand>,
    fetches: mpsc::Sender<MarkupFetch>,
}

/// What was given there.
struct NoticeInbox {
    orders: mpsc::Receiver<NoticeCommand>,
    fetches: mpsc::Receiver<MarkupFetch>,
}

/// What is seen of the dispatcher from outside; it stays when the dispatcher has ended.
#[derive(Clone, Debug, Default)]
pub struct NoticeMonitor(Arc<Mutex<NoticeStatus>>);

/// What the dispatcher shows of its work.
#[derive(Clone, Debug, Default)]
pub struct NoticeStatus {
    /// Counts and levels.
    pub counters: DeliveryCounters,
    /// By DSP.
    pub lanes: Vec<LaneView>,
}

impl NoticeSender {
    /// Gives an order without waiting; `false`, and it is gone, when too many wait.
    pub fn order(&self, order: NoticeCommand) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Asks for an ad without waiting; `false` as above.
    pub fn fetch(&self, fetch: MarkupFetch) -> bool {
        self.fetches.try_send(fetch).is_ok()
    }
}

#[cfg(test)]
impl NoticeSender {
    /// Orders go to the test, which has room for so many.
    pub(crate) fn by_hand(room: usize) -> (Self, mpsc::Receiver<NoticeCommand>) {
        let ((orders, given), (fetches, _)) = (mpsc::channel(room), mpsc::channel(1));
        (Self { orders, fetches }, given)
    }
}

impl NoticeMonitor {
    /// What the dispatcher has done so far.
    pub fn view(&self) -> NoticeStatus {
        self.0.lock().expect("nothing panics while it holds the view").clone()
    }

    fn show(&self, view: NoticeStatus) {
        *self.0.lock().expect("nothing panics while it holds the view") = view;
    }
}

/// The running dispatcher. Once every [`NoticeSender`] is gone it sends what waits, for a while, and ends:
/// billing notices that are still owed stay in the log, which is to be closed after.
#[derive(Debug)]
pub struct NoticeDispatcher {
    thread: JoinHandle<()>,
}

impl NoticeDispatcher {
    /// Starts its thread. `delivery` is as `journal` left it; `settlements` has been told what stood there,
    /// and hears from that thread of all that comes.
    ///
    /// # Errors
    /// The thread, or what it runs on, cannot be had.
    pub fn start(
        delivery: Delivery,
        journal: NoticeJournal,
        client: impl FnOnce() -> Rc<NoticeClient> + Send + 'static,
        settlements: Box<dyn Settlements>,
        times: NoticeTiming,
    ) -> io::Result<(Self, NoticeSender, NoticeMonitor)> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        drop(runtime?); // It can be made; it cannot be sent.
        let (orders, orders_given) = mpsc::channel(ORDERS_MAX);
        let (fetches, fetches_given) = mpsc::channel(ORDERS_MAX);
        let given = NoticeInbox { orders: orders_given, fetches: fetches_given };
        let (events, happened) = mpsc::unbounded_channel();
        let window = NoticeMonitor::default();
        let shown = window.clone();
        let thread = std::thread::Builder::new().name("notices".to_owned()).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let Ok(runtime) = runtime else {
                error!("no runtime for notices: none will be sent");
                return;
            };
            runtime.block_on(async move {
                let client = client();
                let desk = NoticeLoop {
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
                    shown,
                };
                desk.work(given, happened).await;
            });
        })?;
        Ok((Self { thread }, NoticeSender { orders, fetches }, window))
    }

    /// Waits for its end, which follows that of the last [`NoticeSender`].
    pub fn join(self) {
        if self.thread.join().is_err() {
            error!("the notices' thread had panicked");
        }
    }
}

/// When things are done.
#[derive(Clone, Copy, Debug)]
pub struct NoticeTiming {
    /// What delivery goes by.
    pub clock: DeliveryClock,
    /// How long orders and news are gathered, to be dealt with together: each turn costs wake-ups of
    /// two threads, and a commit of the log.
    pub linger: Duration,
    /// Longest wait for an answer; shorter than delivery's own, so that it hears of every call.
    pub answer_timeout: Duration,
}

/// The two clocks.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryClock(Instant);

impl DeliveryClock {
    /// Ticks count from now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What both show.
    pub fn now(&self) -> DeliveryTime {
        DeliveryTime { tick: Tick::ZERO.after(self.0.elapsed()), unix_ms: unix_ms() }
    }

    fn instant(&self, tick: Tick) -> Instant {
        self.0 + tick.since(Tick::ZERO)
    }
}

/// Milliseconds since the epoch of Unix.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

struct NoticeLoop<C> {
    delivery: Delivery,
    /// Makes a call of a DSP.
    call: C,
    journal: NoticeJournal,
    /// Books what is settled.
    settlements: Box<dyn Settlements>,
    /// How far it was told that the log has come.
    reached: u64,
    events: mpsc::UnboundedSender<Event>,
    /// Calls of beacons that wait for their answer.
    waiting: HashMap<u64, oneshot::Sender<BeaconAnswer>>,
    calls: u64,
    relayed: RelayedTokens,
    times: NoticeTiming,
    shown: NoticeMonitor,
}

impl<C: Fn(NoticeCall)> NoticeLoop<C> {
    async fn work(mut self, mut given: NoticeInbox, mut happened: mpsc::UnboundedReceiver<Event>) {
        let (mut orders, mut inbox, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
        let mut closing_until = None;
        let mut next_turn = Instant::now();
        let mut is_crowded = false;
        let clock = self.times.clock;
        loop {
            let wake_at = self.delivery.wake_at(clock.now()).map(|tick| clock.instant(tick));
            let look_at = Instant::now() + LOG_LOOKED_AT;
            let wake_at = [wake_at, closing_until].into_iter().flatten().fold(look_at, Ord::min);
            tokio::select! {
                Some(fetch) = given.fetches.recv() => {
                    self.fetch(fetch);
                    continue;
                }
                taken = given.orders.recv_many(&mut orders, EVENTS_MAX), if closing_until.is_none() => {
                    if taken == 0 {
                        closing_until = Some(Instant::now() + CLOSING);
                    }
                }
                _ = happened.recv_many(&mut inbox, EVENTS_MAX) => (),
                news = self.journal.heard() => inbox.push(news),
                () = tokio::time::sleep_until(wake_at) => (),
            }
            if !is_crowded && given.orders.len() + orders.len() < EVENTS_MAX {
                self.linger(next_turn, &mut given.fetches).await;
            }
            next_turn = Instant::now() + self.times.linger;
            orders.extend(std::iter::from_fn(|| given.orders.try_recv().ok()).take(EVENTS_MAX));
            inbox.extend(std::iter::from_fn(|| happened.try_recv().ok()).take(EVENTS_MAX));
            inbox.push(self.journal.reached());
            inbox.extend(std::iter::from_fn(|| self.journal.try_heard()).take(EVENTS_MAX));
            for order in orders.drain(..) {
                self.take(order, &mut inbox);
            }
            self.delivery.step(clock.now(), &mut inbox, &mut outbox);
            self.act(&mut outbox);
            let mut counters = self.delivery.counters();
            counters.beacons_duplicate += self.relayed.repeated;
            let lanes: Vec<_> = self.delivery.lanes().collect();
            is_crowded = lanes.iter().any(waits_for_calls);
            self.shown.show(NoticeStatus { counters, lanes });
            let Some(until) = closing_until else { continue };
            let is_idle = counters.in_flight == 0 && counters.best_effort_waiting == 0;
            if is_idle || until <= Instant::now() {
                return;
            }
        }
    }

    fn take(&mut self, order: NoticeCommand, inbox: &mut Vec<Event>) {
        match order {
            NoticeCommand::Submit(kind, notice) => inbox.push(Event::Submit { kind, notice }),
            NoticeCommand::SubmitOnce(kind, notice, (id, expires_ms)) => {
                if self.relayed.is_first(id, expires_ms, self.times.clock.now()) {
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

    /// Waits for more until the next turn; an ad is not kept waiting.
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
        let now = self.times.clock.now();
        if once.is_some_and(|(id, expires_ms)| !self.relayed.is_first(id, expires_ms, now)) {
            return; // A repeated call gets no answer: `done` is dropped.
        }
        if let Some(call) = call(&notice, body_max, done) {
            (self.call)(call);
        }
    }

    fn act(&mut self, outbox: &mut Vec<Effect>) {
        for effect in outbox.drain(..) {
            match effect {
                Effect::Journal { ticket, record } => {
                    if let Some(refused) = self.journal.hand_over(ticket, &record) {
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
                    // Its URL holds a price.
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
        // Whoever called may have gone.
        let _ = self.waiting.remove(&call).map(|answer| answer.send(acknowledged));
    }

    fn send(&self, attempt: Attempt, kind: NoticeKind, notice: &Notice) {
        let (done, answered) = oneshot::channel();
        let Some(call) = call(notice, 0, done) else {
            let outcome = SendOutcome::Forbidden;
            return drop(self.events.send(Event::Sent { attempt, outcome }));
        };
        (self.call)(call);
        let (events, dsp) = (self.events.clone(), Arc::clone(notice.dsp()));
        let patience = self.times.answer_timeout;
        tokio::task::spawn_local(async move {
            // One that is still queued then is not made: nobody waits for it.
            let answered = tokio::time::timeout(patience, answered).await;
            let outcome = match answered.unwrap_or(Ok(Err(RequestError::TimedOut.into()))) {
                Ok(Ok(answered)) => SendOutcome::Status(answered.status),
                Ok(Err(CallError::Request(RequestError::Forbidden(address)))) => {
                    debug!(
                        %dsp, %address,
                        "a notice's host is not public; exchange.notices.networks_allowed allows it"
                    );
                    SendOutcome::Forbidden
                }
                Ok(Err(error)) => {
                    debug!(%dsp, %error, ?kind, "a notice failed");
                    SendOutcome::Failed
                }
                Err(_) => SendOutcome::Failed,
            };
            let _ = events.send(Event::Sent { attempt, outcome });
        });
    }
}

/// Whether notices may wait for calls of a DSP to end, so that each end is news to act on. Those of a
/// DSP that fails wait for their retry, however long: meanwhile the others' gather as ever.
fn waits_for_calls(lane: &LaneView) -> bool {
    let held = lane.billing_owed + lane.best_effort_waiting;
    0 < lane.in_flight && lane.in_flight < held && lane.failures == 0
}

/// Tokens whose ad has been asked for, or whose win or loss has been told, until they expire. A
/// restart forgets them: a DSP may then be asked, or told, once more.
#[derive(Debug, Default)]
struct RelayedTokens {
    /// Called again.
    repeated: u64,
    /// With the Unix time of their expiry, in milliseconds.
    known: BTreeMap<TokenId, u64>,
    expiry: BTreeSet<(Tick, TokenId)>,
}

impl RelayedTokens {
    /// Whether it is asked for the first time, and there is room to remember it.
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

    /// Forgets those that have expired by both clocks: one that was set forward and back again would
    /// make a forgotten token good once more.
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

/// The call of a notice. None if its URL cannot be called.
fn call(
    notice: &Notice,
    body_max: usize,
    done: oneshot::Sender<Result<ServerAnswer, CallError>>,
) -> Option<NoticeCall> {
    let target = NoticeTarget::parse(notice.url())?;
    let mut request = get(&target, target.path_and_query)?;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, HeaderValue::from_static("vickrey"));
    for (name, value) in notice.forwarded().headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).ok()?);
    }
    Some(NoticeCall { request, body_max, done })
}

/// A request for `path_and_query` at the host of `target`. None if it is too long.
pub(super) fn get(target: &NoticeTarget<'_>, path_and_query: &str) -> Option<Request<Full<Bytes>>> {
    let mut uri = String::with_capacity(path_and_query.len() + 256);
    let (scheme, usual) = if target.is_tls { ("https", 443) } else { ("http", 80) };
    let host = target.host.to_ascii_lowercase();
    let is_v6 = host.contains(':');
    let _ =
        if is_v6 { write!(uri, "{scheme}://[{host}]") } else { write!(uri, "{scheme}://{host}") };
    if target.port != usual {
        let _ = write!(uri, ":{}", target.port);
    }
    if !path_and_query.starts_with('/') {
        uri.push('/');
    }
    for letter in path_and_query.chars() {
        // A URI has none of these (RFC 3986, appendix A), and the client takes none.
        if "\"<>`".contains(letter) {
            let _ = write!(uri, "%{:02X}", u32::from(letter));
        } else {
            uri.push(letter);
        }
    }
    let request = Request::get(uri).header(ACCEPT, HeaderValue::from_static("*/*"));
    request.body(Full::default()).ok()
}

#[cfg(test)]
mod tests;
