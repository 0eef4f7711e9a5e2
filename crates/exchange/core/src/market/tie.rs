//! The order of equal bids, and the sampling of requests: a keyed hash, which is fair, reproducible
//! and beyond the control of bidders and callers; never arrival order.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use units::Ppm;

/// The secret that orders equal bids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TieKey([u8; 16]);

/// What names a bid for an impression. Different DSPs may have equal seat and bid ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BidIds<'b> {
    pub(crate) dsp: &'b str,
    pub(crate) seat: &'b str,
    pub(crate) bid: &'b str,
}

impl TieKey {
    /// Keep the key secret: with it, bidders can pick bid ids that win ties.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Orders equal bids, lowest first.
    pub(crate) fn rank(&self, auction: &str, imp: &str, ids: BidIds<'_>) -> u64 {
        let BidIds { dsp, seat, bid } = ids;
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in [auction, imp, dsp, seat, bid] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        hasher.finish()
    }

    /// Whether a request is in a DSP's sample: the same each time, and independent of other DSPs.
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
