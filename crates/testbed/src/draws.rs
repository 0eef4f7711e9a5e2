//! Seeded draws: every choice the testbed makes is a pure function of a seed and a key.
//! Knows nothing of clocks, arrival order or the operating system's randomness.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use units::SplitMix64;

/// One million: the whole, where shares are counted in parts per million.
pub const PPM: u32 = 1_000_000;

/// A reproducible stream of draws.
#[derive(Clone, Debug)]
pub struct Draws(SplitMix64);

impl Draws {
    /// The stream of a seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The stream of a seed and a key, for example a DSP and a request id.
    pub fn keyed(seed: u64, key: &[u8]) -> Self {
        let mut hasher = SipHasher13::new_with_keys(seed, !seed);
        hasher.write(key);
        Self(SplitMix64::new(hasher.finish()))
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in `0..bound`; `bound` must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.bits()) * bound as u128) >> 64;
        usize::try_from(scaled).expect("the product's high half is below the bound")
    }

    /// True for `share` parts per million of draws.
    pub fn happens(&mut self, share_ppm: u32) -> bool {
        self.below(PPM as usize) < share_ppm as usize
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_key_alone() {
        let first = Draws::keyed(7, b"request").bits();
        assert_eq!(first, Draws::keyed(7, b"request").bits());
        assert_ne!(first, Draws::keyed(8, b"request").bits());
        assert_ne!(first, Draws::keyed(7, b"requesu").bits());
    }

    #[test]
    fn shares_hold_at_their_edges_and_between() {
        let mut draws = Draws::seeded(1);
        let count = |share, draws: &mut Draws| (0..10_000).filter(|_| draws.happens(share)).count();
        assert_eq!(count(0, &mut draws), 0);
        assert_eq!(count(PPM, &mut draws), 10_000);
        let third = count(300_000, &mut draws);
        assert!((2_800..3_200).contains(&third), "{third}");
    }
}
