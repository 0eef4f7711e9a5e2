//! Forwards settlements from the log to the pacer, on a thread of its own, until each is booked.
//!
//! The log alone says what was billed: a start continues where the pacer's results ended.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eventlog::disk::DiskFolder;
use eventlog::lane::{LaneHandle, LaneKind};
use eventlog::{LogEntry, LogReadError, LogReader};
use events::RecordKind;
use exchange_core::Reservation;
use exchange_core::delivery::JournalRecord;
use pacer_client::{PacerClient, PacerClientOptions, SettlementCode};
use record::Record;
use runtime::metrics::Counter;
use tokio::sync::{oneshot, watch};
use tracing::{error, info, warn};

use super::offset::OffsetFile;
use crate::notices::Settlements;

/// Most settlements without a result.
const UNSETTLED_MAX: usize = 65_536;
/// How long settlements gather before they are read from the log.
const GATHER: Duration = Duration::from_millis(20);
/// Interval between writes of the offset, and between attempts after an error.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the end waits for results.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What the forwarder counts.
#[derive(Debug, Default)]
pub(crate) struct ForwarderCounts {
    /// Settlements booked by the pacer, by it first or again.
    pub booked: Counter,
    /// Settlements that the pacer refused: they are in no budget.
    pub refused: Counter,
    /// Records of the log that may hold settlements without a result.
    pub behind: AtomicU64,
}

/// Why the forwarder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    /// Its thread cannot be spawned.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Its offset cannot be read or created.
    #[error("record.directory: the offset of settlements: {0}")]
    Offset(io::Error),
}

/// The thread.
#[derive(Debug)]
pub(crate) struct SettlementForwarder {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

/// The dispatcher's end: says how far the log is durable.
#[derive(Debug)]
pub(crate) struct ForwardedSettlements {
    durable: watch::Sender<u64>,
    applied: Arc<AtomicU64>,
}

/// A settlement without a result, with its sequence in the log.
struct SentSettlement {
    sequence: u64,
    result: oneshot::Receiver<SettlementCode>,
}

/// The thread's state.
struct Forwarding {
    client: PacerClient,
    lane: LaneHandle,
    offset: OffsetFile,
    applied: Arc<AtomicU64>,
    counts: Arc<ForwarderCounts>,
    /// Sequence up to which the log was read.
    read: u64,
    sent: VecDeque<SentSettlement>,
    /// Refused since the last message.
    refused: u64,
}

impl SettlementForwarder {
    pub fn start(
        options: PacerClientOptions,
        record: &Record,
        counts: Arc<ForwarderCounts>,
    ) -> Result<(Self, ForwardedSettlements), ForwarderError> {
        let offset = OffsetFile::open(&record.directory, record.durable.sequence());
        let offset = offset.map_err(ForwarderError::Offset)?;
        let applied = Arc::new(AtomicU64::new(offset.offset()));
        let (durable, reached) = watch::channel(offset.offset());
        let settlements = ForwardedSettlements { durable, applied: Arc::clone(&applied) };
        let lane = record.durable.clone();
        let folder: PathBuf = record.directory.join(LaneKind::Durable.name());
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ForwarderError::Thread)?;
        let thread = std::thread::Builder::new().name("pacer-settle".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let forwarding = Forwarding {
                    client: PacerClient::start(options),
                    lane,
                    read: offset.offset(),
                    offset,
                    applied,
                    counts,
                    sent: VecDeque::new(),
                    refused: 0,
                };
                forwarding.run(&DiskFolder::read_only(folder), reached, stopped).await;
            });
        });
        Ok((Self { thread: thread.map_err(ForwarderError::Thread)?, stop }, settlements))
    }

    /// Waits for results a moment, and ends.
    pub fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("the thread that forwards settlements had panicked: the next start goes on");
        }
    }
}

impl Settlements for ForwardedSettlements {
    /// The forwarder reads it from the log.
    fn settled(&mut self, _: u64, _: &Reservation) {}

    fn reached(&mut self, sequence: u64) {
        self.durable.send_if_modified(|known| {
            let is_later = *known < sequence;
            *known = sequence.max(*known);
            is_later
        });
    }

    fn replayed(&mut self) {}

    fn applied_seq(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }
}

