//! Records configuration generations before they take effect.
//!
//! Owns their numbers, which are unique on a node. A caller waits for the disk.
//! `exchange_core::record` defines the record.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use eventlog::disk::DiskFolder;
use eventlog::lane::{DurableRing, LaneEvent, LogRings, PushError};
use eventlog::{LogReadError, LogRecord, newest};
use events::RecordKind;
use exchange_core::record::{
    GenerationInForce, GenerationRecord, UnrecordableGeneration, encode_generation,
};
use runtime::process::unix_ms;
use tracing::{error, warn};

use crate::config::ExchangeConfig;

/// Longest wait for a generation to become durable.
const DURABLE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the current generation is recorded again: readers find it near its auctions, and a
/// start finds its number near the log's end.
const REPEATED_EVERY: Duration = Duration::from_secs(600);

/// Room for the longest generation.
const RING_BYTES: usize = 2 << 20;

/// Why a generation does not take effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerationRecordError {
    /// Its auctions could not be replayed.
    #[error("the configuration cannot be recorded: {0}")]
    Unrecordable(#[from] UnrecordableGeneration),
    /// The durable lane refuses it.
    #[error("the configuration cannot be recorded: {0}")]
    Refused(#[from] PushError),
    /// The disk is too slow, or fails. The record may still become durable, but is not in force.
    #[error("the configuration was not durable within {} s: look at the disk of record.directory", DURABLE_TIMEOUT.as_secs())]
    Late,
    /// The exchange is closing.
    #[error("the record is closed")]
    Closed,
}

/// The last generation's number in the lane at `directory`, which is the highest; 0 without any.
pub(super) fn newest_number(directory: &Path) -> Result<u64, LogReadError> {
    let number = |record: LogRecord| match GenerationRecord::decode(&record.payload) {
        Ok(facts) => Some(facts.number),
        Err(error) => {
            let sequence = record.sequence;
            error!(sequence, %error, "a recorded configuration cannot be read");
            None
        }
    };
    let found = newest(&DiskFolder::read_only(directory), RecordKind::Generation.code(), number)?;
    Ok(found.unwrap_or(0))
}

#[derive(Debug)]
pub(crate) struct GenerationLog {
    ring: DurableRing,
    events: mpsc::Receiver<LaneEvent>,
    number: u64,
    /// Last record and its time, for repetition.
    last: Option<(Vec<u8>, Instant)>,
}

impl GenerationLog {
    /// `number` is the last one used.
    pub fn new(log: &LogRings, number: u64) -> Self {
        let (sender, events) = mpsc::channel();
        let sender = move |news| {
            // At the end the receiver is gone.
            let _ = sender.send(news);
        };
        let ring = log.durable_ring(RING_BYTES, Some(Box::new(sender)));
        Self { ring, events, number, last: None }
    }

    /// Makes a generation durable and returns its number, which is not reused even if this fails.
    pub fn record(
        &mut self,
        config: &ExchangeConfig,
        campaigns: u64,
    ) -> Result<u64, GenerationRecordError> {
        let number = self.number + 1;
        let rates: Vec<_> =
            config.rates_as_read.iter().map(|(currency, worth)| (*currency, &**worth)).collect();
        let mut record = Vec::new();
        let in_force = GenerationInForce {
            number,
            since_unix_ms: unix_ms(),
            market: &config.market,
            rates: &rates,
            toml: config.text.as_bytes(),
            campaigns,
        };
        encode_generation(&in_force, &mut record)?;
        self.number = number;
        // A refused record may still become durable, and a start continues from the lane's last
        // number, so no lower number may follow.
        self.last = None;
        self.write(&record)?;
        self.last = Some((record, Instant::now()));
        Ok(number)
    }

    fn write(&mut self, record: &[u8]) -> Result<(), GenerationRecordError> {
        // Earlier events concern earlier records.
        self.events.try_iter().for_each(drop);
        let deadline = Instant::now() + DURABLE_TIMEOUT;
        let position = self.ring.push(RecordKind::Generation.code(), unix_ms(), record)?;
        while !self.ring.is_durable(position) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                // It may still become durable, but does not take effect.
                Ok(LaneEvent::Failing { cause, since_ms }) => {
                    return Err(PushError::Failing { cause, since_ms }.into());
                }
                Ok(LaneEvent::Durable { .. } | LaneEvent::Writing) => (),
                Err(_) if self.ring.is_durable(position) => (),
                Err(_) => return Err(GenerationRecordError::Late),
            }
        }
        Ok(())
    }

    /// Records the current generation again if due. Returns the wait until the next time.
    pub fn repeat(&mut self) -> Duration {
        let Some((record, recorded_at)) = &mut self.last else { return REPEATED_EVERY };
        let left = REPEATED_EVERY.saturating_sub(recorded_at.elapsed());
        if !left.is_zero() {
            return left;
        }
        if let Err(error) = self.ring.push(RecordKind::Generation.code(), unix_ms(), record) {
            warn!(%error, "the configuration in force was not recorded once more");
        }
        *recorded_at = Instant::now();
        REPEATED_EVERY
    }
}
