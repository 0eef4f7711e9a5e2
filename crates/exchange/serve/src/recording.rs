//! The record: opened before the shards start, closed after they end, written by one thread.
//!
//! Owns the rings' assignment and the operators' messages about the log. `exchange_core::record`
//! defines records, `eventlog` defines files.

mod generations;
mod recorder;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use eventlog::lane::{
    CloseError, GapFormat, LaneFormats, LaneGap, LaneHandle, LaneKind, LaneReport, LaneWatermark,
    LogBuilder, LogError, LogThread, Recoveries, WatermarkFormat,
};
use eventlog::{LogEntry, LogReadError, RecoveredEnd, Recovery};
use events::RecordKind;
use runtime::admin::rfc3339;
use tracing::{error, info, warn};

use crate::config::RecordConfig;

pub(crate) use generations::GenerationLog;
pub use generations::GenerationRecordError;
use generations::newest_number;
pub(crate) use recorder::Recorder;

/// How long a close waits for records to become durable.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Why the record cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The first configuration cannot be recorded.
    #[error(transparent)]
    Generation(#[from] GenerationRecordError),
}

#[derive(Debug)]
pub struct OpenRecord {
    /// Locked so that other threads may view the exchange; only the close takes it.
    thread: Mutex<LogThread>,
    lanes: RecordLanes,
}

#[derive(Clone, Debug)]
pub struct RecordLanes {
    /// Records that must not be lost.
    pub durable: LaneHandle,
    /// Auctions.
    pub firehose: LaneHandle,
}

/// The open record and its writers.
#[derive(Default)]
pub(crate) struct RecordParts {
    /// None: nothing is recorded.
    pub recording: Option<OpenRecord>,
    pub recorders: Vec<Option<Recorder>>,
    pub generations: Option<GenerationLog>,
}

/// An open log before its thread starts; rings must be made now.
pub(crate) struct OpenLog<'c> {
    pub log: LogBuilder,
    config: &'c RecordConfig,
}

impl<'c> OpenLog<'c> {
    /// Opens or creates the log. Reads only each lane's newest segment.
    pub fn open(config: &'c RecordConfig) -> Result<Self, RecordError> {
        let formats = LaneFormats {
            gaps: GapFormat { kind: RecordKind::Gap.code(), encode: encode_gap },
            watermarks: Some(WatermarkFormat {
                kind: RecordKind::Watermark.code(),
                encode: encode_watermark,
                decode: decode_watermark,
            }),
        };
        let visit = |lane: LaneKind, item| {
            if let LogEntry::Corruption(corruption) = item {
                error!(lane = lane.name(), %corruption, "the record is damaged; see `vickrey log verify`");
            }
        };
        let options = config.options();
        let (log, recoveries) =
            LogBuilder::open(&config.directory, &options, formats, Box::new(log_report), visit)?;
        report_start(&config.directory, &recoveries);
        Ok(Self { log, config })
    }
}

impl RecordParts {
    pub fn of(open: Option<OpenLog<'_>>, shards: usize) -> Result<Self, RecordError> {
        let Some(OpenLog { mut log, config }) = open else {
            let recorders = (0..shards).map(|_| None).collect();
            return Ok(Self { recorders, ..Self::default() });
        };
        let number = newest_number(&config.directory.join(LaneKind::Durable.name()))?;
        let recorders = (0..shards).map(|shard| {
            let shard = u32::try_from(shard).expect("shards are counted by 16 bits");
            Some(Recorder::new(log.firehose_ring(shard, config.firehose.ring_bytes)))
        });
        let recorders = recorders.collect();
        let generations = GenerationLog::new(&mut log, number);
        let lanes = RecordLanes {
            durable: log.lane(LaneKind::Durable),
            firehose: log.lane(LaneKind::Firehose),
        };
        let thread = log.start().map_err(RecordError::Thread)?;
        let recording = Some(OpenRecord { thread: Mutex::new(thread), lanes });
        Ok(Self { recording, recorders, generations: Some(generations) })
    }
}

impl OpenRecord {
    pub fn lanes(&self) -> &RecordLanes {
        &self.lanes
    }

    /// Makes all records durable and ends. All writers must have ended.
    pub fn close(self) {
        let thread = self.thread.into_inner().expect("nothing panics while it holds the thread");
        match thread.close(CLOSE_WITHIN) {
            Ok(left) if left.durable + left.firehose == 0 => (),
            Ok(left) => error!(
                durable = left.durable,
                auctions = left.firehose,
                "the disk did not take these records; those of the durable lane were not acknowledged"
            ),
            Err(CloseError::Hung) => {
                error!(
                    "the log's thread still waits for the disk: what it holds may not be durable"
                );
            }
            Err(CloseError::Panicked) => error!("the log's thread had panicked"),
        }
    }
}

fn encode_gap(gap: &LaneGap, out: &mut Vec<u8>) {
    let LaneGap { shard, lost, since_ms, through_ms } = *gap;
    events::Gap { shard, records: lost, since_unix_ms: since_ms, through_unix_ms: through_ms }
        .encode(out);
}

