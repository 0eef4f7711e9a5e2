//! One connection of a bidder: its hello, its frames in order, and one write for the replies to all
//! frames that had arrived.
//!
//! Must not know what a campaign may spend.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::{Authorisation, AuthorisationRequest, SpendCandidate};
use pacer_wire::{
    BatchFrame, BatchRequest, DecisionCode, DecisionsWriter, FrameError, FrameKind, Hello,
    ProtocolError, RawFrame, SettleFrame, SettlementCode, SettlementOutcome, VERSION,
    WelcomeFields, decisions_bytes_max, write_error, write_heartbeat, write_welcome,
};
use runtime::process::unix_ms;
use runtime::service::{
    ClientConnection, ConnectionOptions, ConnectionStream, LocalFuture, ServiceShard,
};
use runtime::shards::{Activity, ConnectionEnd};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tracing::debug;
use units::Nanos;
use zerocopy::FromZeros as _;

use super::client_port::{ClientPort, FrameEntry};
use super::settlements::{ReplyAddress, ReportedWin};
use super::shard::{PacerShard, ShardState, code_of_refusal};

/// Buffers are made smaller after a write if they had to grow beyond this.
const OUT_BYTES_KEPT: usize = 256 * 1024;

/// Why a connection ends.
#[derive(Debug)]
enum SessionEnd {
    /// The client closed it, or its socket failed.
    Gone,
    /// An error of the stream, at the frame with this sequence.
    Error { sequence: u64, code: ProtocolError, text: String },
}

impl From<io::Error> for SessionEnd {
    fn from(error: io::Error) -> Self {
        debug!(%error, "a bidder's connection ended");
        Self::Gone
    }
}

impl ServiceShard for PacerShard {
    fn connection_options(&self, _listener: usize) -> ConnectionOptions {
        let config = &self.context.config;
        ConnectionOptions {
            tls: config.tls.clone(),
            timeouts: config.timeouts,
            write_timeout: config.write_timeout,
            unsent_max: None,
            dates_arrivals: true,
        }
    }

    fn serve(self: Rc<Self>, client: ClientConnection) -> LocalFuture<'static, ()> {
        Box::pin(serve(self, client))
    }

    fn close(self: Rc<Self>) -> LocalFuture<'static, ()> {
        Box::pin(async move { self.end().await })
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(shard: Rc<PacerShard>, mut client: ClientConnection) {
    let activity = client.activity().clone();
    let arrivals = client.arrivals().clone();
    let timeouts = shard.context.config.timeouts;
    let mut session = Session::new(Rc::clone(&shard));
    let stream = client.stream();
    let run = session
        .run(stream, &activity, || arrivals.take().unwrap_or_else(tokio::time::Instant::now));
    let end = match activity.limited(&timeouts, run).await {
        Ok(end) => end,
        Err(ConnectionEnd::Idle) => session.error(ProtocolError::Idle, "no frame for too long"),
        Err(ConnectionEnd::Head) => session.error(ProtocolError::Slow, "a frame took too long"),
        Err(ConnectionEnd::Evicted) => {
            session.error(ProtocolError::Closing, "idle, and another connection needs its place")
        }
    };
    if let SessionEnd::Error { sequence, code, text } = end {
        shard.counts.errors[code as usize].increment();
        let mut out = Vec::new();
        write_error(&mut out, sequence, code, &text);
        // The client may be gone.
        let _unheard = stream.write_all(&out).await;
        let _unheard = stream.shutdown().await;
    }
    if let Some(port) = session.port.take() {
        shard.disconnect(&port);
    }
}

/// The state of one connection.
struct Session {
    shard: Rc<PacerShard>,
    /// None before the hello.
    port: Option<Rc<ClientPort>>,
    input: Box<[u8]>,
    /// Unread bytes of `input`.
    unread: std::ops::Range<usize>,
    out: Vec<u8>,
    /// Sequence of the last frame.
    sequence: u64,
    /// Batches that are priced.
    priced_frames: Vec<PricedFrame>,
}

