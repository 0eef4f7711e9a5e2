//! Notices in the log: a ring into its durable lane, and the replay at a start.
//!
//! Must not know a record's content, except where replay begins. Nothing waits: the log thread
//! writes, and reports over a channel. While it cannot write, beacons are refused at once; records
//! already in the ring become durable later.

use eventlog::disk::{Disk, DiskFolder};
use eventlog::lane::{
    DurableRing, LaneEvent, LaneHandle, LaneKind, LaneListener, PushError, RetentionClaim,
};
use eventlog::{LogEntry, LogReadError, LogReader};
use events::RecordKind;
use exchange_core::delivery::{Event, JournalRecord, JournalReplay, JournalTicket, TicketQueue};
use record::Record;
use runtime::process::unix_ms;
use tokio::sync::mpsc;
use tracing::{error, info};

/// Writes records to the log, and receives its reports.
#[derive(Debug)]
pub struct NoticeJournal {
    ring: DurableRing,
    lane: LaneHandle,
    events: mpsc::UnboundedReceiver<LaneEvent>,
    is_log_running: bool,
    tickets: TicketQueue,
    claim: RetentionClaim,
    kept_from: u64,
}

impl NoticeJournal {
    /// Opens a ring into `record`, and replays its durable lane to `visit`: for delivery, and for
    /// settlements after `applied_seq`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn open(
        record: &Record,
        applied_seq: u64,
        visit: impl FnMut(u64, &[u8]),
    ) -> Result<Self, LogReadError> {
        // Its claim protects what is read now.
        let journal = Self::connect(record.durable.clone(), |tell| {
            record.rings.durable_ring(record.durable_ring_bytes, Some(tell))
        });
        let folder = DiskFolder::read_only(record.directory.join(LaneKind::Durable.name()));
        let read = read(&folder, applied_seq, visit)?;
        info!(
            place = folder.place(),
            from = read.from,
            records = read.records,
            notices = read.notices,
            "the log was read for notices"
        );
        Ok(journal)
    }

    /// Connects to `lane` with the ring that `make` creates.
    pub(super) fn connect(
        lane: LaneHandle,
        make: impl FnOnce(LaneListener) -> DurableRing,
    ) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let ring = make(Box::new(move |event| {
            let _unheard = sender.send(event);
        }));
        Self {
            ring,
            claim: lane.protect(),
            lane,
            events,
            is_log_running: true,
            tickets: TicketQueue::default(),
            kept_from: 0,
        }
    }

    /// Writes a record. Returns an event if it is refused.
    pub fn write(&mut self, ticket: JournalTicket, record: &[u8]) -> Option<Event> {
        match self.ring.push(RecordKind::Notice.code(), unix_ms(), record) {
            Ok(position) => {
                self.tickets.push(position.0, ticket);
                None
            }
            Err(refused) => {
                if let PushError::TooLong { .. } = refused {
                    error!(%refused, "a notice cannot be journalled");
                }
                Some(Event::JournalRefused(vec![ticket]))
            }
        }
    }

    /// The log's durable position. Report it before writing more.
    pub fn durable_position(&self) -> Event {
        Event::JournalReached(self.lane.sequence())
    }

    /// Waits for the next report. Once the log thread has ended: one failure, then none.
    pub async fn next_event(&mut self) -> Event {
        if self.is_log_running {
            if let Some(event) = self.events.recv().await {
                return self.event(event);
            }
            self.is_log_running = false;
            return Event::JournalFailing;
        }
        std::future::pending().await
    }

    pub fn try_next_event(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok()?;
        Some(self.event(event))
    }

    fn event(&mut self, event: LaneEvent) -> Event {
        match event {
            LaneEvent::Durable { through, sequence, .. } => {
                Event::JournalCommitted(self.tickets.durable(through.0, sequence))
            }
            LaneEvent::Failing { .. } => Event::JournalFailing,
            LaneEvent::Writing => Event::JournalWriting,
        }
    }

    /// Lets the log drop notices below `sequence`.
    pub fn keep_from(&mut self, sequence: u64) {
        if sequence > self.kept_from {
            self.kept_from = sequence;
            self.claim.keep_from(sequence);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalRead {
    /// From the last checkpoint or, without one, the first notice; earlier if settlements before it
    /// are not booked.
    from: u64,
    /// Records from there on, of all kinds.
    records: u64,
    /// Notices among them.
    notices: u64,
}

/// Replays notices from the last checkpoint and after `applied_seq`, whichever comes first.
fn read<D: Disk>(
    disk: &D,
    applied_seq: u64,
    mut visit: impl FnMut(u64, &[u8]),
) -> Result<JournalRead, LogReadError> {
    let kind = RecordKind::Notice.code();
    let newest =
        eventlog::newest(disk, kind, |record| match JournalRecord::decode(&record.payload) {
            Ok(JournalRecord::Checkpoint { needed_from }) => Some(needed_from),
            _ => None,
        });
    let from = match newest? {
        Some(needed_from) => match JournalReplay::begins_at(needed_from, applied_seq) {
            from if from < needed_from => from.max(eventlog::begins(disk, kind)?),
            from => from,
        },
        None => eventlog::begins(disk, kind)?,
    };
    let mut read = JournalRead { from, records: 0, notices: 0 };
    for item in LogReader::new(disk)?.seek(read.from)? {
        match item? {
            LogEntry::Record(record) => {
                read.records += 1;
                if record.kind == kind {
                    read.notices += 1;
                    visit(record.sequence, &record.payload);
                }
            }
            LogEntry::Corruption(corruption) => {
                error!(
                    %corruption,
                    "the log is damaged: notices may be lost or sent twice, and what was billed there is not booked, \
                     even if it is brought back later"
                );
            }
            // It was never promised.
            LogEntry::Torn(_) => (),
        }
    }
    Ok(read)
}

#[cfg(test)]
pub(super) mod tests;
