//! Which records of a lane its owners still need.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Protects records of a lane from retention until it is dropped. The lane keeps what any claim
/// needs; without claims it protects nothing.
#[derive(Debug)]
pub struct RetentionClaim(Arc<AtomicU64>);

impl RetentionClaim {
    /// Protects only records from `sequence` on. A new claim protects all records.
    pub fn keep_from(&self, sequence: u64) {
        self.0.store(sequence, Ordering::Release);
    }
}

/// The claims of a lane. Locked to make a claim, and by the log thread only for retention.
#[derive(Debug, Default)]
pub(super) struct RetentionClaims(Mutex<Vec<Weak<AtomicU64>>>);

impl RetentionClaims {
    pub fn claim(&self) -> RetentionClaim {
        let sequence = Arc::new(AtomicU64::new(0));
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push(Arc::downgrade(&sequence));
        RetentionClaim(sequence)
    }

    /// The first record that a claim protects. `u64::MAX` without claims.
    pub fn keep_from(&self) -> u64 {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|claim| claim.strong_count() > 0);
        let live = claims.iter().filter_map(Weak::upgrade);
        live.map(|claim| claim.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }
}
