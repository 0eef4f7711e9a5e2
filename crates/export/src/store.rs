//! What an export asks of a file system, so that tests can put a worse one underneath, and how the
//! machine's answers.
//!
//! Knows nothing of rows. Paths are relative to the folder of the export, parts joined by `/`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// One folder and what is below.
pub(crate) trait Store {
    /// A file that is being written.
    type File: Write + Send;
    /// Holds what was locked while it lives.
    type Lock;

    /// A path as an operator knows it.
    fn show(&self, path: &str) -> String;

    /// A folder below, made when it is not there; its name is durable once that above is synced.
    fn make_folder(&self, path: &str) -> io::Result<()>;

    /// Names in a folder, in any order; none of one that is not there. The folder itself is `""`.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// What stands in a file, of which no more than `bytes_max` is read; `None` of one that is not
    /// there.
    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>>;

    /// An empty file; one of that name is lost.
    fn create(&self, path: &str) -> io::Result<Self::File>;

    /// Makes what was written to a file durable; its name is after [`Store::sync_folder`].
    fn sync(&self, file: Self::File) -> io::Result<()>;

    /// Gives a file another name at once: others see the one or the other. Durable once both
    /// folders are synced; a file of that name is lost.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes names in a folder durable.
    fn sync_folder(&self, path: &str) -> io::Result<()>;

    /// Takes a file for this process, made when it is not there.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while another process has it, or those of the file system.
    fn lock(&self, path: &str) -> io::Result<Self::Lock>;
}

/// A folder on the machine's disk.
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at `root`, which need not be there as long as it is only read.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Makes the folder when it is not there.
    pub(crate) fn make(&self) -> io::Result<()> {
        if self.root.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.root)?;
        // The folder's own name must survive as well.
        let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl Store for Folder {
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
        // Names that are no text are not ours.
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
