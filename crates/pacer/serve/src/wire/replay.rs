//! Wins that the record holds from before a start, and which of its records must be kept.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use eventlog::disk::DiskFolder;
use eventlog::lane::{DurableRing, LaneHandle, LaneListener};
use eventlog::{LogEntry, LogReadError, LogReader, begins_since};
use events::{RecordKind, SettlementsReader};
use pacer_core::shard::EarlierWins;
use runtime::process::unix_ms;
use runtime::service::Port;
use tracing::{error, info};
use units::{Currency, Nanos};

use crate::keys::Keyring;
use crate::ledger::feed::{SettledReservation, SettlementFeed};

/// Port of the log that has the wins.
pub const SETTLEMENT_LOG: Port<SettlementLog> = Port::new("settlement-log");
/// The durable lane of the record, for wins.
pub struct SettlementLog {
    /// The lane's directory.
    pub directory: PathBuf,
    /// Its state, and how far it is durable.
    pub lane: LaneHandle,
    /// Makes a ring into it.
    pub ring: Box<dyn FnMut(LaneListener) -> DurableRing + Send>,
    /// Protects records from this sequence on from retention.
    pub keep_from: Box<dyn Fn(u64) + Send>,
}

/// Why the wins of before cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SettlementReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// New records would be taken for booked ones.
    #[error(
        "the log ends at record {end}, and budgets have booked settlements up to record {applied}: it is \
         not the log that they were booked from; bring that back, or move the budgets away with it"
    )]
    OtherLog {
        /// Sequence of the last record.
        end: u64,
        /// Up to where wins are booked.
        applied: u64,
    },
}

/// Passes the wins that the ledger has not booked to `feed`, and all whose tokens are not too old to
/// the shard of `earlier` that answers for them. Returns the first sequence that was needed.
///
/// # Errors
/// The log cannot be read, or is another one than that whose wins are booked.
pub(crate) fn replay(
    log: &SettlementLog,
    feed: &SettlementFeed,
    keys: &Keyring,
    earlier: &mut [EarlierWins],
) -> Result<u64, SettlementReplayError> {
    let (applied, end) = (feed.applied_seq(), log.lane.sequence());
    // Counts lost records at the end: their numbers are not reused.
    if end < applied {
        return Err(SettlementReplayError::OtherLog { end, applied });
    }
    let folder = DiskFolder::read_only(&log.directory);
    let kind = RecordKind::Settlements.code();
    let since_ms = earlier[0].replay_from_ms(unix_ms());
    let from = begins_since(&folder, kind, since_ms)?.min(applied + 1);
    let (mut wins, mut unreadable) = (0_u64, 0_u64);
    for entry in LogReader::new(&folder)?.seek(from)? {
        let record = match entry? {
            LogEntry::Record(record) if record.sequence > end => break,
            LogEntry::Record(record) if record.kind == kind => record,
            LogEntry::Corruption(corruption) => {
                error!(%corruption, "the log is damaged: wins there are not booked");
                continue;
            }
            // What is torn was never acknowledged.
            LogEntry::Record(_) | LogEntry::Torn(_) => continue,
        };
        let mut settled = Vec::new();
        let read = SettlementsReader::new(&record.payload).and_then(|reader| {
            reader.each(|win| {
                let token = keys.open_bytes(&win.token).ok();
                let Some((token, currency)) = token.zip(Currency::parse(win.currency)) else {
                    unreadable += 1;
                    return;
                };
                let shard = usize::from(token.origin().shard) % earlier.len();
                earlier[shard].replay(&token);
                let cost = Nanos::new(win.cost_nanos);
                settled.push(SettledReservation { token, cost, currency });
            })
        });
        if let Err(error) = read {
            unreadable += 1;
            error!(sequence = record.sequence, %error, "a record of wins cannot be read");
        }
        wins += settled.len() as u64;
        if applied < record.sequence {
            feed.settled(record.sequence, settled);
        }
    }
    if unreadable > 0 {
        error!(
            unreadable,
            "wins in the record count in no budget: they cannot be read, or were reserved under a key \
             that is gone"
        );
    }
    info!(from, wins, "the log was read for wins of bidders");
    Ok(from)
}

/// Which records the pacer needs: those that are not booked, and those whose tokens can still be
/// settled again.
#[derive(Debug)]
pub(crate) struct KeptRecords {
    window: Duration,
    /// Times, and the sequence that followed then.
    passed: VecDeque<(u64, u64)>,
}

impl KeptRecords {
    /// From `first` on, everything is needed for this long.
    pub fn new(first: u64, window: Duration) -> Self {
        Self { window: window + PERIOD_MAX, passed: VecDeque::from([(unix_ms(), first)]) }
    }

    /// The first record that is needed at `now_ms`, when the log is durable up to `sequence` and
    /// booked up to `applied`. Call it about once a minute.
    pub fn from(&mut self, now_ms: u64, sequence: u64, applied: u64) -> u64 {
        self.passed.push_back((now_ms, sequence + 1));
        let window_ms = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        let oldest_ms = now_ms.saturating_sub(window_ms);
        while self.passed.get(1).is_some_and(|(at_ms, _)| *at_ms <= oldest_ms) {
            self.passed.pop_front();
        }
        self.passed.front().map_or(0, |(_, first)| *first).min(applied + 1)
    }
}

/// The longest hour of a calendar, with the time until shards notice its end.
const PERIOD_MAX: Duration = Duration::from_secs(2 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_as_long_as_their_tokens_count() {
        let mut kept = KeptRecords::new(5, Duration::from_secs(3600));
        let start_ms = kept.passed[0].0;
        let hour = 3_600_000;
        for (hours, sequence, applied, want) in [
            (0, 9, 9, 5),
            (1, 20, 20, 5),
            (2, 30, 30, 5),
            // The records of the first three hours go with the tokens of that time.
            (3, 40, 40, 10),
            (4, 50, 15, 16),
            (5, 60, 60, 31),
        ] {
            assert_eq!(kept.from(start_ms + hours * hour, sequence, applied), want, "{hours} h");
        }
    }
}
