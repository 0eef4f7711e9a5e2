//! What the testbed asks of the operating system for its own process: cores, descriptors, time.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Puts the calling thread on `core` alone.
pub(crate) fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Raises the number of descriptors this process may open as far as it may by itself, and returns
/// it. Fifty DSPs at 32 connections each need more than the customary 1024.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
