//! Replays the log at a start: owed notices, known tokens, and settlements not yet booked.

use eventlog::LogReadError;
use exchange_core::delivery::{DeliveryPolicy, JournalReplay};
use record::Record;
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

/// Replays `record`, to which no notice may have been written since its start, and opens a ring
/// into it. Passes settlements that are not booked to `settlements`.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    record: &Record,
    policy: DeliveryPolicy,
    settlements: &mut dyn Settlements,
) -> Result<(JournalReplay, NoticeJournal), ReplayError> {
    let applied_seq = settlements.applied_seq();
    // Counts lost records at the end: their numbers are not reused. Other services may write
    // meanwhile, but nothing that is settled here.
    let end = record.durable.sequence();
    if end < applied_seq && applied_seq < u64::MAX {
        return Err(ReplayError::OtherLog { end, applied_seq });
    }
    let mut replay = JournalReplay::new(policy, unix_ms());
    let mut unreadable = 0;
    let journal = NoticeJournal::open(record, applied_seq, |sequence, record| {
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
