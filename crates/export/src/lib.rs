//! Exports rows into a folder for analysts: JSON Lines or Parquet, partitioned by hour of UTC.
//!
//! Owns what a reader of the folder sees: a file appears once it is complete, and never changes or
//! disappears afterwards. Knows neither what a row means nor where it comes from; the columns are
//! those of the row type.
//!
//! **Invariant:** after an interrupted export (by a signal, a crash, a lost machine or a full disk)
//! and one more that completes, every row is in exactly one file of its hour.
//!
//! Files are written under temporary names and synced; then the state file, replaced atomically,
//! names them and the last record covered; then they are renamed. An export that finds named files
//! with temporary names renames them first, and removes files that are not named.
//!
//! **Memory:** at most [`ExportLimits::hours_open`] files are open, each with a batch of rows and a
//! row group. Nothing else grows with the export.

mod error;
mod hour;
mod item;
mod name;
mod options;
mod run;
mod sheet;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::ExportError;
pub use item::{ExportItem, LogPosition};
pub use name::STATE_VERSION;
pub use options::{ExportLimits, ExportOptions, FileFormat};
pub use run::ExportSummary;
pub use sheet::TableColumns;

/// Writes the rows of `items` after those of earlier exports, to the end or until `stop`, which is
/// asked before each item, returns true. `items` are in the log's order; those up to
/// [`resume_point`] are skipped. If `items` fails, everything before is completed first.
pub fn export<R, E>(
    items: impl IntoIterator<Item = Result<ExportItem<R>, E>>,
    options: &ExportOptions,
    stop: impl FnMut() -> bool,
) -> Result<ExportSummary, ExportError>
where
    R: Serialize + DeserializeOwned,
    E: Error + Send + Sync + 'static,
{
    let folder = store::ExportFolder::new(&options.out);
    folder.make().map_err(|source| state::failed(&folder, "", "made", source))?;
    run::run(&folder, items, options, stop)
}

/// The last record of a node whose rows are in complete files, or will be after the next export.
/// None if there is none. Changes nothing.
///
/// Start reading the log at its sequence, or at the first later epoch if that begins before.
pub fn resume_point(out: &Path, node: u32) -> Result<Option<LogPosition>, ExportError> {
    let state = state::ExportState::read(&store::ExportFolder::new(out), node)?;
    Ok(state.and_then(|state| state.position))
}
