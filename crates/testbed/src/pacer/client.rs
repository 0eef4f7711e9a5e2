//! One connection of the load: frames that wait to be written, and batches and settlements in
//! flight.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use pacer_wire::{
    BatchItem, BidRequestEntry, CandidateEntry, CatalogueChange, DecisionCode, DecisionsFrame,
    FrameError, FrameKind, Hello, RawFrame, SettledFrame, SettlementEntry, SettlementOutcome,
    write_batch, write_heartbeat, write_hello, write_settle,
};
use units::{Nanos, Ppm, SplitMix64};

use super::options::{PacerLoadError, PacerLoadOptions};
use super::report::PacerLoadCounts;
use super::requests::RequestSource;

fn malformed(error: FrameError) -> PacerLoadError {
    PacerLoadError::Reply(error.to_string())
}

/// Longest frame to accept, and the room for what is read at once.
const INPUT_BYTES: usize = 1 << 20;
/// Settlements that are sent together, unless they have waited for long.
const SETTLEMENTS: usize = 128;
/// Longest wait of a settlement for others.
const SETTLE_WITHIN: Duration = Duration::from_millis(20);
/// Longest silence.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);

/// A batch without its decisions.
#[derive(Clone, Copy, Debug)]
struct SentBatch {
    sequence: u64,
    /// Number of its first request.
    first: u64,
    /// When it was due.
    intended: Instant,
    is_measured: bool,
}

/// Settlements without their results.
#[derive(Debug)]
struct SettleInFlight {
    sequence: u64,
    entries: Vec<SettlementEntry>,
    sent: Instant,
}

/// The time of an event, and whether it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadMoment {
    pub now: Instant,
    pub is_measured: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct LoadClient {
    pub stream: TcpStream,
    input: Box<[u8]>,
    filled: usize,
    out: Vec<u8>,
    written: usize,
    sequence: u64,
    pub credit: u16,
    batches: VecDeque<SentBatch>,
    settles: VecDeque<SettleInFlight>,
    /// Settlements to send.
    ended: Vec<SettlementEntry>,
    ended_since: Instant,
    spoken_at: Instant,
    random: SplitMix64,
    won: Ppm,
    lost: Ppm,
    settlements_max: usize,
    items: Vec<BidRequestEntry>,
    candidates: Vec<CandidateEntry>,
    /// Campaigns of its first catalogue.
    pub campaigns: Vec<u32>,
    pub is_ready: bool,
}

