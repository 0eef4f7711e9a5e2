//! The directory as the store uses it, so that tests can substitute a failing one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use eventlog::disk::directory::{self, DirectoryLock};
use redb::StorageBackend;
use redb::backends::FileBackend;

/// A directory of files, used by one store at a time.
pub(crate) trait StoreDirectory: Send + 'static {
    /// Keeps the directory locked while it lives.
    type Lock: Send;

    fn name(&self) -> String;

    /// Locks the directory. [`io::ErrorKind::WouldBlock`] names the process that has it.
    fn lock(&self) -> io::Result<Self::Lock>;

    fn has(&self, file: &str) -> io::Result<bool>;

    fn open(&self, file: &str) -> io::Result<Box<dyn StorageBackend>>;

    fn remove(&self, file: &str) -> io::Result<()>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable.
    fn sync(&self) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct DiskDirectory {
    path: PathBuf,
}

impl DiskDirectory {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        directory::make(path)?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }
}

impl StoreDirectory for DiskDirectory {
    type Lock = DirectoryLock;

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn lock(&self) -> io::Result<DirectoryLock> {
        directory::lock(&self.path)
    }

    fn has(&self, file: &str) -> io::Result<bool> {
        self.path.join(file).try_exists()
    }

    fn open(&self, file: &str) -> io::Result<Box<dyn StorageBackend>> {
        let backend = FileBackend::new(self.file(file)?).map_err(io::Error::other)?;
        Ok(Box::new(backend))
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