fn encode_watermark(watermark: &LaneWatermark, out: &mut Vec<u8>) {
    let LaneWatermark { epoch, sequence } = *watermark;
    events::Watermark { epoch, sequence }.encode(out);
}

fn decode_watermark(payload: &[u8]) -> Option<LaneWatermark> {
    let events::Watermark { epoch, sequence } = events::Watermark::decode(payload).ok()?;
    Some(LaneWatermark { epoch, sequence })
}

fn report_start(directory: &Path, recoveries: &Recoveries) {
    let lanes =
        [(LaneKind::Durable, &recoveries.durable), (LaneKind::Firehose, &recoveries.firehose)];
    for (lane, recovery) in lanes {
        report_end(lane, recovery);
        if recovery.torn {
            // Usual after a crash: these records were never acknowledged as durable.
            warn!(lane = lane.name(), "the record ended within a write, which was cut off");
        }
    }
    if let (Some(known), RecoveredEnd::Open { .. }) =
        (recoveries.watermark, recoveries.firehose.end)
    {
        warn!(
            known_at = %rfc3339(UNIX_EPOCH + Duration::from_millis(known.time_ms)),
            "the record was not stopped cleanly: auctions recorded after known_at may be missing without a report"
        );
    }
    if is_durable_lane_lost(recoveries) {
        error!(
            auctions = recoveries.firehose.last,
            "the durable lane of the record is missing: auctions were recorded, and what was billed and \
             configured then is lost"
        );
    }
    info!(directory = %directory.display(), "the record is open");
}

/// The first generation is durable before any auction is recorded.
fn is_durable_lane_lost(recoveries: &Recoveries) -> bool {
    let Recoveries { durable, firehose, .. } = recoveries;
    durable.durable == 0 && durable.end == RecoveredEnd::Unknown && firehose.last > 0
}

/// Logs how a lane ended and what is lost. The start continues regardless.
fn report_end(lane: LaneKind, recovery: &Recovery) {
    let (lane, last, durable) = (lane.name(), recovery.last, recovery.durable);
    match recovery.end {
        RecoveredEnd::Unknown if durable == 0 => (),
        RecoveredEnd::Unknown => info!(
            lane,
            last, "nothing says how far the record reached: an earlier release wrote it"
        ),
        RecoveredEnd::Missing => error!(
            lane,
            last,
            "the file `end` of the record is missing: it is not known how far the record reached"
        ),
        RecoveredEnd::Unreadable(reason) => error!(
            lane,
            last,
            %reason,
            "the file `end` of the record cannot be read and is written anew: it is not known how far the \
             record reached"
        ),
        RecoveredEnd::Damaged => error!(
            lane,
            last,
            "the file `end` of the record is damaged: it is not known how far the record reached"
        ),
        RecoveredEnd::Sealed(end) => info!(
            lane, last, records = end.chain.records, hash = %end.chain.hash, "the end of the record is unchanged since its clean stop"
        ),
        RecoveredEnd::Altered { sealed, found } => error!(
            lane,
            last,
            sealed_last = sealed.last,
            sealed_records = sealed.chain.records,
            sealed_hash = %sealed.chain.hash,
            found_records = found.records,
            found_hash = %found.hash,
            "the end of the record was lost or changed since its clean stop; see `vickrey log verify`"
        ),
        RecoveredEnd::Open { end, is_gone: true } => error!(
            lane,
            last,
            segment = end.newest.file_name(),
            "the record was not stopped cleanly, and the segment that had begun is gone with all that it held; new records are numbered behind all that it may have held"
        ),
        RecoveredEnd::Open { is_gone: false, .. } => warn!(
            lane,
            last,
            "the record was not stopped cleanly: what was written in its last moments may be missing"
        ),
    }
    if last < durable {
        error!(
            lane,
            from = last + 1,
            through = durable,
            "records that were durable are missing; new ones are numbered behind them"
        );
    }
}

/// Runs on the log's thread.
fn log_report(kind: LaneKind, report: LaneReport<'_>) {
    let lane = kind.name();
    match report {
        LaneReport::Failing(error) if kind == LaneKind::Durable => error!(
            %error,
            "the durable lane cannot be written: what needs a record is refused until it can"
        ),
        LaneReport::Failing(error) => error!(
            %error,
            "auctions go on and are not recorded until the disk takes them"
        ),
        LaneReport::Healed(after) => warn!(lane, ?after, "the record is written again"),
        LaneReport::Removed(removed) => info!(lane, ?removed, "old segments are gone"),
        LaneReport::ClockStep => warn!(
            lane,
            "more than a day lies between two records: this time does not count towards the age of \
             older ones, which are kept for longer; look at the clock"
        ),
        LaneReport::RetainFailed(error) => error!(lane, %error, "old segments cannot be removed"),
        LaneReport::Unsealed(reason) => warn!(
            lane,
            reason,
            "the end of the record is not sealed: the next start cannot tell whether all of it is there"
        ),
        LaneReport::SealFailed(error) => error!(
            lane,
            %error,
            "the end of the record is not sealed: the next start cannot tell whether all of it is there"
        ),
    }
}
