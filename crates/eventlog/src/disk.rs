//! What the log asks of a file system, so that tests can put a worse one underneath.
//!
//! Knows nothing of segments or records. Two implementations: [`Folder`] on the machine's disk,
//! and `testing::FaultDisk` in memory; [`Timed`] measures another.

pub mod directory;
mod folder;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timed;

use std::io;

pub use folder::Folder;
pub use timed::{SyncMeter, Timed, TimedFile};

/// One directory of files, used by one log at a time.
pub trait Disk {
    /// An open file.
    type File: DiskFile;
    /// Holds the directory while it lives.
    type Lock;

    /// The directory as an operator knows it.
    fn place(&self) -> String;

    /// Takes the directory for this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] with the holder in its text while another holds it.
    fn lock(&self) -> io::Result<Self::Lock>;

    /// Names of all files, in any order.
    ///
    /// # Errors
    /// Those of the file system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new file, open for writing; its name is durable after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// Those of the file system; a file of the name exists.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// An existing file, open for reading, and for writing where the directory is.
    ///
    /// # Errors
    /// Those of the file system.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Removes a file; durable after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// Those of the file system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file the name of another, which it replaces; durable after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// Those of the file system.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable: created files stay, removed files stay away.
    ///
    /// # Errors
    /// Those of the file system.
    fn sync_directory(&self) -> io::Result<()>;
}

/// An open file, written at places that its writer names.
#[expect(clippy::len_without_is_empty, reason = "an empty file is no case of its own")]
pub trait DiskFile {
    /// Writes all of `bytes` at `offset`; after an error any part of it may have been written.
    ///
    /// # Errors
    /// Those of the file system, a full one among them.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads some of what stands at `offset` into `bytes`, and tells how much; 0 at the end only.
    ///
    /// # Errors
    /// Those of the file system.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// Those of the file system.
    fn len(&self) -> io::Result<u64>;

    /// Asks for room for the first `bytes` of the file, whose length stays; does nothing where
    /// that is not known.
    ///
    /// # Errors
    /// Those of the file system, a full one among them.
    fn allocate(&mut self, bytes: u64) -> io::Result<()>;

    /// Cuts the file to `bytes`, and gives back room that was asked for behind them.
    ///
    /// # Errors
    /// Those of the file system.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes the file's bytes and length durable. After an error whatever was not yet durable is
    /// lost: the kernel forgets what it could not write, and a second call would succeed at
    /// nothing.
    ///
    /// # Errors
    /// Those of the file system.
    fn sync_data(&mut self) -> io::Result<()>;
}
