//! Writes strategies' states piece by piece, in a job of the builder. Only the end of the process
//! waits for it; what it fails to write comes again with the next file.

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

/// Most pieces on their way, each of [`PIECE_BYTES`] plus what a turn adds.
const PIECES_MAX: usize = 4;
/// A piece that reaches this size is sent.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

pub(crate) enum StatesPiece {
    /// A file begins; an unfinished one is dropped.
    Begin,
    Rows(Vec<u8>, u32),
    End,
}

#[derive(Debug, Default)]
pub(crate) struct StatesFileCounts {
    pub(crate) written: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// The ledger thread's handle of the job. Dropping it writes the pieces sent, and ends the job.
pub(crate) struct SnapshotWriter {
    pieces: SyncSender<StatesPiece>,
    pub(crate) files: Arc<StatesFileCounts>,
    job: Option<Job>,
}

impl SnapshotWriter {
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
            // One piece at a time: other jobs do not wait for a whole file.
            let piece = inbox.try_recv().ok()?;
            work.take(piece);
            Some(Duration::ZERO)
        });
        Self { pieces, files, job: Some(job) }
    }

    /// Sends a piece, or returns it if too many are on their way.
    pub(crate) fn offer(&self, piece: StatesPiece) -> Result<(), StatesPiece> {
        if let Err(TrySendError::Full(piece)) = self.pieces.try_send(piece) {
            return Err(piece);
        }
        // If the job has panicked, the piece is never written.
        self.run_soon();
        Ok(())
    }

    /// Sends a piece; waits for room.
    pub(crate) fn give(&self, piece: StatesPiece) {
        let _taken = self.pieces.send(piece);
        self.run_soon();
    }

    fn run_soon(&self) {
        if let Some(job) = &self.job {
            job.run_soon();
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.finish();
        }
    }
}

struct StatesJob<P: StoreDirectory> {
    place: P,
    writer: StoreWriter,
    /// The file being written. None if there is none, or it cannot be written.
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
                    // The failure was logged before.
                    None => (),
                }
            }
        }
    }

    /// Drops the file: until the next one, others may need its space, above all the ledger.
    fn fail(&mut self, error: &io::Error) {
        self.new = None;
        self.files.failed.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!(%error, "strategies' states cannot be kept: a restart would begin with older ones");
        }
        self.remove();
    }

    fn remove(&self) {
        // The next file replaces what remains.
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
