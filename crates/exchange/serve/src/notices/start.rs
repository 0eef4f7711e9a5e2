//! What a start reads of the log: what is owed, what is remembered, and what was settled and is not
//! booked for good.

use std::path::Path;

use eventlog::LogReadError;
use eventlog::lane::{LaneKind, LogBuilder};
use exchange_core::delivery::{DeliveryPolicy, JournalReplay};
use tracing::error;

use super::dispatcher::unix_ms;
use super::journal::NoticeJournal;
use super::settlements::Settlements;

/// Why a start must not go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// What comes would be taken for what is booked already.
    #[error(
        "the log ends at record {end}, and budgets have booked settlements up to record {applied_seq}: it \
         is not the log that they were booked from; bring that back, or move the budgets away with it"
    )]
    OtherLog {
        /// The last record that was found.
        end: u64,
        /// The last one that is booked for good.
        applied_seq: u64,
    },
}

/// Delivery as `log` in `directory` has it, which was opened and is not written yet, and the ring of so
/// many bytes that leads into it. `settlements` is told what the log holds and is not booked.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    (log, ring_bytes): (&mut LogBuilder, usize),
    directory: &Path,
    policy: DeliveryPolicy,
    settlements: &mut dyn Settlements,
) -> Result<(JournalReplay, NoticeJournal), ReplayError> {
    let applied_seq = settlements.applied_seq();
    // Records at the end that are lost count, for none will have their numbers.
    let end = log.lane(LaneKind::Durable).sequence();
    if end < applied_seq && applied_seq < u64::MAX {
        return Err(ReplayError::OtherLog { end, applied_seq });
    }
    let mut replay = JournalReplay::new(policy, unix_ms());
    let mut unreadable = 0;
    let ring = (log, ring_bytes);
    let journal =
        NoticeJournal::open(ring, directory, applied_seq, |sequence, record| {
            match replay.record(sequence, record) {
                Ok(Some(reservation)) if applied_seq < sequence => {
                    settlements.settled(sequence, &reservation);
                }
                Ok(_) => (),
                Err(error) => {
                    unreadable += 1;
                    error!(sequence, %error, "a journalled notice cannot be read");
                }
            }
        })?;
    if unreadable > 0 {
        error!(unreadable, "notices may be lost or sent twice, and what is spent not booked");
    }
    settlements.reached(end);
    settlements.replayed();
    Ok((replay, journal))
}
