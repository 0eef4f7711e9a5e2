//! What an export remembers for the next one.
//!
//! Replaced at once, synced, and only once everything that it says is. Knows no rows.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::item::Position;
use crate::name::{self, FileId, STATE_VERSION, UNFINISHED};
use crate::options::Format;
use crate::store::Store;

/// A longer state is none.
const STATE_BYTES_MAX: u64 = 1 << 20;

/// How far a node is exported into a folder, and by which terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    pub(crate) node: u32,
    pub(crate) format: Format,
    pub(crate) filter: String,
    /// Through this record every row stands in a complete file.
    pub(crate) position: Option<Position>,
    /// Of these files, those that are complete and may not have their places yet.
    pub(crate) publishing: Vec<FileId>,
}

/// What every version says first.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl State {
    /// Nothing is exported yet.
    pub(crate) fn new(node: u32, format: Format, filter: &str) -> Self {
        let (filter, publishing) = (filter.to_owned(), Vec::new());
        Self { version: STATE_VERSION, node, format, filter, position: None, publishing }
    }

    /// That of a node; `None` when it was never exported.
    pub(crate) fn read<S: Store>(store: &S, node: u32) -> Result<Option<Self>, ExportError> {
        let path = name::state(node);
        let bytes = store.read(&path, STATE_BYTES_MAX);
        let Some(bytes) = bytes.map_err(|source| failed(store, &path, "read", source))? else {
            return Ok(None);
        };
        let damaged =
            |reason: String| ExportError::StateDamaged { path: store.show(&path), reason };
        let versioned: Versioned =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if versioned.version != STATE_VERSION {
            let version = versioned.version;
            return Err(ExportError::StateVersion { path: store.show(&path), version });
        }
        let state: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if state.node != node {
            return Err(damaged(format!("it is that of node {}", state.node)));
        }
        Ok(Some(state))
    }

    /// Replaces what was remembered.
    pub(crate) fn write<S: Store>(&self, store: &S) -> Result<(), ExportError> {
        let path = name::state(self.node);
        let aside = format!("{path}{UNFINISHED}");
        let text = serde_json::to_vec_pretty(self).expect("text and numbers are JSON");
        let written = || -> io::Result<()> {
            let mut file = store.create(&aside)?;
            file.write_all(&text)?;
            store.sync(file)?;
            store.rename(&aside, &path)?;
            store.sync_folder(&name::desk(self.node))
        };
        written().map_err(|source| failed(store, &path, "written", source))
    }
}

/// What the file system said about a path.
pub(crate) fn failed<S: Store>(
    store: &S,
    path: &str,
    action: &'static str,
    source: io::Error,
) -> ExportError {
    ExportError::Io { path: store.show(path), action, source }
}
