//! The state that an export leaves to the next one. Replaced atomically, after everything it states
//! is synced.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::error::ExportError;
use crate::item::LogPosition;
use crate::name::{self, FileId, STATE_VERSION, UNFINISHED};
use crate::options::FileFormat;
use crate::store::ExportStore;

/// A longer file is damaged.
const STATE_BYTES_MAX: u64 = 1 << 20;

/// How far a node is exported into a folder, and with which options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportState {
    version: u32,
    pub(crate) node: u32,
    pub(crate) format: FileFormat,
    pub(crate) filter: String,
    /// Every row up to this record is in a complete file.
    pub(crate) position: Option<LogPosition>,
    /// Complete files that may not have their final names yet.
    pub(crate) publishing: Vec<FileId>,
}

/// The part that all versions have in common.
#[derive(Deserialize)]
struct StateVersion {
    version: u32,
}

impl ExportState {
    /// The state before the first export.
    pub(crate) fn new(node: u32, format: FileFormat, filter: &str) -> Self {
        let (filter, publishing) = (filter.to_owned(), Vec::new());
        Self { version: STATE_VERSION, node, format, filter, position: None, publishing }
    }

    /// Reads a node's state. None if it was never exported.
    pub(crate) fn read<S: ExportStore>(store: &S, node: u32) -> Result<Option<Self>, ExportError> {
        let path = name::state(node);
        let bytes = store.read(&path, STATE_BYTES_MAX);
        let Some(bytes) = bytes.map_err(|source| failed(store, &path, "read", source))? else {
            return Ok(None);
        };
        let damaged =
            |reason: String| ExportError::StateDamaged { path: store.show(&path), reason };
        let versioned: StateVersion =
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

    /// Replaces the state file.
    pub(crate) fn write<S: ExportStore>(&self, store: &S) -> Result<(), ExportError> {
        let path = name::state(self.node);
        let aside = format!("{path}{UNFINISHED}");
        let text = serde_json::to_vec_pretty(self).expect("text and numbers are JSON");
        let written = || -> io::Result<()> {
            let mut file = store.create(&aside)?;
            file.write_all(&text)?;
            store.sync(file)?;
            store.rename(&aside, &path)?;
            store.sync_folder(&name::state_folder(self.node))
        };
        written().map_err(|source| failed(store, &path, "written", source))
    }
}

/// The error of an action on a path.
pub(crate) fn failed<S: ExportStore>(
    store: &S,
    path: &str,
    action: &'static str,
    source: io::Error,
) -> ExportError {
    ExportError::Io { path: store.show(path), action, source }
}