impl LoadClient {
    /// Connects and sends its hello.
    pub fn connect(options: &PacerLoadOptions, number: u64) -> Result<Self, PacerLoadError> {
        let address = options.address;
        let stream = std::net::TcpStream::connect(address)
            .and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(TcpStream::from_std(stream))
            })
            .map_err(|source| PacerLoadError::Connection { address, source })?;
        let mut out = Vec::with_capacity(INPUT_BYTES);
        let bytes_max = u32::try_from(INPUT_BYTES).expect("it is 1 MiB");
        write_hello(&mut out, 1, &Hello::new(&options.client, &options.secret, bytes_max));
        let now = Instant::now();
        Ok(Self {
            stream,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            filled: 0,
            out,
            written: 0,
            sequence: 1,
            credit: 0,
            batches: VecDeque::new(),
            settles: VecDeque::new(),
            ended: Vec::new(),
            ended_since: now,
            spoken_at: now,
            random: SplitMix64::new(options.seed ^ number),
            won: options.won,
            lost: options.lost,
            settlements_max: SETTLEMENTS,
            items: Vec::new(),
            candidates: Vec::new(),
            campaigns: Vec::new(),
            is_ready: false,
        })
    }

    /// Batches without decisions.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether every settlement has its result.
    pub fn is_settled(&self) -> bool {
        self.settles.is_empty() && self.ended.is_empty()
    }

    /// Whether another batch may be sent.
    pub fn has_credit(&self) -> bool {
        self.batches.len() + self.settles.len() + 1 < usize::from(self.credit)
    }

    /// Queues a batch of `count` requests from number `first` on.
    pub fn send_batch(
        &mut self,
        source: &RequestSource,
        range: std::ops::Range<u64>,
        deadline: Duration,
        due: LoadMoment,
    ) {
        self.items.clear();
        self.candidates.clear();
        for number in range.clone() {
            let entry = source.request(number, &mut self.candidates);
            self.items.push(entry);
        }
        let sequence = self.next_sequence(due.now);
        let each = usize::from(source.candidates);
        let items = self.items.iter().zip(self.candidates.chunks_exact(each));
        let deadline_us = u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX);
        let items = items.map(|(request, candidates)| BatchItem { request: *request, candidates });
        write_batch(&mut self.out, sequence, deadline_us, items);
        let (first, intended, is_measured) = (range.start, due.now, due.is_measured);
        self.batches.push_back(SentBatch { sequence, first, intended, is_measured });
    }

    /// Queues settlements that are due, and a heartbeat if nothing else was sent for long.
    pub fn send_settlements(&mut self, now: Instant) {
        while !self.ended.is_empty()
            && (self.ended.len() >= self.settlements_max || self.ended_since + SETTLE_WITHIN <= now)
            && self.batches.len() + self.settles.len() < usize::from(self.credit)
        {
            let count = self.ended.len().min(self.settlements_max);
            let entries: Vec<_> = self.ended.drain(..count).collect();
            let sequence = self.next_sequence(now);
            write_settle(&mut self.out, sequence, &entries);
            self.settles.push_back(SettleInFlight { sequence, entries, sent: now });
        }
        if self.spoken_at + HEARTBEAT_EVERY <= now {
            let sequence = self.next_sequence(now);
            write_heartbeat(&mut self.out, sequence, 0, 0);
        }
    }

    fn next_sequence(&mut self, now: Instant) -> u64 {
        self.spoken_at = now;
        self.sequence += 1;
        self.sequence
    }

    /// Writes what is queued, as far as the socket takes it.
    pub fn write(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once and takes all whole frames; returns whether more may be there.
    pub fn read(
        &mut self,
        source: &RequestSource,
        moment: LoadMoment,
        counts: &mut PacerLoadCounts,
        address: SocketAddr,
    ) -> Result<bool, PacerLoadError> {
        let gone = |source| PacerLoadError::Connection { address, source };
        let room = self.input.len() - self.filled;
        let length = match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(gone(error)),
        };
        self.filled += length;
        let input = std::mem::take(&mut self.input);
        let taken = self.take_frames(&input[..self.filled], source, moment, counts);
        self.input = input;
        let taken = taken?;
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(length == room)
    }

    fn take_frames(
        &mut self,
        input: &[u8],
        source: &RequestSource,
        moment: LoadMoment,
        counts: &mut PacerLoadCounts,
    ) -> Result<usize, PacerLoadError> {
        let mut taken = 0;
        let bytes_max = u32::try_from(INPUT_BYTES).expect("it is 1 MiB");
        while let Some(frame) = RawFrame::read(&input[taken..], bytes_max).map_err(malformed)? {
            taken += frame.bytes.len();
            match frame.kind {
                FrameKind::Decisions => {
                    self.take_decisions(&frame, source, moment, counts)?;
                }
                FrameKind::Settled => {
                    let settled = SettledFrame::decode(&frame).map_err(malformed)?;
                    self.take_settled(frame.head.sequence.get(), &settled, moment, counts)?;
                }
                FrameKind::Welcome => {
                    let welcome = frame.welcome().map_err(malformed)?;
                    self.credit = welcome.credit.get();
                    self.settlements_max = SETTLEMENTS.min(welcome.settlements_max.get().into());
                }
                FrameKind::Catalogue => {
                    let change = CatalogueChange::decode(&frame).map_err(malformed)?;
                    self.take_catalogue(change)?;
                }
                FrameKind::Heartbeat => {
                    self.credit = frame.heartbeat().map_err(malformed)?.credit.get();
                }
                FrameKind::Error => {
                    let (code, text) = frame.error().map_err(malformed)?;
                    let code = code.map_or("unknown", |code| code.label());
                    return Err(PacerLoadError::Closed(format!("{code}: {text}")));
                }
                kind => return Err(PacerLoadError::Reply(format!("a frame of kind {kind:?}"))),
            }
        }
        Ok(taken)
    }

    fn take_catalogue(&mut self, change: CatalogueChange<'_>) -> Result<(), PacerLoadError> {
        self.credit = change.credit;
        let is_last = change.is_last;
        if !self.is_ready {
            for row in change {
                let row = row.map_err(malformed)?;
                if row.state == DecisionCode::Authorised {
                    self.campaigns.push(row.handle);
                }
            }
        }
        self.is_ready |= is_last;
        Ok(())
    }

    fn take_decisions(
        &mut self,
        frame: &RawFrame<'_>,
        source: &RequestSource,
        moment: LoadMoment,
        counts: &mut PacerLoadCounts,
    ) -> Result<(), PacerLoadError> {
        let decisions = DecisionsFrame::decode(frame).map_err(malformed)?;
        let sequence = frame.head.sequence.get();
        let batch = self.batches.pop_front().filter(|batch| batch.sequence == sequence);
        let batch = batch.ok_or_else(|| {
            PacerLoadError::Reply(format!("decisions on frame {sequence}, which was no batch"))
        })?;
        self.credit = decisions.credit;
        if batch.is_measured {
            counts.batches += 1;
            let waited = moment.now.saturating_duration_since(batch.intended);
            let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
            counts.latency_us.saturating_record(micros);
        }
        for (number, (decision, token)) in (batch.first..).zip(decisions) {
            source.check(number, decision).map_err(PacerLoadError::Reply)?;
            if batch.is_measured {
                counts.decisions[usize::from(decision.code)] += 1;
            }
            let Some(token) = token else { continue };
            let price = decision.price.get();
            counts.authorised_nanos += u128::from(price);
            let draw = self.random.bits();
            let share =
                |draw: u64, share: Ppm| draw % u64::from(Ppm::ONE.get()) < u64::from(share.get());
            let settlement = if share(draw, self.won) {
                let cost = Nanos::new(price - price / 4);
                SettlementEntry::new(*token, SettlementOutcome::Won, cost)
            } else if share(draw >> 32, self.lost) {
                SettlementEntry::new(*token, SettlementOutcome::Lost, Nanos::ZERO)
            } else {
                continue;
            };
            if self.ended.is_empty() {
                self.ended_since = moment.now;
            }
            self.ended.push(settlement);
        }
        Ok(())
    }

    fn take_settled(
        &mut self,
        sequence: u64,
        settled: &SettledFrame<'_>,
        moment: LoadMoment,
        counts: &mut PacerLoadCounts,
    ) -> Result<(), PacerLoadError> {
        let at = self.settles.iter().position(|settle| settle.sequence == sequence);
        let settle = at.and_then(|at| self.settles.remove(at)).ok_or_else(|| {
            PacerLoadError::Reply(format!("results of frame {sequence}, which settled nothing"))
        })?;
        self.credit = settled.credit;
        let codes = settled.codes();
        if codes.len() != settle.entries.len() {
            return Err(PacerLoadError::Reply("not as many results as settlements".to_owned()));
        }
        let waited = moment.now.saturating_duration_since(settle.sent);
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        counts.settle_us.saturating_record(micros);
        for (entry, code) in settle.entries.iter().zip(codes) {
            let code = code.ok_or_else(|| PacerLoadError::Reply("an unknown result".to_owned()))?;
            counts.settled(code, entry.cost.get());
        }
        Ok(())
    }
}
