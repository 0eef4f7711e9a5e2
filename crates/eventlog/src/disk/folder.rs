//! A directory of the machine's file system, held by an advisory lock.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::directory::{self, DirectoryLock};
use super::{Disk, DiskFile};

/// A directory on the machine's disk.
#[derive(Clone, Debug)]
pub struct DiskFolder {
    path: PathBuf,
    /// Nothing is changed or locked.
    read_only: bool,
}

impl DiskFolder {
    /// The directory at `path`, created if it does not exist.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        directory::make(&path)?;
        Ok(Self { path, read_only: false })
    }

    /// The directory at `path`, for a reader beside another process that writes. Nothing is
    /// created, changed or locked; read permission is enough.
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read_only: true }
    }

    fn may_change(&self) -> io::Result<()> {
        if self.read_only {
            let reason = "this directory was opened for reading";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(())
    }
}

impl Disk for DiskFolder {
    type File = File;
    type Lock = DirectoryLock;

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn lock(&self) -> io::Result<DirectoryLock> {
        self.may_change()?;
        directory::lock(&self.path)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // All file names of the log are UTF-8.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        self.may_change()?;
        OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(!self.read_only).open(self.path.join(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.may_change()?;
        fs::remove_file(self.path.join(name))
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_change()?;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.may_change()?;
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                read => return read,
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&*self, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            allocated => Ok(allocated?),
        }
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }
}
