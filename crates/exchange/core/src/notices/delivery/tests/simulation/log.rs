//! The log of one life: real lanes on a failing disk, ours and that of others. The log thread is
//! stepped by hand; delivery learns its reports later.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use eventlog::disk::SyncMeter;
use eventlog::disk::testing::FaultDisk;
use eventlog::lane::{
    DurableRing, GapFormat, LaneEvent, LaneHandle, LaneKind, LaneOptions, LaneSetup, LaneState,
    LaneTime as LogNow, LogDriver, NextStep, PushError, Retention, RetentionClaim,
};
use eventlog::{LogEntry, LogReadError, LogReader, LogWriter, WriterOptions};

use crate::notices::delivery::event::DeliveryTime;
use crate::notices::delivery::journal::JournalRecord;

pub const NOTICE: u8 = 1;
const OTHER: u8 = 2;
const GAP: u8 = 4;
const RING_BYTES: usize = 8_000;

const OPTIONS: LaneOptions = LaneOptions {
    writer: WriterOptions {
        segment_bytes: 1_500,
        batch_bytes_max: 4_000,
        ..WriterOptions::DEFAULT
    },
    // Retention is minimal: everything unneeded is deleted.
    retention: Retention {
        bytes_max: Some(2_000),
        age_max: None,
        every: Duration::from_millis(500),
    },
    ..LaneOptions::DURABLE
};

pub struct SharedLog {
    keeper: LogDriver<FaultDisk>,
    claim: RetentionClaim,
    lane: LaneHandle,
    ring: DurableRing,
    others: DurableRing,
    told: Receiver<LaneEvent>,
    /// Reports not yet passed to delivery.
    unheard: VecDeque<LaneEvent>,
    /// Appended records not reported durable.
    handed: VecDeque<JournalRecord>,
    pub next: NextStep,
}

fn setup(disk: &FaultDisk) -> Option<LaneSetup<FaultDisk>> {
    let (writer, _) = LogWriter::open_at_end(disk.clone(), OPTIONS.writer, |_| ()).ok()?;
    Some(LaneSetup { writer, options: OPTIONS, meter: SyncMeter::default().into() })
}

impl SharedLog {
    /// None if the disk fails.
    pub fn open(disk: &FaultDisk) -> Option<Self> {
        let firehose = setup(&FaultDisk::new(0)).expect("nothing fails");
        let gaps = GapFormat { kind: GAP, encode: |_, _| () };
        let mut keeper = LogDriver::new(setup(disk)?, firehose, gaps, Box::new(|_, _| ()));
        let (tell, told) = channel();
        let tell = Box::new(move |told| {
            let _gone = tell.send(told);
        });
        let ring = keeper.durable_ring(RING_BYTES, Some(tell));
        let others = keeper.durable_ring(RING_BYTES, None);
        Some(Self {
            claim: keeper.lane(LaneKind::Durable).protect(),
            lane: keeper.lane(LaneKind::Durable),
            keeper,
            ring,
            others,
            told,
            unheard: VecDeque::new(),
            handed: VecDeque::new(),
            next: NextStep::Now,
        })
    }

    /// Where a start must read from.
    pub fn needed_from(disk: &FaultDisk) -> Result<u64, LogReadError> {
        let newest =
            eventlog::newest(disk, NOTICE, |record| match JournalRecord::decode(&record.payload) {
                Ok(JournalRecord::Checkpoint { needed_from }) => Some(needed_from),
                _ => None,
            });
        Ok(newest?.unwrap_or(0))
    }

    pub fn read(
        disk: &FaultDisk,
        sequence: u64,
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let reader = LogReader::new(disk).and_then(|reader| reader.seek(sequence));
        for item in reader.map_err(|error| error.to_string())? {
            match item.map_err(|error| error.to_string())? {
                LogEntry::Record(record) if record.kind == NOTICE => {
                    visit(record.sequence, &record.payload)?;
                }
                LogEntry::Record(_) => (),
                // Opening the log repaired torn ends.
                LogEntry::Torn(torn) => return Err(torn.to_string()),
                LogEntry::Corruption(corruption) => return Err(corruption.to_string()),
            }
        }
        Ok(())
    }

    pub fn push(&mut self, now: DeliveryTime, record: &[u8]) -> Result<u64, PushError> {
        let position = self.ring.push(NOTICE, now.unix_ms, record)?;
        self.handed.push_back(JournalRecord::decode(record).expect("a record of ours"));
        Ok(position.0)
    }

    pub fn push_other(&mut self, now: DeliveryTime, bytes: usize) {
        // Acceptance does not matter to us.
        let _taken = self.others.push(OTHER, now.unix_ms, &vec![7; bytes]);
    }

    /// Steps the log thread. Returns our records that became durable.
    pub fn step(&mut self, now: DeliveryTime, elapsed: Duration) -> Vec<JournalRecord> {
        self.next = self.keeper.step(LogNow { tick: elapsed, unix_ms: now.unix_ms });
        let mut durable = Vec::new();
        for told in self.told.try_iter() {
            if let LaneEvent::Durable { records, .. } = told {
                let records = usize::try_from(records).expect("few");
                durable.extend(self.handed.drain(..records));
            }
            self.unheard.push_back(told);
        }
        durable
    }

    pub fn hear(&mut self) -> impl Iterator<Item = LaneEvent> {
        self.unheard.drain(..)
    }

    pub fn is_heard(&self) -> bool {
        self.unheard.is_empty()
    }

    pub fn is_failing(&self) -> bool {
        matches!(self.lane.state(), LaneState::Failing { .. })
    }

    pub fn sequence(&self) -> u64 {
        self.lane.sequence()
    }

    pub fn keep_from(&self, sequence: u64) {
        self.claim.keep_from(sequence);
    }

    /// Ends the process cleanly: accepts no more, and writes what it accepted. Returns our records
    /// that became durable, and the number of those that did not.
    pub fn close(mut self, now: DeliveryTime, elapsed: Duration) -> (Vec<JournalRecord>, u64) {
        self.keeper.close();
        let mut durable = Vec::new();
        for ms in 0..20 {
            durable.extend(self.step(now, elapsed + Duration::from_millis(100 * ms)));
        }
        (durable, self.keeper.unfinished().durable)
    }
}
