//! Hit ratios: the same trace replayed into the cache's directory and into other caches of one size.
//!
//! A miss puts the value. The ratio is counted after a fifth of the trace, over requests by Zipf's
//! law alone; what scans ask for was never asked for before.

mod policies;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::Say;
use policies::POLICIES;
use testbed::draws::{Draws, Zipf};

/// Keys of the trace besides those of scans.
const KEYS: usize = 10_000;
/// A scan begins after so many requests, and has so many keys.
const SCAN_EVERY: usize = 10_000;
const SCAN_KEYS: u64 = 5_000;
/// The first key of scans.
const SCANNED: u64 = 1 << 32;

#[derive(Args)]
pub struct Options {
    /// Requests of the trace, scans not counted.
    #[arg(long, default_value_t = 1_000_000)]
    requests: usize,
    /// Size of the caches, in percent of all values of the trace.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    percent: Vec<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A cache in front of the trace.
trait Policy {
    /// Whether the value is there; it is afterwards.
    fn request(&mut self, key: u64, bytes: u64) -> bool;
}

/// What the caches may contain.
#[derive(Clone, Copy)]
struct Capacity {
    bytes: u64,
    /// As many values of the mean size.
    values: usize,
}

pub fn run(options: &Options, say: Say<'_>) -> Result<()> {
    for is_sized in [false, true] {
        let total: u64 = (0..KEYS as u64).map(|key| bytes_of(key, is_sized)).sum();
        for percent in &options.percent {
            let bytes = total * percent / 100;
            let values = usize::try_from(KEYS as u64 * percent / 100)?;
            for scans in [false, true] {
                for (name, make) in POLICIES {
                    let trace = Trace { requests: options.requests, is_sized, scans };
                    let mut policy = make(Capacity { bytes, values });
                    let hits = trace.replay(&mut *policy, options.seed);
                    say(&json!({
                        "kind": name, "percent": percent, "sizes": is_sized, "scans": scans,
                        "hit_ratio": hits.ratio(), "hit_ratio_bytes": hits.ratio_bytes(),
                    }))?;
                }
            }
        }
    }
    Ok(())
}

/// 1 KiB, or 1 to 256 KiB, evenly by their logarithms.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size is positive")]
fn bytes_of(key: u64, is_sized: bool) -> u64 {
    match is_sized {
        false => 1024,
        true => (1024.0 * (Draws::seeded(key).share() * 8.0).exp2()) as u64,
    }
}

struct Trace {
    requests: usize,
    is_sized: bool,
    scans: bool,
}

#[derive(Default)]
struct Hits {
    requests: u64,
    hits: u64,
    bytes: u64,
    hit_bytes: u64,
}

impl Hits {
    #[expect(clippy::cast_precision_loss, reason = "a measured ratio")]
    fn ratio(&self) -> f64 {
        self.hits as f64 / self.requests as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "a measured ratio")]
    fn ratio_bytes(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes as f64
    }
}

impl Trace {
    fn replay(&self, policy: &mut dyn Policy, seed: u64) -> Hits {
        let (zipf, mut random) = (Zipf::new(KEYS), Draws::seeded(seed));
        let (mut hits, mut scanned) = (Hits::default(), SCANNED);
        for number in 0..self.requests {
            let key = zipf.draw(&mut random) as u64;
            let bytes = bytes_of(key, self.is_sized);
            let is_hit = policy.request(key, bytes);
            if number >= self.requests / 5 {
                hits.requests += 1;
                hits.hits += u64::from(is_hit);
                hits.bytes += bytes;
                hits.hit_bytes += if is_hit { bytes } else { 0 };
            }
            if self.scans && (number + 1).is_multiple_of(SCAN_EVERY) {
                for key in scanned..scanned + SCAN_KEYS {
                    policy.request(key, bytes_of(key, self.is_sized));
                }
                scanned += SCAN_KEYS;
            }
        }
        hits
    }
}
