//! Reads a lane in order, record by record, as it is or as it grows.

use eventlog::disk::DiskFolder;
use eventlog::lane::LaneKind;
use eventlog::{Corruption, LogEntry, LogReadError, LogReader};

use crate::log::directory::RecordDirectory;
use crate::log::lane::is_gone;
use crate::log::position::RecordPosition;

/// What a follower comes upon.
#[derive(Debug)]
pub enum FollowEvent<'r> {
    /// A record: position, kind, payload.
    Record(&'r RecordPosition, u8, &'r [u8]),
    /// Durable data was lost.
    Corruption(&'r Corruption),
}

/// Follows a lane while it is written.
pub struct LaneFollower<'d> {
    directory: &'d RecordDirectory,
    kind: LaneKind,
    /// None before the first poll, and after a file was removed under it.
    reader: Option<LogReader<'d, DiskFolder>>,
    /// The next sequence.
    next: u64,
    /// None before the first record.
    node: Option<u32>,
}

impl<'d> LaneFollower<'d> {
    /// Follows a lane from a sequence on.
    pub const fn new(directory: &'d RecordDirectory, kind: LaneKind, next: u64) -> Self {
        Self { directory, kind, reader: None, next, node: None }
    }

    /// Yields what has come since the last call. A file that was removed meanwhile is not an error.
    pub fn poll(&mut self, told: &mut dyn FnMut(FollowEvent<'_>)) -> Result<(), LogReadError> {
        match self.look(told) {
            Err(error) if is_gone(&error) => {
                self.reader = None;
                Ok(())
            }
            looked => looked,
        }
    }

    fn look(&mut self, told: &mut dyn FnMut(FollowEvent<'_>)) -> Result<(), LogReadError> {
        let mut reader = match self.reader.take() {
            Some(mut reader) => {
                reader.refresh()?;
                reader
            }
            None => LogReader::new(self.directory.folder(self.kind))?.seek(self.next)?.follow(),
        };
        for item in &mut reader {
            match item? {
                LogEntry::Record(record) => {
                    let node = match self.node {
                        Some(node) => node,
                        None => self.directory.lane(self.kind)?.node().unwrap_or(0),
                    };
                    self.node = Some(node);
                    let place = RecordPosition {
                        node,
                        epoch: record.epoch,
                        sequence: record.sequence,
                        time_ms: record.time_ms,
                    };
                    self.next = record.sequence + 1;
                    told(FollowEvent::Record(&place, record.kind, &record.payload));
                }
                LogEntry::Corruption(corruption) => told(FollowEvent::Corruption(&corruption)),
                LogEntry::Torn(_) => (),
            }
        }
        self.reader = Some(reader);
        Ok(())
    }
}

/// What a lane holds next.
#[derive(Clone, Debug)]
pub enum LogItem {
    /// A record: position, kind, payload.
    Record(RecordPosition, u8, Vec<u8>),
    /// Durable data was lost.
    Corruption(Corruption),
}

/// Iterates over a lane as it is now.
pub struct LogRecords<'d> {
    reader: LogReader<'d, DiskFolder>,
    node: u32,
    /// Files of other nodes, which the lane reports itself.
    foreign: Vec<String>,
}

impl<'d> LogRecords<'d> {
    /// Starts at a sequence.
    pub fn open(
        directory: &'d RecordDirectory,
        kind: LaneKind,
        from: u64,
    ) -> Result<Self, LogReadError> {
        let lane = directory.lane(kind)?;
        let reader = LogReader::new(directory.folder(kind))?.seek(from)?;
        let foreign = lane.foreign().iter().map(|other| other.segment.clone()).collect();
        Ok(Self { reader, node: lane.node().unwrap_or(0), foreign })
    }
}

impl Iterator for LogRecords<'_> {
    type Item = Result<LogItem, LogReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return Some(Ok(match self.reader.next()? {
                Err(error) => return Some(Err(error)),
                Ok(LogEntry::Record(record)) => {
                    let place = RecordPosition {
                        node: self.node,
                        epoch: record.epoch,
                        sequence: record.sequence,
                        time_ms: record.time_ms,
                    };
                    LogItem::Record(place, record.kind, record.payload)
                }
                Ok(LogEntry::Corruption(other)) if self.foreign.contains(&other.segment) => {
                    continue;
                }
                Ok(LogEntry::Corruption(corruption)) => LogItem::Corruption(corruption),
                Ok(LogEntry::Torn(_)) => continue,
            }));
        }
    }
}
