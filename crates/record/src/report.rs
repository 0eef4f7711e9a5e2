//! The log's messages to operators.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use eventlog::lane::{LaneKind, LaneReport, Recoveries};
use eventlog::{RecoveredEnd, Recovery};
use runtime::admin::rfc3339;
use tracing::{error, info, warn};

/// Logs what a start found in the lanes.
pub(crate) fn report_start(directory: &Path, recoveries: &Recoveries) {
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
pub(crate) fn log_report(kind: LaneKind, report: LaneReport<'_>) {
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

#[cfg(test)]
mod tests;
