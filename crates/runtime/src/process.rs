//! Process settings in the operating system: cores, priority, descriptors and file permissions; and
//! its wall clock.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit, umask};
use rustix::thread::{CpuSet, sched_setaffinity};

const NICE_MAX: i32 = 19;

/// Milliseconds since 1970, by the wall clock.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Binds the calling thread to one core.
///
/// # Errors
/// If the core does not exist, or the process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if CpuSet::MAX_CPU <= core {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Lowers the priority of the calling thread, and of threads it starts later, for good: they run
/// when others leave a core idle.
///
/// # Errors
/// If the kernel refuses.
pub fn lower_priority() -> io::Result<()> {
    // On Linux this applies to the thread, not to the process.
    Ok(setpriority_process(None, NICE_MAX)?)
}

/// Raises the limit of open descriptors to its hard limit; returns the limit in force. Fifty DSPs
/// at 32 connections each need more than the usual 1024.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If that is refused, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// From now on, only the user may use what this process creates: directories 0700, files 0600.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// The permissions of a directory that other users can access. None if it is private or missing.
pub fn open_to_others(directory: &Path) -> Option<u32> {
    let mode = directory.metadata().ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn one_thread_stands_back_alone() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let there = std::thread::spawn(move || lower_priority().map(|()| nice()));
        assert_eq!(there.join().unwrap().unwrap(), NICE_MAX);
        assert_eq!(nice(), before);
    }
}
