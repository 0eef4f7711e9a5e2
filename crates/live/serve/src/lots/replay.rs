//! Lots as the log has them, at a start.

use eventlog::disk::DiskFolder;
use eventlog::lane::LaneKind;
use eventlog::{LogEntry, LogReadError, LogReader};
use events::RecordKind;
use live_core::floor::{LotFloor, LotReplayProblem};
use record::Record;
use tracing::{error, info, warn};

use super::record::decode;

/// Applies the durable lane's records to a floor. Claim them first.
///
/// # Errors
/// The lane cannot be read.
pub(super) fn replay<R>(record: &Record, floor: &mut LotFloor<R>) -> Result<(), LogReadError> {
    let folder = DiskFolder::read_only(record.directory.join(LaneKind::Durable.name()));
    let kind = RecordKind::Lot.code();
    let (mut records, mut unknown) = (0_u64, 0_u64);
    for item in LogReader::new(&folder)?.seek(eventlog::begins(&folder, kind)?)? {
        let record = match item? {
            LogEntry::Record(record) if record.kind == kind => record,
            // A torn record was never promised.
            LogEntry::Record(_) | LogEntry::Torn(_) => continue,
            LogEntry::Corruption(corruption) => {
                error!(%corruption, "the log is damaged: lots may be missing");
                continue;
            }
        };
        records += 1;
        let sequence = record.sequence;
        let decoded = match decode(&record.payload) {
            Ok(decoded) => decoded,
            Err(error) => {
                error!(sequence, %error, "a record of a lot cannot be read");
                continue;
            }
        };
        let lot = decoded.lot.clone();
        match floor.replay(sequence, decoded) {
            Ok(()) => (),
            // Its first records were removed with its time.
            Err(LotReplayProblem::NotCreated) => unknown += 1,
            Err(problem) => {
                let lot = lot.as_str();
                error!(
                    lot, sequence, %problem,
                    "the log contradicts the rules: the lot is void, and no money is on hold for it"
                );
            }
        }
    }
    if unknown > 0 {
        warn!(records = unknown, "records of lots whose first record is gone were passed over");
    }
    info!(records, lots = floor.lots().count(), "the log was read for lots");
    Ok(())
}
