//! What a process asks of the operating system for itself: cores and descriptors.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

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
