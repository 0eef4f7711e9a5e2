//! The same bytes written and synced, one batch after another, in preallocated space.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{Measured, settle};

/// A lease's key and amounts.
const LEASE_BYTES: usize = 56;
/// The file is overwritten repeatedly, so a sync waits only for data.
const FILE_BYTES: usize = 16 << 20;
/// The unit of writes.
const BLOCK_BYTES: usize = 4_096;

/// Batches of leases, each written once and synced `syncs` times, for `time`. A second sync has a
/// block of its own, like the second phase of a commit.
pub(crate) fn measure(path: &Path, leases: u32, syncs: u32, time: Duration) -> Result<Measured> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all_at(&vec![1; FILE_BYTES], 0)?;
    file.sync_all()?;
    settle();
    let bytes = (usize::try_from(leases)? * LEASE_BYTES).next_multiple_of(BLOCK_BYTES);
    let mut payload: Vec<_> = (0..bytes).map(|at| at.to_le_bytes()[0]).collect();
    let (mut at, mut latencies) = (0, Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < time {
        let asked = Instant::now();
        // Every write is different.
        payload[..8].copy_from_slice(&(latencies.len() as u64).to_le_bytes());
        for sync in 0..syncs {
            let written = if sync == 0 { &payload[..] } else { &payload[..BLOCK_BYTES] };
            if at + written.len() > FILE_BYTES {
                at = 0;
            }
            file.write_all_at(written, at as u64)?;
            at += written.len();
            file.sync_data()?;
        }
        latencies.push(asked.elapsed());
    }
    let took = begun.elapsed();
    fs::remove_file(path)?;
    let batches = latencies.len() as u64;
    Ok(Measured { batches, commits: batches, took, latencies })
}
