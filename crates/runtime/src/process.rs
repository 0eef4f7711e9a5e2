//! What a process asks of the operating system for itself: cores and descriptors.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
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
/// it. Fifty DSPs at 32 connections each need more than the customary 1024.
///
/// # Errors
///
/// When the kernel refuses.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
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
