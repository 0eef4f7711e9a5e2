//! A directory that one process holds at a time, by an advisory lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Name of the lock file. It contains the holder's process id.
const LOCK_NAME: &str = "lock";

/// Creates the directory at `path` if it does not exist, durably.
pub fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    // The directory's own name must be durable too.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// A held lock; dropping it unlocks.
#[derive(Debug)]
pub struct DirectoryLock(File);

impl DirectoryLock {
    /// Holds the lock of an open file. The error is [`TryLockError::WouldBlock`] while another holds
    /// it.
    ///
    /// # Errors
    /// See above, and those of the file system.
    pub fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock().map(|()| Self(file))
    }
}

impl Drop for DirectoryLock {
    /// Closing the file is not enough: a process that is being started has a copy of the descriptor
    /// until it executes its program, and the lock would be held until then.
    fn drop(&mut self) {
        // On an error, closing does it.
        let _unlocked = self.0.unlock();
    }
}

/// Locks the directory at `path` for this process. The error is [`io::ErrorKind::WouldBlock`], with
/// the holder as its text, while another process holds it.
pub fn lock(path: &Path) -> io::Result<DirectoryLock> {
    let path = path.join(LOCK_NAME);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    // What the file contains only helps the operator.
    let mut text = file.try_clone()?;
    match DirectoryLock::take(file) {
        Ok(lock) => {
            text.set_len(0)?;
            text.seek(SeekFrom::Start(0))?;
            write!(text, "process {}", std::process::id())?;
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = text.take(64).read_to_string(&mut holder);
            let is_known = read.is_ok() && !holder.is_empty();
            let holder = if is_known { holder.as_str() } else { "another process" };
            Err(io::Error::new(io::ErrorKind::WouldBlock, holder))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a process that is being started has: a copy of the descriptor, for an instant.
    #[test]
    fn a_lock_ends_with_its_owner_even_if_a_copy_of_the_descriptor_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let _copy = held.0.try_clone().unwrap();
        let refused = lock(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        lock(folder.path()).unwrap();
    }
}
