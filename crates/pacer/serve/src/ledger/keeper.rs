//! Writes strategies' states: in pieces as they come, by a job of the builder.
//!
//! Owns how much may be on its way, and what is told of a file that could not be written. Nobody waits
//! for it but the end of the process, and what it has failed to write is said anew with the next file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::Duration;

use pacer_core::store::StoreWriter;
use runtime::builder::{Builder, Job};
use tracing::{info, warn};

use super::states::{NEW_NAME, NewStates};
use crate::store::directory::StoreDirectory;

/// Pieces on their way. They have [`PIECE_BYTES`], and what a turn gives out besides.
const PIECES_MAX: usize = 4;
/// As large as a piece grows before it is sent.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// A piece of a file.
pub(crate) enum StatesPiece {
    /// A file begins; one that was not ended is none.
    Begin,
    /// So many rows of it.
    Rows(Vec<u8>, u32),
    /// It is whole.
    End,
}

/// How many files were written, and how many could not be.
#[derive(Debug, Default)]
pub(crate) struct StatesFileCounts {
    pub(crate) written: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// The job, as the ledger's thread holds it. Dropped, it writes what it was sent and ends.
pub(crate) struct StatesKeeper {
    pieces: SyncSender<StatesPiece>,
    pub(crate) files: Arc<StatesFileCounts>,
    job: Option<Job>,
}

impl StatesKeeper {
    /// Adds it, over a directory that this process holds.
    pub(crate) fn start(
        place: impl StoreDirectory,
        writer: StoreWriter,
        builder: &Builder,
    ) -> Self {
        let (pieces, inbox) = mpsc::sync_channel(PIECES_MAX);
        let files = Arc::<StatesFileCounts>::default();
        let (new, is_failing) = (None, false);
        let mut work = StatesJob { place, writer, new, is_failing, files: Arc::clone(&files) };
        let job = builder.add("pacing states", move || {
            // One at a time: other jobs are not to wait for a whole file.
            let piece = inbox.try_recv().ok()?;
            work.take(piece);
            Some(Duration::ZERO)
        });
        Self { pieces, files, job: Some(job) }
    }

    /// Gives it a piece, unless as many are on their way as may be: then the piece comes back.
    pub(crate) fn offer(&self, piece: StatesPiece) -> Result<(), StatesPiece> {
        if let Err(TrySendError::Full(piece)) = self.pieces.try_send(piece) {
            return Err(piece);
        }
        // A job that has panicked needs no piece: there is nobody to write it.
        self.run_soon();
        Ok(())
    }

    /// Gives it a piece as soon as there is room.
    pub(crate) fn give(&self, piece: StatesPiece) {
        // See above.
        let _taken = self.pieces.send(piece);
        self.run_soon();
    }

    fn run_soon(&self) {
        if let Some(job) = &self.job {
            job.run_soon();
        }
    }
}

impl Drop for StatesKeeper {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.finish();
        }
    }
}

/// What the job has.
struct StatesJob<P: StoreDirectory> {
    place: P,
    writer: StoreWriter,
    /// The file on its way; `None` where none is, or it cannot be written.
    new: Option<NewStates>,
    is_failing: bool,
    files: Arc<StatesFileCounts>,
}

impl<P: StoreDirectory> StatesJob<P> {
    fn take(&mut self, piece: StatesPiece) {
        match piece {
            StatesPiece::Begin => match NewStates::begin(&self.place) {
                Ok(new) => self.new = Some(new),
                Err(error) => self.fail(&error),
            },
            StatesPiece::Rows(bytes, rows) => {
                if let Some(Err(error)) = self.new.as_mut().map(|new| new.add(&bytes, rows)) {
                    self.fail(&error);
                }
            }
            StatesPiece::End => {
                match self.new.take().map(|new| new.put(&self.place, self.writer)) {
                    Some(Ok(())) => {
                        self.files.written.fetch_add(1, Ordering::Relaxed);
                        if std::mem::take(&mut self.is_failing) {
                            info!("strategies' states are kept again");
                        }
                    }
                    Some(Err(error)) => self.fail(&error),
                    // It has failed before, and was told.
                    None => (),
                }
            }
        }
    }

    /// Until the next file others may need its room, the ledger above all.
    fn fail(&mut self, error: &io::Error) {
        self.new = None;
        self.files.failed.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(%error, "strategies' states cannot be kept: a restart would begin with older ones");
        }
        self.remove();
    }

    fn remove(&self) {
        // What stays is written over by the next.
        let _removed = self.place.remove(NEW_NAME);
    }
}

impl<P: StoreDirectory> Drop for StatesJob<P> {
    fn drop(&mut self) {
        if self.new.take().is_some() {
            self.remove();
        }
    }
}

#[cfg(test)]
mod tests;
