//! One hot value under each kind of lock, read by several threads at once and sometimes replaced.

mod kinds;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::Say;
use crate::loops::{LoopOptions, Work};
use kinds::KINDS;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    loops: LoopOptions,
    /// Bytes that each read copies; 0 looks at one word.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024])]
    bytes: Vec<usize>,
    /// Reads of a thread per write of its own; 0 for reads alone.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000_000, 10_000, 100])]
    reads_per_write: Vec<u64>,
}

pub fn run(options: &Options, say: Say<'_>) -> Result<()> {
    for &bytes in &options.bytes {
        for &reads_per_write in &options.reads_per_write {
            let work = Work { bytes, reads_per_write };
            let label = json!({ "bytes": bytes, "reads_per_write": reads_per_write });
            options.loops.measure(&KINDS, &bytes.max(8), (work, &label), say)?;
        }
    }
    Ok(())
}
