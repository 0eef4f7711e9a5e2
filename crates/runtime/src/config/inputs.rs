//! What a configuration reads besides its own text, environment variables and files, each with its
//! state when read. It must not know keys, nor the purpose of a file.

pub(super) mod pattern;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pattern::Pattern;

/// Looks up an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Everything read for a configuration, with its state: a change of state calls for a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: BTreeMap<PathBuf, Option<Stamp>>,
    listings: BTreeMap<Pattern, Option<Vec<OsString>>>,
}

/// Detects that a file was replaced or written, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    /// Status change time (ctime): also covers permissions and a restored modification time.
    changed: (i64, i64),
    bytes: u64,
    device: u64,
    inode: u64,
}

impl From<&Metadata> for Stamp {
    fn from(of: &Metadata) -> Self {
        Self {
            modified: (of.mtime(), of.mtime_nsec()),
            changed: (of.ctime(), of.ctime_nsec()),
            bytes: of.len(),
            device: of.dev(),
            inode: of.ino(),
        }
    }
}

impl Sources {
    /// The current state of the same files and listings.
    pub fn now(&self) -> Self {
        let stamp = |path: &PathBuf| std::fs::metadata(path).ok().map(|found| (&found).into());
        let names = |pattern: &Pattern| pattern.names().ok();
        Self {
            files: self.files.keys().map(|path| (path.clone(), stamp(path))).collect(),
            listings: self.listings.keys().map(|of| (of.clone(), names(of))).collect(),
        }
    }

    /// A file or pattern whose state differs from the one in `other`.
    pub fn difference(&self, other: &Self) -> Option<PathBuf> {
        let file = self.files.iter().find(|&(path, stamp)| other.files.get(path) != Some(stamp));
        let listing = || {
            let mut listings = self.listings.iter();
            listings.find(|&(of, names)| other.listings.get(of) != Some(names))
        };
        file.map(|(path, _)| path.clone()).or_else(|| listing().map(|(of, _)| of.path()))
    }

    /// Adds the sources of `other`, which replace equal paths.
    pub fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        self.listings.extend(other.listings);
    }

    /// All files, including unreadable ones, and all listed folders.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let folders = self.listings.keys().map(Pattern::folder);
        self.files.keys().map(PathBuf::as_path).chain(folders)
    }
}

/// The environment and the files, as one reading of a configuration sees them.
pub(super) struct ConfigInputs<'a> {
    /// None if the text stands alone.
    variables: Option<Variables<'a>>,
    seen: RefCell<Sources>,
    /// Over the paths and contents of everything read.
    digest: RefCell<DefaultHasher>,
}

impl<'a> ConfigInputs<'a> {
    pub(super) fn new(variables: Variables<'a>) -> Self {
        let (seen, digest) = (RefCell::default(), RefCell::default());
        Self { variables: Some(variables), seen, digest }
    }

    pub(super) fn closed() -> Self {
        Self { variables: None, seen: RefCell::default(), digest: RefCell::default() }
    }

    /// Whether the text stands alone, without files and variables.
    pub(super) fn is_closed(&self) -> bool {
        self.variables.is_none()
    }

    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.and_then(|variables| variables(name))
    }

    pub(super) fn names(&self, pattern: &Pattern) -> io::Result<Vec<OsString>> {
        let names = pattern.names();
        let seen = names.as_ref().ok().cloned();
        self.seen.borrow_mut().listings.entry(pattern.clone()).or_insert(seen);
        names
    }

    /// The bytes of a file, and one more than `bytes_max` of a larger one. Unless `special`, only
    /// regular files are read: opening a pipe would wait for its writer.
    pub(super) fn read(&self, path: &Path, bytes_max: u64, special: bool) -> io::Result<Vec<u8>> {
        // Take the state before reading: a write during the reading counts as a change.
        let found = std::fs::metadata(path);
        let is_file = found.as_ref().map_or(true, Metadata::is_file);
        if is_file || !special {
            let stamp = found.as_ref().ok().map(Stamp::from);
            self.seen.borrow_mut().files.entry(path.to_path_buf()).or_insert(stamp);
        }
        if !is_file && !special {
            return Err(io::Error::other("not a file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
        (path, &bytes).hash(&mut *self.digest.borrow_mut());
        Ok(bytes)
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.borrow().finish()
    }

    pub(super) fn into_sources(self) -> Sources {
        self.seen.into_inner()
    }
}
