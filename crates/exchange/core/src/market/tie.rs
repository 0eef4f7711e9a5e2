//! The order of equal bids, and which requests a DSP is sampled: a keyed hash, so that it is fair,
//! reproducible and beyond the reach of bidders and callers; never arrival order.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use units::Ppm;

/// The secret that orders equal bids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TieKey([u8; 16]);

impl TieKey {
    /// A key that bidders do not know: who knows it can pick bid ids that win ties.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Of two equal bids the one with the lower rank comes first. A seat is named by its DSP and
    /// its own id: another DSP's seat of the same id is another seat, and may use the same bid ids.
    pub fn rank(&self, auction: &str, imp: &str, (dsp, seat): (&str, &str), bid: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in [auction, imp, dsp, seat, bid] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        hasher.finish()
    }

    /// Whether a request is in the share of all requests that a DSP is sampled. The same request is
    /// or is not, each time; other DSPs' samples have nothing to do with it.
    pub fn is_sampled(&self, request: &str, dsp: &str, share: Ppm) -> bool {
        if share == Ppm::ONE {
            return true;
        }
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in ["sample", dsp, request] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        let drawn = (u128::from(hasher.finish()) * u128::from(Ppm::ONE.get())) >> 64;
        drawn < u128::from(share.get())
    }
}

impl std::fmt::Debug for TieKey {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TieKey(…)")
    }
}

#[cfg(test)]
mod tests;