/// A batch whose requests are priced, in order.
#[derive(Clone, Copy, Debug)]
struct PricedFrame {
    sequence: u64,
    requests: usize,
}

impl Session {
    fn new(shard: Rc<PacerShard>) -> Self {
        let bytes_max = shard.context.config.limits.bytes_max;
        let length = usize::try_from(bytes_max).expect("a limit is at most 1 MiB");
        Self {
            shard,
            port: None,
            input: vec![0; length].into_boxed_slice(),
            unread: 0..0,
            out: Vec::new(),
            sequence: 0,
            priced_frames: Vec::new(),
        }
    }

    fn error(&self, code: ProtocolError, text: impl Into<String>) -> SessionEnd {
        SessionEnd::Error { sequence: self.sequence, code, text: text.into() }
    }

    /// Reads, answers and writes until the connection ends.
    async fn run(
        &mut self,
        stream: &mut ConnectionStream,
        activity: &Activity,
        arrival: impl Fn() -> tokio::time::Instant,
    ) -> SessionEnd {
        let mut received = Instant::now();
        loop {
            let taken = self.take_frames(received);
            if let Some(port) = &self.port {
                port.take_outbox(&mut self.out);
            }
            if let Err(error) =
                self.write(stream, taken.as_ref().copied().unwrap_or(0), received).await
            {
                return error.into();
            }
            if let Err(end) = taken {
                return end;
            }
            if self.unread.is_empty() {
                activity.set_idle();
            }
            match self.wait(stream).await {
                Ok(Awaited::Bytes) => received = arrival().into_std(),
                Ok(Awaited::Replies) => (),
                Ok(Awaited::Shutdown) => {
                    return self.error(ProtocolError::Closing, "the server ends");
                }
                Ok(Awaited::Dismissal) => {
                    let text = "the configuration no longer has this client";
                    return self.error(ProtocolError::Denied, text);
                }
                Err(end) => return end,
            }
        }
    }

