//! The task that owns the connection: sends what callers ask in batches, hands out decisions in
//! time, repeats settlements, and reconnects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pacer_wire::{
    BatchItem, CatalogueChange, DecisionCode, DecisionsFrame, FrameKind, RawFrame, SettledFrame,
    SettlementEntry, SettlementOutcome, WelcomeFields, write_batch, write_heartbeat, write_settle,
};
use rand::RngExt as _;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};
use units::Nanos;

use crate::connection::{ConnectionError, ConnectionReader, ConnectionWriter, connect};
use crate::options::PacerClientOptions;
use crate::request::{AuthorisedBid, OfferKind, SpendRequest, decision};
use crate::settlements::UnsettledToken;
use crate::shared::ClientShared;

/// A request, and who waits for its decision.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub request: SpendRequest,
    pub deadline: Instant,
    pub reply: oneshot::Sender<Result<AuthorisedBid, DecisionCode>>,
}

/// A request on its way.
#[derive(Debug)]
struct SentRequest {
    kinds: Vec<OfferKind>,
    deadline: Instant,
    reply: oneshot::Sender<Result<AuthorisedBid, DecisionCode>>,
}

/// What the server allows.
#[derive(Clone, Copy, Debug)]
struct ServerLimits {
    requests_max: usize,
    candidates_max: usize,
    settlements_max: usize,
    frame_bytes_max: usize,
    /// A heartbeat is due after this long without a frame.
    silence_max: Duration,
}

impl ServerLimits {
    fn of(welcome: &WelcomeFields) -> Self {
        Self {
            requests_max: welcome.requests_max.get().into(),
            candidates_max: welcome.candidates_max.get().into(),
            settlements_max: welcome.settlements_max.get().into(),
            frame_bytes_max: usize::try_from(welcome.frame_bytes_max.get()).unwrap_or(usize::MAX),
            silence_max: Duration::from_millis(u64::from(welcome.idle_ms.get()) / 3),
        }
    }
}

/// Bytes of a batch's head and fixed part, of a request, and of a candidate.
const BATCH_BYTES: [usize; 3] = [32, 16, 24];

/// The state of one connection.
struct ClientSession<'d> {
    options: &'d PacerClientOptions,
    shared: &'d ClientShared,
    limits: Option<ServerLimits>,
    credit: usize,
    sequence: u64,
    spoken_at: Instant,
    batches: VecDeque<(u64, Vec<SentRequest>)>,
}

