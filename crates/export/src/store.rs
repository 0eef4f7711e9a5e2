//! What an export needs of a file system, as a trait, so that tests can substitute a faulty one;
//! and a real folder. Paths are relative to the export's folder, with parts joined by `/`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A folder and its contents.
pub(crate) trait ExportStore {
    /// A file being written.
    type File: Write + Send;
    /// Holds a lock while it lives.
    type Lock;

    /// A path for messages.
    fn show(&self, path: &str) -> String;

    /// Creates a folder if it does not exist; durable once its parent is synced.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Names in a folder, in any order; empty if it does not exist. The root is `""`.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Reads at most `bytes_max` of a file. None if it does not exist.
    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>>;

    /// Creates an empty file, replacing one with that name.
    fn create(&self, path: &str) -> io::Result<Self::File>;

    /// Makes a file's content durable; its name is durable after [`ExportStore::sync_folder`].
    fn sync(&self, file: Self::File) -> io::Result<()>;

    /// Renames a file atomically, replacing one with that name; durable once both folders are
    /// synced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &str) -> io::Result<()>;

    /// Locks a file for this process, creating it if needed. The error is
    /// [`io::ErrorKind::WouldBlock`] while another process holds it.
    fn lock(&self, path: &str) -> io::Result<Self::Lock>;
}

/// A folder of the machine's file system.
pub(crate) struct ExportFolder {
    root: PathBuf,
}

impl ExportFolder {
    /// The folder at `root`, which need not exist for reading.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Creates the folder if it does not exist.
    pub(crate) fn make(&self) -> io::Result<()> {
        if self.root.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.root)?;
        // The folder's own name must be durable too.
        let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl ExportStore for ExportFolder {
    type File = File;
    type Lock = File;

    fn show(&self, path: &str) -> String {
        self.at(path).display().to_string()
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        match fs::create_dir(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
        // Our file names are UTF-8.
        entries.filter_map(|entry| name(entry).transpose()).collect()
    }

    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn create(&self, path: &str) -> io::Result<File> {
        File::create(self.at(path))
    }

    fn sync(&self, file: File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }

    fn lock(&self, path: &str) -> io::Result<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(self.at(path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