    /// Writes the replies to `batches` batches that were received at `received`, and others.
    async fn write(
        &mut self,
        stream: &mut ConnectionStream,
        batches: u32,
        received: Instant,
    ) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        stream.write_all(&self.out).await?;
        self.out.clear();
        self.out.shrink_to(OUT_BYTES_KEPT);
        if batches > 0 {
            self.shard.counts.batch.record_many(received.elapsed(), batches.into());
        }
        Ok(())
    }

    /// Waits for bytes, for replies that became ready, or for what ends the connection.
    async fn wait(&mut self, stream: &mut ConnectionStream) -> Result<Awaited, SessionEnd> {
        if self.unread.start > 0 {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let Self { shard, port, input, unread, .. } = self;
        let mut stream = Pin::new(stream);
        std::future::poll_fn(|cx| {
            if port.as_ref().is_some_and(|port| port.is_dismissed.get()) {
                return Poll::Ready(Ok(Awaited::Dismissal));
            }
            let mut buffer = ReadBuf::new(&mut input[unread.end..]);
            match stream.as_mut().poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    Poll::Ready(Err(SessionEnd::Gone))
                }
                Poll::Ready(Ok(())) => {
                    unread.end += buffer.filled().len();
                    Poll::Ready(Ok(Awaited::Bytes))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Pending if port.as_ref().is_some_and(|it| it.poll_outbox(cx.waker())) => {
                    Poll::Ready(Ok(Awaited::Replies))
                }
                Poll::Pending if shard.is_ending() => Poll::Ready(Ok(Awaited::Shutdown)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Answers all frames that have arrived; returns how many of them were batches.
    fn take_frames(&mut self, received: Instant) -> Result<u32, SessionEnd> {
        if self.unread.is_empty() {
            return Ok(0);
        }
        let shard = Rc::clone(&self.shard);
        let state = &mut *shard.state.borrow_mut();
        let input = std::mem::take(&mut self.input);
        let now = Instant::now();
        let taken = self.take_each(state, &input, FrameTimes { received, now });
        self.input = input;
        if let Some(port) = self.port.clone() {
            self.reserve(state, &port, now);
        }
        shard.write_wins(state);
        taken
    }

    fn take_each(
        &mut self,
        state: &mut ShardState,
        input: &[u8],
        times: FrameTimes,
    ) -> Result<u32, SessionEnd> {
        let bytes_max = self.shard.context.config.limits.bytes_max;
        let mut batches = 0;
        loop {
            let frame = RawFrame::read(&input[self.unread.clone()], bytes_max);
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(batches),
                Err(error) => return Err(self.malformed(self.sequence + 1, error)),
            };
            self.unread.start += frame.bytes.len();
            let sequence = frame.head.sequence.get();
            if sequence != self.sequence + 1 {
                let text = format!("expected frame {}", self.sequence + 1);
                let code = ProtocolError::Sequence;
                return Err(SessionEnd::Error { sequence, code, text });
            }
            self.sequence = sequence;
            batches += u32::from(frame.kind == FrameKind::Batch);
            self.take_frame(state, &frame, times)
                .map_err(|problem| self.malformed(sequence, problem))??;
        }
    }

    fn malformed(&self, sequence: u64, error: FrameError) -> SessionEnd {
        SessionEnd::Error { sequence, code: error.into(), text: error.to_string() }
    }

    /// Answers a frame. An outer error is one of its form.
    fn take_frame(
        &mut self,
        state: &mut ShardState,
        frame: &RawFrame<'_>,
        times: FrameTimes,
    ) -> Result<Result<(), SessionEnd>, FrameError> {
        let limits = self.shard.context.config.limits;
        let Some(port) = self.port.clone() else {
            if frame.kind != FrameKind::Hello {
                return Ok(Err(self.error(ProtocolError::Kind, "the first frame is a hello")));
            }
            let hello = Hello::decode(frame)?;
            return Ok(self.welcome(state, &hello));
        };
        if !frame.is_of_client() {
            return Ok(
                Err(self.error(ProtocolError::Kind, "not a frame that a client sends here")),
            );
        }
        if port.open_frames() >= usize::from(limits.credit) && frame.kind != FrameKind::Heartbeat {
            return Ok(Err(self.error(ProtocolError::Credit, "too many frames are unanswered")));
        }
        match frame.kind {
            FrameKind::Batch => {
                let batch = BatchFrame::decode(frame, limits.requests_max, limits.candidates_max)?;
                if decisions_bytes_max(batch.len()) > u64::from(port.frame_bytes_max) {
                    return Err(FrameError::Count(frame.head.count.get()));
                }
                self.price(state, &port, batch, times);
            }
            FrameKind::Settle => {
                let settle = SettleFrame::decode(frame, limits.settlements_max)?;
                self.settle(state, &port, &settle);
            }
            _ => {
                frame.heartbeat()?;
                self.reserve(state, &port, times.now);
                let credit = self.shard.credit(state);
                port.note_credit(credit);
                write_heartbeat(&mut self.out, self.sequence, unix_ms() * 1_000_000, credit);
            }
        }
        Ok(Ok(()))
    }

    fn welcome(&mut self, state: &mut ShardState, hello: &Hello<'_>) -> Result<(), SessionEnd> {
        if VERSION < hello.version_min || hello.version_max < VERSION {
            let text = format!("this server speaks version {VERSION}");
            return Err(self.error(ProtocolError::Version, text));
        }
        if hello.frame_bytes_max < FRAME_BYTES_MIN {
            let text = format!("a client accepts frames of at least {FRAME_BYTES_MIN} bytes");
            return Err(self.error(ProtocolError::Length, text));
        }
        let mut bidders = state.table.bidders.iter().enumerate();
        let found = bidders.find(|(_, bidder)| *bidder.config.id == *hello.client);
        let found = found.filter(|(_, bidder)| {
            let secret = bidder.config.secret.expose();
            !bidder.is_removed && bool::from(secret.as_bytes().ct_eq(hello.secret.as_bytes()))
        });
        let Some((client, bidder)) = found else {
            return Err(self.error(ProtocolError::Denied, "unknown client, or wrong secret"));
        };
        let Some(port) = self.shard.connect(client, bidder, hello.frame_bytes_max) else {
            let text = "too many connections of this client";
            return Err(self.error(ProtocolError::TooMany, text));
        };
        let credit = self.shard.credit(state);
        port.note_credit(credit);
        let welcome = self.welcome_fields(state, credit);
        write_welcome(&mut self.out, self.sequence, &welcome);
        self.shard.write_catalogue(state, &port, &mut self.out);
        self.port = Some(port);
        Ok(())
    }

    fn welcome_fields(&self, state: &ShardState, credit: u16) -> WelcomeFields {
        let context = &self.shard.context;
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX).into();
        let limits = context.config.limits;
        let mut welcome = WelcomeFields::new_zeroed();
        welcome.version = VERSION;
        welcome.credit = credit.into();
        welcome.node = context.node.into();
        welcome.epoch = context.epoch.0.into();
        welcome.generation = state.table.generation.into();
        welcome.unix_ns = (unix_ms() * 1_000_000).into();
        welcome.frame_bytes_max = limits.bytes_max.into();
        welcome.requests_max = limits.requests_max.into();
        welcome.candidates_max = limits.candidates_max.into();
        welcome.settlements_max = limits.settlements_max.into();
        welcome.idle_ms = millis(context.config.timeouts.idle);
        welcome.reservation_ms = millis(context.classes.usual());
        welcome.reservation_max_ms = millis(context.classes.longest());
        welcome.late_window_ms = millis(context.late_window);
        welcome
    }

    /// Prices the requests of a batch; [`Self::reserve`] answers it.
    fn price(
        &mut self,
        state: &mut ShardState,
        port: &ClientPort,
        batch: BatchFrame<'_>,
        times: FrameTimes,
    ) {
        let shard = Rc::clone(&self.shard);
        let (context, counts) = (&*shard.context, &port.counts);
        counts.batches.increment();
        let waited = times.now.saturating_duration_since(times.received);
        let is_late = waited > Duration::from_micros(batch.deadline_us.into());
        if is_late || !state.is_durable || context.halted.is_set() {
            let code = if is_late { DecisionCode::Late } else { DecisionCode::Unavailable };
            self.reserve(state, port, times.now);
            return self.refuse(state, port, batch, code);
        }
        self.priced_frames.push(PricedFrame { sequence: self.sequence, requests: batch.len() });
        let ShardState { shard: paced, table, priced, .. } = state;
        paced.warm_paces(batch.candidates().map(|it| CampaignIndex(it.campaign.get())));
        let mut offered = 0;
        for BatchRequest { request, candidates } in batch {
            let spend = AuthorisationRequest {
                id: request.id.get(),
                impressions: request.multiplier(),
                ttl: context.classes.of(request.reservation_s.get()),
                is_test: request.flags & 1 == 1,
            };
            offered += u32::from(!spend.is_test);
            let candidates = candidates.map(|entry| {
                let (Some(offer), Some(minimum)) = (entry.offer(), entry.minimum()) else {
                    return Err(None);
                };
                let slot = table.spendable(port.client, entry.campaign.get());
                let slot = slot.ok_or(Some(SpendRefusal::Unknown))?;
                Ok(SpendCandidate { slot, offer, minimum })
            });
            paced.price(priced, &spend, candidates, context.keys.draws());
        }
        if let Some(funnel) = paced.funnel() {
            funnel.offer(offered);
        }
    }

    /// Refuses a whole batch.
    fn refuse(
        &mut self,
        state: &mut ShardState,
        port: &ClientPort,
        batch: BatchFrame<'_>,
        code: DecisionCode,
    ) {
        let credit = self.shard.credit(state);
        port.note_credit(credit);
        let (sequence, generation) = (self.sequence, state.table.generation);
        let mut decisions = DecisionsWriter::new(&mut self.out, sequence, generation, batch.len());
        port.counts.decisions[code as usize].add(batch.len() as u64);
        batch.for_each(|_| decisions.refuse(code));
        decisions.finish(credit);
    }

    /// Answers the batches that are priced.
    fn reserve(&mut self, state: &mut ShardState, port: &ClientPort, now: Instant) {
        if self.priced_frames.is_empty() {
            return;
        }
        let (context, counts) = (&*self.shard.context, &port.counts);
        let credit = self.shard.credit(state);
        port.note_credit(credit);
        let (now, generation) = (self.shard.time(state, now), state.table.generation);
        let ShardState { shard: paced, priced, .. } = state;
        paced.warm(priced);
        let mut position = 0;
        for PricedFrame { sequence, requests } in self.priced_frames.drain(..) {
            let mut decisions = DecisionsWriter::new(&mut self.out, sequence, generation, requests);
            for _ in 0..requests {
                let code = match paced.reserve(priced, position, now) {
                    Ok(Authorisation { candidate, amount, token }) => {
                        let candidate =
                            u8::try_from(candidate).expect("a request has at most 255 candidates");
                        let lifetime_s = context.classes.seconds(token.ttl());
                        let token = context.keys.seals().seal_bytes(&token);
                        decisions.authorise(candidate, amount, lifetime_s, &token);
                        DecisionCode::Authorised
                    }
                    Err(refusal) => {
                        let code = refusal.map_or(DecisionCode::Invalid, code_of_refusal);
                        decisions.refuse(code);
                        code
                    }
                };
                counts.decisions[code as usize].increment();
                position += 1;
            }
            decisions.finish(credit);
        }
        priced.clear();
    }

    /// Takes settlements; their results follow once all are known.
    fn settle(&mut self, state: &mut ShardState, port: &ClientPort, settle: &SettleFrame<'_>) {
        let entries = settle.entries();
        let frame = port.begin_frame(self.sequence, entries.len());
        let client = u16::try_from(port.client).expect("clients are fewer than 65,536");
        for (entry, settlement) in (0_u16..).zip(entries) {
            let place = FrameEntry { frame, entry };
            let (shard, connection) = (self.shard.index, port.id);
            let reply = ReplyAddress { shard, connection, client, place };
            let outcome = SettlementOutcome::from_number(settlement.outcome);
            let token = self.shard.context.keys.open_bytes(&settlement.token).ok();
            let campaign = token.and_then(|token| {
                Some((token, state.table.settleable(port.client, token.slot())?))
            });
            let code = match (campaign, outcome) {
                (_, None) => SettlementCode::Invalid,
                (None, Some(_)) => SettlementCode::Rejected,
                (Some((token, campaign)), Some(SettlementOutcome::Won)) => {
                    let win = ReportedWin {
                        token,
                        sealed: settlement.token,
                        cost: Nanos::new(settlement.cost.get()),
                        currency: campaign.currency,
                        reply,
                    };
                    self.shard.win(state, win);
                    continue;
                }
                (Some((token, _)), Some(SettlementOutcome::Lost)) => {
                    self.shard.lose(state, &token, reply);
                    continue;
                }
            };
            port.counts.settlements[code as usize].increment();
            port.complete(place, code);
        }
    }
}

/// When the kernel received a frame, and when it is answered.
#[derive(Clone, Copy, Debug)]
struct FrameTimes {
    received: Instant,
    now: Instant,
}

/// What a connection waited for.
enum Awaited {
    Bytes,
    Replies,
    Shutdown,
    Dismissal,
}

/// The least that a client must accept.
const FRAME_BYTES_MIN: u32 = 4_096;
