//! The node's log: opened, and written by one thread until it is closed.
//!
//! Owns the encoding of the log's own records. `eventlog` defines files.

use std::time::Duration;

use eventlog::LogEntry;
use eventlog::lane::{
    CloseError, GapFormat, LaneFormats, LaneGap, LaneKind, LaneWatermark, LogBuilder, LogError,
    LogThread, WatermarkFormat,
};
use events::RecordKind;
use tracing::error;

use crate::config::RecordConfig;
use crate::report::{log_report, report_start};

/// How long a close waits for records to become durable.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Why the record cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The log cannot be opened.
    #[error("record.directory: {0}")]
    Log(#[from] LogError),
    /// The log's thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Opens or creates the log. Reads only each lane's newest segment.
pub(crate) fn open(config: &RecordConfig) -> Result<LogBuilder, LogError> {
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
    Ok(log)
}

/// Makes all records durable and ends the thread. All writers must have ended.
pub(crate) fn close(thread: LogThread) {
    match thread.close(CLOSE_WITHIN) {
        Ok(left) if left.durable + left.firehose == 0 => (),
        Ok(left) => error!(
            durable = left.durable,
            auctions = left.firehose,
            "the disk did not take these records; those of the durable lane were not acknowledged"
        ),
        Err(CloseError::Hung) => {
            error!("the log's thread still waits for the disk: what it holds may not be durable");
        }
        Err(CloseError::Panicked) => error!("the log's thread had panicked"),
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
