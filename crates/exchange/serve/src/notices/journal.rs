//! The journal's thread: appends what came in, commits once for all of it, and tells. A disk that
//! is slow, or full, holds up nothing but acknowledgements.
//!
//! It must not know what a record says.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use eventlog::disk::Folder;
use eventlog::{AppendError, Item, OpenError, Options, Writer};
use exchange_core::delivery::{Event, Ticket};
use tracing::{error, info, warn};

use super::office::unix_ms;

/// The one kind of record that this log holds.
const KIND: u8 = 1;

/// A record to be made durable.
#[derive(Debug)]
pub struct Entry {
    pub ticket: Ticket,
    pub record: Vec<u8>,
}

/// What the journal is told.
#[derive(Debug)]
pub enum Order {
    /// Make these durable.
    Append(Vec<Entry>),
    /// Records below this sequence are not needed any more.
    RemoveBefore(u64),
}

/// Why the journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory cannot be made.
    #[error("cannot create {0}: {1}")]
    Directory(String, io::Error),
    /// The log in it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The thread cannot be started.
    #[error("cannot start the journal's thread: {0}")]
    Thread(io::Error),
}

/// A log that has been read, and not yet a thread.
pub struct Journal(Writer<Folder>);

impl Journal {
    /// Opens the log in `directory`, which is made if it is not there, and shows every record in
    /// it to `visit`, by sequence.
    pub fn open(directory: &Path, mut visit: impl FnMut(u64, &[u8])) -> Result<Self, JournalError> {
        let place = directory.display().to_string();
        let folder = Folder::new(directory)
            .map_err(|error| JournalError::Directory(place.clone(), error))?;
        let (writer, recovery) = Writer::open(folder, Options::default(), |item| match item {
            Item::Record(record) => visit(record.sequence, &record.payload),
            Item::Corruption(corruption) => {
                error!(%corruption, "the journal of notices is damaged: some may be lost or sent twice");
            }
            Item::Torn(_) => (),
        })?;
        if recovery.torn {
            warn!(place, "the journal of notices ends within a record that was never promised");
        }
        info!(place, records = recovery.records, "journal of notices opened");
        Ok(Self(writer))
    }

    /// Starts its thread, which ends when `orders` does. `tell` hears what became durable.
    pub fn start(
        self,
        orders: mpsc::Receiver<Order>,
        tell: impl Fn(Event) + Send + 'static,
    ) -> Result<JoinHandle<()>, JournalError> {
        let mut writer = self.0;
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let mut failing = false;
                while let Ok(first) = orders.recv() {
                    let mut entries = Vec::new();
                    // All that has come meanwhile is made durable at once.
                    for order in std::iter::once(first).chain(orders.try_iter()) {
                        match order {
                            Order::Append(more) => entries.extend(more),
                            Order::RemoveBefore(sequence) => writer.remove_before(sequence),
                        }
                    }
                    append(&mut writer, entries, &mut failing, &tell);
                }
            })
            .map_err(JournalError::Thread)
    }
}

fn append(
    writer: &mut Writer<Folder>,
    entries: Vec<Entry>,
    failing: &mut bool,
    tell: &impl Fn(Event),
) {
    let mut batch = Vec::new();
    let time_ms = unix_ms();
    for Entry { ticket, record } in entries {
        let mut appended = writer.append(KIND, time_ms, &record);
        if appended == Err(AppendError::BatchFull) {
            commit(writer, &mut batch, failing, tell);
            appended = writer.append(KIND, time_ms, &record);
        }
        match appended {
            Ok(sequence) => batch.push((ticket, sequence)),
            Err(error) => {
                error!(%error, "a notice cannot be journalled");
                tell(Event::JournalFailed(vec![ticket]));
            }
        }
    }
    commit(writer, &mut batch, failing, tell);
}

fn commit(
    writer: &mut Writer<Folder>,
    batch: &mut Vec<(Ticket, u64)>,
    failing: &mut bool,
    tell: &impl Fn(Event),
) {
    let batch = std::mem::take(batch);
    if batch.is_empty() {
        return;
    }
    match writer.commit() {
        Ok(_) => {
            if std::mem::take(failing) {
                warn!("the journal of notices is written again");
            }
            tell(Event::JournalCommitted(batch));
        }
        Err(error) => {
            if !std::mem::replace(failing, true) {
                error!(%error, "beacons are refused until the journal of notices can be written");
            }
            let tickets = batch.into_iter().map(|(ticket, _)| ticket).collect();
            tell(Event::JournalFailed(tickets));
        }
    }
}
