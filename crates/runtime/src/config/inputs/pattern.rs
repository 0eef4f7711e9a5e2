//! Names of files to include, with `*` in their last part. It must not know the files' contents.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Most files that one configuration includes.
pub const INCLUDES_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) struct Pattern {
    folder: PathBuf,
    name: String,
}

impl Pattern {
    /// A pattern relative to `folder`. None if `text` is a plain path. The error is the remedy if a
    /// folder's name contains `*`.
    pub(in crate::config) fn parse(text: &str, folder: &Path) -> Result<Option<Self>, String> {
        let (parents, name) = text.rsplit_once('/').map_or(("", text), |(parents, name)| {
            // The root is a parent too.
            (if parents.is_empty() { "/" } else { parents }, name)
        });
        if parents.contains('*') {
            return Err("may have `*` in its last part only".to_owned());
        }
        let pattern = Self { folder: folder.join(parents), name: name.to_owned() };
        Ok(name.contains('*').then_some(pattern))
    }

    pub(in crate::config) fn folder(&self) -> &Path {
        // A relative file without parents has an empty folder.
        if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder }
    }

    /// The pattern as a path, for messages.
    pub(in crate::config) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    pub(in crate::config) fn join(&self, name: &OsString) -> PathBuf {
        self.folder.join(name)
    }

    /// Sorted matching names, at most one more than [`INCLUDES_MAX`]. Fails if listing fails.
    pub(in crate::config) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder())? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| matches(&self.name, name)) {
                names.push(name);
            }
            if INCLUDES_MAX < names.len() {
                break;
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Whether `pattern` matches `name`. As in a shell, `*` does not match the dot of a hidden file.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The earliest match leaves most text for the other parts.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
