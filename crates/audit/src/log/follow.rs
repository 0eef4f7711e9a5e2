//! A lane in order, record by record: as it stands, or as it grows.

use eventlog::disk::Folder;
use eventlog::lane::LaneKind;
use eventlog::{Corruption, Item, ReadError, Reader};

use crate::log::directory::Directory;
use crate::log::lane::is_gone;
use crate::log::place::Place;

/// What comes.
#[derive(Debug)]
pub enum Coming<'r> {
    /// A record, its kind and what it says.
    Record(&'r Place, u8, &'r [u8]),
    /// Something durable was lost.
    Corruption(&'r Corruption),
}

/// Who reads on.
pub struct Follow<'d> {
    directory: &'d Directory,
    kind: LaneKind,
    /// `None` before the first look, and after something was in the way.
    reader: Option<Reader<'d, Folder>>,
    /// What comes next.
    next: u64,
    /// `None` until something has come.
    node: Option<u32>,
}

impl<'d> Follow<'d> {
    /// Reads a lane from a sequence on.
    pub const fn new(directory: &'d Directory, kind: LaneKind, next: u64) -> Self {
        Self { directory, kind, reader: None, next, node: None }
    }

    /// Tells what has come since the last look.
    ///
    /// # Errors
    ///
    /// When the lane cannot be read; a file that was removed meanwhile is none.
    pub fn poll(&mut self, told: &mut dyn FnMut(Coming<'_>)) -> Result<(), ReadError> {
        match self.look(told) {
            Err(error) if is_gone(&error) => {
                self.reader = None;
                Ok(())
            }
            looked => looked,
        }
    }

    fn look(&mut self, told: &mut dyn FnMut(Coming<'_>)) -> Result<(), ReadError> {
        let mut reader = match self.reader.take() {
            Some(mut reader) => {
                reader.refresh()?;
                reader
            }
            None => Reader::new(self.directory.folder(self.kind))?.seek(self.next)?.follow(),
        };
        for item in &mut reader {
            match item? {
                Item::Record(record) => {
                    let node = match self.node {
                        Some(node) => node,
                        None => self.directory.lane(self.kind)?.node().unwrap_or(0),
                    };
                    self.node = Some(node);
                    let place = Place {
                        node,
                        epoch: record.epoch,
                        sequence: record.sequence,
                        time_ms: record.time_ms,
                    };
                    self.next = record.sequence + 1;
                    told(Coming::Record(&place, record.kind, &record.payload));
                }
                Item::Corruption(corruption) => told(Coming::Corruption(&corruption)),
                Item::Torn(_) => (),
            }
        }
        self.reader = Some(reader);
        Ok(())
    }
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum LogItem {
    /// A record, its kind and what it says.
    Record(Place, u8, Vec<u8>),
    /// Something durable was lost.
    Corruption(Corruption),
}

/// A lane from a sequence on, as it stands.
pub struct LogRecords<'d> {
    reader: Reader<'d, Folder>,
    node: u32,
    /// Files of other nodes, which the lane tells.
    foreign: Vec<String>,
}

impl<'d> LogRecords<'d> {
    /// Reads from a sequence on.
    ///
    /// # Errors
    ///
    /// When the lane cannot be read.
    pub fn open(directory: &'d Directory, kind: LaneKind, from: u64) -> Result<Self, ReadError> {
        let lane = directory.lane(kind)?;
        let reader = Reader::new(directory.folder(kind))?.seek(from)?;
        let foreign = lane.foreign().iter().map(|other| other.segment.clone()).collect();
        Ok(Self { reader, node: lane.node().unwrap_or(0), foreign })
    }
}

impl Iterator for LogRecords<'_> {
    type Item = Result<LogItem, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return Some(Ok(match self.reader.next()? {
                Err(error) => return Some(Err(error)),
                Ok(Item::Record(record)) => {
                    let place = Place {
                        node: self.node,
                        epoch: record.epoch,
                        sequence: record.sequence,
                        time_ms: record.time_ms,
                    };
                    LogItem::Record(place, record.kind, record.payload)
                }
                Ok(Item::Corruption(other)) if self.foreign.contains(&other.segment) => continue,
                Ok(Item::Corruption(corruption)) => LogItem::Corruption(corruption),
                Ok(Item::Torn(_)) => continue,
            }));
        }
    }
}
