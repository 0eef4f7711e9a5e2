//! The same bytes written and synced, one batch after another, into room that was made before.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{Measured, settle};

/// A lease's name and figures.
const LEASE_BYTES: usize = 56;
/// Written over and over: a sync then waits for data alone.
const FILE_BYTES: usize = 16 << 20;
/// What a file is written in.
const BLOCK_BYTES: usize = 4_096;

/// Batches of so many leases, each written once and synced so often, for so long. A second sync has
/// a block to itself, as the second phase of a commit has.
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
        // No two writes are the same.
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
