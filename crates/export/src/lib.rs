//! Rows into a folder, for analysts: JSON Lines or Parquet, parted by the hour of UTC.
//!
//! Owns what a reader of the folder sees, and when: a file is there once it is complete, and never
//! changes or goes after that. Owns how an export goes on where one before stopped. Knows neither
//! what a row means nor where it comes from; columns are those of the type that is written.
//!
//! **What holds:** after an export that follows one that was stopped at any moment, by a signal, a
//! crash, a lost machine or a full disk, every row stands in exactly one file of its hour.
//!
//! How: files are written aside, then synced; then the state, replaced at once, names them and the
//! record through which all is done; then they get their places. An export that finds named files
//! without their places gives them these first, and removes what is not named.
//!
//! **Memory:** at most [`Limits::hours_open`] files are under way; each holds a batch of rows and a
//! row group until they are written. Nothing else grows with what is exported.

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
pub use item::{Item, Position};
pub use name::STATE_VERSION;
pub use options::{Format, Limits, Options};
pub use run::Summary;
pub use sheet::Columns;

/// Writes what `items` tells, behind what exports before have written, until its end or until
/// `stop`, which is asked before each item. `items` stand in the log's order; those at or before
/// [`resume_point`] are not written again.
///
/// # Errors
/// See [`ExportError`]. Where `items` fails, what came before is completed first.
pub fn export<R, E>(
    items: impl IntoIterator<Item = Result<Item<R>, E>>,
    options: &Options,
    stop: impl FnMut() -> bool,
) -> Result<Summary, ExportError>
where
    R: Serialize + DeserializeOwned,
    E: Error + Send + Sync + 'static,
{
    let folder = store::Folder::new(&options.out);
    folder.make().map_err(|source| state::failed(&folder, "", "made", source))?;
    run::run(&folder, items, options, stop)
}

/// Through which record of a node everything stands in complete files, or will with the next export;
/// `None` when nothing does. Changes nothing.
///
/// Who reads the log starts at its sequence, or where the first later epoch begins if that is before.
///
/// # Errors
/// The state cannot be read, is damaged, or of a later version.
pub fn resume_point(out: &Path, node: u32) -> Result<Option<Position>, ExportError> {
    let state = state::State::read(&store::Folder::new(out), node)?;
    Ok(state.and_then(|state| state.position))
}
