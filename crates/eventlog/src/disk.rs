//! What the log needs of a file system, as a trait, so that tests can substitute a faulty one.
//! [`DiskFolder`] is a real directory, `testing::FaultDisk` one in memory, [`TimedDisk`] measures
//! another.

pub mod directory;
mod folder;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timed;

use std::io;

pub use folder::DiskFolder;
pub use timed::{SyncMeter, TimedDisk, TimedFile};

/// One directory of files, used by one log at a time.
pub trait Disk {
    /// An open file.
    type File: DiskFile;
    /// Locks the directory while it lives.
    type Lock;

    /// The directory's path, for messages.
    fn place(&self) -> String;

    /// Locks the directory for this process. The error is [`io::ErrorKind::WouldBlock`], with the
    /// holder as its text, while another process holds it.
    fn lock(&self) -> io::Result<Self::Lock>;

    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file that does not exist, open for writing. Its name is durable after
    /// [`Disk::sync_directory`].
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file for reading, and for writing if the directory is writable.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Removes a file; durable after [`Disk::sync_directory`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file over another; durable after [`Disk::sync_directory`].
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes created, renamed and removed names durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// An open file with positioned reads and writes.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no case of its own")]
pub trait DiskFile {
    /// Writes all of `bytes` at `offset`. After an error any part of it may be written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads some bytes at `offset`; returns how many, 0 only at the end.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Length of the file.
    fn len(&self) -> io::Result<u64>;

    /// Reserves space for the first `bytes` of the file without changing its length. Does nothing
    /// if the file system cannot.
    fn allocate(&mut self, bytes: u64) -> io::Result<()>;

    /// Truncates the file to `bytes`, and frees space reserved beyond.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable. After an error everything not yet durable is
    /// lost: the kernel drops what it could not write, and a second call would succeed without
    /// writing it.
    fn sync_data(&mut self) -> io::Result<()>;
}
