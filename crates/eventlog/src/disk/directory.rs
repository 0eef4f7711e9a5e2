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

/// Locks the directory at `path` for this process while the file lives. The error is
/// [`io::ErrorKind::WouldBlock`], with the holder as its text, while another process holds it.
pub fn lock(path: &Path) -> io::Result<File> {
    let path = path.join(LOCK_NAME);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            write!(file, "process {}", std::process::id())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder's name only helps the operator.
            let read = file.take(64).read_to_string(&mut holder);
            let is_known = read.is_ok() && !holder.is_empty();
            let holder = if is_known { holder.as_str() } else { "another process" };
            Err(io::Error::new(io::ErrorKind::WouldBlock, holder))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}