/// Connects again and again until all handles of the client are gone.
pub(crate) async fn run(
    options: PacerClientOptions,
    shared: Arc<ClientShared>,
    mut requests: mpsc::Receiver<WaitingRequest>,
) {
    let mut delay = options.retry_min;
    let mut is_reported = false;
    while !requests.is_closed() || shared.settlements().len() > 0 {
        let error = match tokio::time::timeout(options.connect_timeout, connect(&options)).await {
            Err(_) => ConnectionError::Timeout,
            Ok(Err(error)) => error,
            Ok(Ok((reader, writer))) => {
                let mut session = ClientSession::new(&options, &shared);
                let ended = session.run(reader, writer, &mut requests).await;
                if session.limits.is_some() {
                    (delay, is_reported) = (options.retry_min, false);
                }
                // Their callers get no decision.
                drop(session);
                shared.disconnected();
                match ended {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
        };
        if !std::mem::replace(&mut is_reported, true) || error.is_permanent() {
            warn!(address = options.address, %error, "no connection to the pacer; nothing is bid");
        }
        if error.is_permanent() {
            delay = options.retry_max;
        }
        let jitter = rand::rng().random_range(0.5..1.0);
        wait(&mut requests, delay.mul_f64(jitter)).await;
        delay = (delay * 2).min(options.retry_max);
    }
}

/// Lets time pass. Requests get no decision meanwhile.
async fn wait(requests: &mut mpsc::Receiver<WaitingRequest>, time: Duration) {
    let sleep = tokio::time::sleep(time);
    tokio::pin!(sleep);
    loop {
        tokio::select! {
            () = &mut sleep => return,
            Some(request) = requests.recv() => drop(request),
            else => return sleep.await,
        }
    }
}

impl<'d> ClientSession<'d> {
    fn new(options: &'d PacerClientOptions, shared: &'d ClientShared) -> Self {
        Self {
            options,
            shared,
            limits: None,
            credit: 0,
            sequence: 1,
            spoken_at: Instant::now(),
            batches: VecDeque::new(),
        }
    }

    /// Exchanges frames until the connection ends, or nobody needs it any more.
    async fn run(
        &mut self,
        mut reader: ConnectionReader,
        mut writer: ConnectionWriter,
        requests: &mut mpsc::Receiver<WaitingRequest>,
    ) -> Result<(), ConnectionError> {
        let greeted_by = Instant::now() + self.options.connect_timeout;
        loop {
            let was_connected = self.shared.is_connected();
            reader.each(|frame| self.take(&frame))?;
            if !was_connected {
                // They may name campaigns by the handles of an earlier epoch.
                while requests.try_recv().is_ok() {}
            }
            let now = Instant::now();
            if !self.shared.is_connected() && greeted_by <= now {
                return Err(ConnectionError::Timeout);
            }
            self.send_settlements(now, &mut writer.out);
            let mut batch = self.collect(requests);
            self.send_batch(&mut batch, now, &mut writer.out);
            self.send_heartbeat(now, &mut writer.out);
            if requests.is_closed() && requests.is_empty() && self.shared.settlements().len() == 0 {
                return Ok(());
            }
            let until = self.next_at(now).min(now + Duration::from_secs(1));
            tokio::select! {
                read = reader.read() => read?,
                written = writer.write_some(), if writer.has_bytes() => written?,
                () = self.shared.settled() => (),
                request = requests.recv(), if self.may_send() => {
                    if let Some(request) = request {
                        let mut batch = vec![request];
                        batch.extend(self.collect(requests));
                        self.send_batch(&mut batch, Instant::now(), &mut writer.out);
                    }
                }
                () = tokio::time::sleep_until(until.into()) => (),
            }
        }
    }

    /// Whether a batch may be sent.
    fn may_send(&self) -> bool {
        self.shared.is_connected() && self.has_credit()
    }

    fn has_credit(&self) -> bool {
        self.batches.len() + self.shared.settlements().frames() < self.credit
    }

    /// When something is due without a frame or a caller.
    fn next_at(&self, now: Instant) -> Instant {
        let silence = self.limits.map_or(Duration::from_secs(1), |limits| limits.silence_max);
        let again = self.shared.settlements().due_at();
        again.into_iter().fold(self.spoken_at + silence, Instant::min).max(now)
    }

    /// The requests that wait, as many as fit a batch.
    fn collect(&self, requests: &mut mpsc::Receiver<WaitingRequest>) -> Vec<WaitingRequest> {
        let mut batch = Vec::new();
        let Some(limits) = self.limits.filter(|_| self.may_send()) else { return batch };
        let max = self.options.batch_max.min(limits.requests_max);
        let [fixed, of_request, of_candidate] = BATCH_BYTES;
        let mut bytes = fixed;
        while batch.len() + 1 < max {
            let most = of_request + of_candidate * limits.candidates_max;
            if bytes + most > limits.frame_bytes_max {
                break;
            }
            let Ok(request) = requests.try_recv() else { break };
            // One that the server would refuse gets no decision.
            if request.request.candidates.len() <= limits.candidates_max {
                bytes += of_request + of_candidate * request.request.candidates.len();
                batch.push(request);
            }
        }
        batch
    }

    fn send_batch(&mut self, batch: &mut Vec<WaitingRequest>, now: Instant, out: &mut Vec<u8>) {
        batch.retain(|request| now < request.deadline && !request.reply.is_closed());
        let Some(first) = batch.iter().map(|request| request.deadline).min() else { return };
        let left = first.saturating_duration_since(now).saturating_sub(self.options.return_time);
        let deadline_us = u32::try_from(left.as_micros()).unwrap_or(u32::MAX);
        let sequence = self.next_sequence(now);
        let items = batch
            .iter()
            .map(|it| BatchItem { request: it.request.entry, candidates: &it.request.candidates });
        write_batch(out, sequence, deadline_us, items);
        let sent = batch.drain(..).map(|WaitingRequest { request, deadline, reply }| SentRequest {
            kinds: request.kinds,
            deadline,
            reply,
        });
        self.batches.push_back((sequence, sent.collect()));
    }

    fn send_settlements(&mut self, now: Instant, out: &mut Vec<u8>) {
        let Some(limits) = self.limits.filter(|_| self.shared.is_connected()) else { return };
        while self.has_credit() && self.shared.settlements().is_due(now) {
            let sequence = self.next_sequence(now);
            let entries = self.shared.settlements().send(sequence, limits.settlements_max);
            write_settle(out, sequence, &entries);
        }
    }

    fn send_heartbeat(&mut self, now: Instant, out: &mut Vec<u8>) {
        let Some(limits) = self.limits else { return };
        if self.spoken_at + limits.silence_max <= now {
            let sequence = self.next_sequence(now);
            write_heartbeat(out, sequence, 0, 0);
        }
    }

    fn next_sequence(&mut self, now: Instant) -> u64 {
        self.spoken_at = now;
        self.sequence += 1;
        self.sequence
    }

    fn take(&mut self, frame: &RawFrame<'_>) -> Result<(), ConnectionError> {
        match frame.kind {
            FrameKind::Welcome => {
                let welcome = frame.welcome()?;
                self.limits = Some(ServerLimits::of(welcome));
                self.credit = welcome.credit.get().into();
                self.shared.welcomed(welcome.node.get(), welcome.epoch.get());
            }
            FrameKind::Catalogue => {
                let change = CatalogueChange::decode(frame)?;
                self.credit = change.credit.into();
                let is_last = change.is_last;
                self.shared.catalogue().apply(change)?;
                if is_last && self.shared.set_connected() {
                    info!(address = self.options.address, "connected to the pacer");
                }
            }
            FrameKind::Decisions => self.take_decisions(frame)?,
            FrameKind::Settled => {
                let settled = SettledFrame::decode(frame)?;
                self.credit = settled.credit.into();
                let applied =
                    self.shared.settlements().settled(frame.head.sequence.get(), settled.codes());
                applied.ok_or(ConnectionError::Contradiction("results of nothing"))?;
            }
            FrameKind::Heartbeat => self.credit = frame.heartbeat()?.credit.get().into(),
            FrameKind::Error => {
                let (code, text) = frame.error()?;
                return Err(ConnectionError::Closed { code, text: text.to_owned() });
            }
            FrameKind::Hello | FrameKind::Batch | FrameKind::Settle => {
                return Err(ConnectionError::Contradiction("a frame that only clients send"));
            }
        }
        Ok(())
    }

    /// Hands out decisions. One that comes too late, or for nobody, is a loss.
    fn take_decisions(&mut self, frame: &RawFrame<'_>) -> Result<(), ConnectionError> {
        let decisions = DecisionsFrame::decode(frame)?;
        let wrong = || ConnectionError::Contradiction("decisions on no batch");
        let (sequence, batch) = self.batches.pop_front().ok_or_else(wrong)?;
        if sequence != frame.head.sequence.get() || batch.len() != decisions.len() {
            return Err(wrong());
        }
        self.credit = decisions.credit.into();
        let generation = decisions.generation;
        let now = Instant::now();
        for (request, (entry, token)) in batch.into_iter().zip(decisions) {
            let SentRequest { kinds, deadline, reply } = request;
            let decided = decision(&kinds, entry, token, generation).ok_or_else(wrong)?;
            let unused = if now < deadline { reply.send(decided).err() } else { Some(decided) };
            if let Some(Ok(bid)) = unused {
                self.shared.count_late();
                let lost = SettlementOutcome::Lost;
                let entry = SettlementEntry::new(bid.token, lost, Nanos::ZERO);
                self.shared.settlements().push(UnsettledToken { entry, reply: None });
            }
        }
        Ok(())
    }
}
