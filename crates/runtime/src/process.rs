//! What a process asks of the operating system for itself: cores, descriptors, and that its files are
//! nobody else's.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit, umask};
use rustix::thread::{CpuSet, sched_setaffinity};

/// As nice as can be.
const NICE_MAX: i32 = 19;

/// Binds the calling thread to one core.
///
/// # Errors
///
/// When the core does not exist, or the process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if CpuSet::MAX_CPU <= core {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// From now on the calling thread, and those that it starts, run when others leave a core idle: for
/// work that may wait. There is no way back.
///
/// # Errors
///
/// When the kernel refuses.
pub fn stand_back() -> io::Result<()> {
    // On Linux this is of the thread, not of the process.
    Ok(setpriority_process(None, NICE_MAX)?)
}

/// Raises the number of descriptors this process may open as far as it may by itself, and returns
/// the number in force. Fifty DSPs at 32 connections each need more than the customary 1024.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where that is refused, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// From now on what this process creates is for its user alone: directories 0700, files 0600.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// The permissions of a directory that other users have some right to. None if it is private, or is
/// not there.
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
        let there = std::thread::spawn(move || stand_back().map(|()| nice()));
        assert_eq!(there.join().unwrap().unwrap(), NICE_MAX);
        assert_eq!(nice(), before);
    }
}