impl Forwarding {
    async fn run(
        mut self,
        folder: &DiskFolder,
        mut durable: watch::Receiver<u64>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut next_write = Instant::now();
        let mut read_after = Instant::now();
        let mut end_by = None;
        loop {
            let reached = *durable.borrow_and_update();
            let is_read = reached <= self.read;
            self.counts.behind.store(reached - self.applied_seq(reached), Ordering::Relaxed);
            if next_write <= Instant::now() {
                self.write_offset(reached);
                next_write = Instant::now() + INTERVAL;
            }
            let is_done = is_read && self.sent.is_empty();
            if end_by.is_some_and(|end_by| is_done || end_by <= Instant::now()) {
                break;
            }
            let has_room = self.sent.len() < UNSETTLED_MAX;
            if !is_read && has_room && read_after <= Instant::now() {
                read_after = Instant::now() + GATHER;
                if let Err(error) = self.read_log(folder, reached) {
                    error!(%error, "settlements cannot be read from the log: it is tried again");
                    read_after = Instant::now() + INTERVAL;
                }
                continue;
            }
            let next = if is_read || !has_room { next_write } else { next_write.min(read_after) };
            tokio::select! {
                result = first_result(&mut self.sent) => self.take(result),
                Ok(()) = durable.changed(), if is_read => (),
                _ = &mut stop, if end_by.is_none() => end_by = Some(Instant::now() + END_PATIENCE),
                () = tokio::time::sleep_until(next.into()) => (),
            }
        }
        self.write_offset(*durable.borrow());
        let behind = self.sent.len();
        if behind > 0 {
            info!(behind, "settlements wait for the pacer: the next start forwards them");
        }
    }

    /// Sends the settlements of the log up to `durable`, as many as may be without a result.
    fn read_log(&mut self, folder: &DiskFolder, durable: u64) -> Result<(), LogReadError> {
        for item in LogReader::new(folder)?.seek(self.read + 1)?.follow() {
            let record = match item? {
                LogEntry::Record(record) => record,
                LogEntry::Corruption(corruption) => {
                    error!(%corruption, "the log is damaged: what was billed there is not booked");
                    continue;
                }
                LogEntry::Torn(_) => break,
            };
            if durable < record.sequence || self.sent.len() == UNSETTLED_MAX {
                return Ok(());
            }
            if record.kind == RecordKind::Notice.code() {
                self.forward(record.sequence, &record.payload);
            }
            self.read = record.sequence;
        }
        self.read = self.read.max(durable);
        Ok(())
    }

    fn forward(&mut self, sequence: u64, record: &[u8]) {
        let Ok(JournalRecord::Accepted { reservation: Some(reservation), .. }) =
            JournalRecord::decode(record)
        else {
            return; // The dispatcher reports what it cannot read.
        };
        let token = reservation.token;
        let sent = token.amount_unchecked();
        let sent = sent.and_then(|cost| self.client.won(token.to_bytes(), cost));
        match sent {
            Some(result) => self.sent.push_back(SentSettlement { sequence, result }),
            None => self.refuse(),
        }
    }

    /// Takes the result of the first settlement. None: it has a code of a later version.
    fn take(&mut self, result: Option<SettlementCode>) {
        self.sent.pop_front();
        match result {
            Some(
                SettlementCode::Booked | SettlementCode::BookedLate | SettlementCode::AlreadyBooked,
            ) => self.counts.booked.increment(),
            _ => self.refuse(),
        }
    }

    fn refuse(&mut self) {
        self.counts.refused.increment();
        self.refused += 1;
    }

    /// Sequence up to which all settlements have their result, if the log is durable up to `durable`.
    fn applied_seq(&self, durable: u64) -> u64 {
        let first = self.sent.front().map_or(self.read, |sent| sent.sequence - 1);
        first.min(durable.max(self.offset.offset()))
    }

    fn write_offset(&mut self, durable: u64) {
        if self.refused > 0 {
            let refused = std::mem::take(&mut self.refused);
            error!(refused, "the pacer refused settlements: what was billed is in no budget");
        }
        let applied = self.applied_seq(durable.max(self.lane.sequence()));
        match self.offset.write(applied) {
            Ok(()) => self.applied.store(applied, Ordering::Release),
            Err(error) => warn!(%error, "the offset of settlements cannot be written"),
        }
    }
}

/// Waits for the result of the first settlement. Cancel-safe.
async fn first_result(sent: &mut VecDeque<SentSettlement>) -> Option<SettlementCode> {
    match sent.front_mut() {
        Some(first) => (&mut first.result).await.ok(),
        None => std::future::pending().await,
    }
}
