//! Replays the log at a start: owed notices, known tokens, and settlements not yet booked.

use std::path::Path;

use eventlog::LogReadError;
use eventlog::lane::{LaneKind, LogBuilder};
use exchange_core::delivery::{DeliveryPolicy, JournalReplay};
use runtime::process::unix_ms;
use tracing::error;

use super::journal::NoticeJournal;
use super::settlements::Settlements;

/// Why the start must stop.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// New records would be taken for booked ones.
    #[error(
        "the log ends at record {end}, and budgets have booked settlements up to record {applied_seq}: it \
         is not the log that they were booked from; bring that back, or move the budgets away with it"
    )]
    OtherLog {
        /// Sequence of the last record.
        end: u64,
        applied_seq: u64,
    },
}

/// Replays `log` in `directory`, whose thread has not started, and opens a ring of `ring_bytes`
/// into it. Passes settlements that are not booked to `settlements`.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    log: &mut LogBuilder,
    ring_bytes: usize,
    directory: &Path,
    policy: DeliveryPolicy,
    settlements: &mut dyn Settlements,
) -> Result<(JournalReplay, NoticeJournal), ReplayError> {
    let applied_seq = settlements.applied_seq();
    // Counts lost records at the end: their numbers are not reused.
    let end = log.lane(LaneKind::Durable).sequence();
    if end < applied_seq && applied_seq < u64::MAX {
        return Err(ReplayError::OtherLog { end, applied_seq });
    }
    let mut replay = JournalReplay::new(policy, unix_ms());
    let mut unreadable = 0;
    let journal = NoticeJournal::open(
        log,
        ring_bytes,
        directory,
        applied_seq,
        |sequence, record| match replay.record(sequence, record) {
            Ok(Some(reservation)) if applied_seq < sequence => {
                settlements.settled(sequence, &reservation);
            }
            Ok(_) => (),
            Err(error) => {
                unreadable += 1;
                error!(sequence, %error, "a journalled notice cannot be read");
            }
        },
    )?;
    if unreadable > 0 {
        error!(unreadable, "notices may be lost or sent twice, and what is spent not booked");
    }
    settlements.reached(end);
    settlements.replayed();
    Ok((replay, journal))
}
