//! Generations of the configuration, recorded before they come in force.
//!
//! Owns their numbers, which no two generations of a node share. Whoever records one waits for the
//! disk. What a generation's record says is `exchange_core::record`'s.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use eventlog::disk::DiskFolder;
use eventlog::lane::{DurableRing, LaneEvent, LogBuilder, PushError};
use eventlog::{LogReadError, LogRecord, newest};
use events::RecordKind;
use exchange_core::record::{
    GenerationInForce, GenerationRecord, UnrecordableGeneration, encode_generation,
};
use tracing::{error, warn};

use crate::config::ExchangeConfig;
use crate::notices::unix_ms;

/// How long a configuration waits to be durable.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the generation in force is recorded once more: a reader finds it near the auctions
/// that were held by it, however old it is, and a start finds its number near the end.
const EVERY: Duration = Duration::from_secs(600);

/// One generation of the longest, and more.
const RING_BYTES: usize = 2 << 20;

/// Why a generation does not come in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecorded {
    /// Its auctions could not be held again.
    #[error("the configuration cannot be recorded: {0}")]
    Unrecordable(#[from] UnrecordableGeneration),
    /// The durable lane does not take it.
    #[error("the configuration cannot be recorded: {0}")]
    Refused(#[from] PushError),
    /// The disk is too slow, or fails. It may yet come to stand in the log, and is not in force.
    #[error("the configuration was not durable within {} s: look at the disk of record.directory", PATIENCE.as_secs())]
    Late,
    /// The exchange comes to its end.
    #[error("the record is closed")]
    Closed,
}

/// The number of the last generation in the lane at `directory`; 0 when there is none. None is
/// recorded behind one of a higher number, so that is the highest.
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

/// Records generations.
#[derive(Debug)]
pub(crate) struct GenerationLog {
    ring: DurableRing,
    told: mpsc::Receiver<LaneEvent>,
    /// The last number that was used.
    number: u64,
    /// What is recorded once more, and when it was recorded last.
    last: Option<(Vec<u8>, Instant)>,
}

impl GenerationLog {
    /// Before the log's thread runs; `number` is the last one that was used.
    pub fn new(log: &mut LogBuilder, number: u64) -> Self {
        let (tell, told) = mpsc::channel();
        let tell = move |news| {
            // Nobody hears it any more at the end.
            let _ = tell.send(news);
        };
        let ring = log.durable_ring(RING_BYTES, Some(Box::new(tell)));
        Self { ring, told, number, last: None }
    }

    /// Makes a generation durable, which gets the number that is returned. A number whose record
    /// may yet become durable is not used again.
    pub fn record(&mut self, config: &ExchangeConfig, campaigns: u64) -> Result<u64, Unrecorded> {
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
        // One that is refused may yet become durable, and a start goes on counting from the last in the
        // lane: none of a lower number is to come behind it.
        self.last = None;
        self.write(&record)?;
        self.last = Some((record, Instant::now()));
        Ok(number)
    }

    fn write(&mut self, record: &[u8]) -> Result<(), Unrecorded> {
        // What was told before concerns others.
        self.told.try_iter().for_each(drop);
        let deadline = Instant::now() + PATIENCE;
        let position = self.ring.push(RecordKind::Generation.code(), unix_ms(), record)?;
        while !self.ring.is_durable(position) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left) {
                // It may yet become durable; it does not come in force.
                Ok(LaneEvent::Failing { cause, since_ms }) => {
                    return Err(PushError::Failing { cause, since_ms }.into());
                }
                Ok(LaneEvent::Durable { .. } | LaneEvent::Writing) => (),
                Err(_) if self.ring.is_durable(position) => (),
                Err(_) => return Err(Unrecorded::Late),
            }
        }
        Ok(())
    }

    /// Records the generation in force once more, if it is time to; when it will be.
    pub fn repeat(&mut self) -> Duration {
        let Some((record, recorded_at)) = &mut self.last else { return EVERY };
        let left = EVERY.saturating_sub(recorded_at.elapsed());
        if !left.is_zero() {
            return left;
        }
        if let Err(error) = self.ring.push(RecordKind::Generation.code(), unix_ms(), record) {
            warn!(%error, "the configuration in force was not recorded once more");
        }
        *recorded_at = Instant::now();
        EVERY
    }
}
