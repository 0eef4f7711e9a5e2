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

    /// Uniform from 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub const fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Zipf's law with exponent 1: the nth of so many is drawn 1/n as often as the first.
#[derive(Clone, Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// Over this many, at least 1.
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53")]
    pub fn new(count: usize) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<_> = (1..=count)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        for share in &mut sums {
            *share /= sum;
        }
        Self(sums)
    }

    /// A rank from 0.
    pub fn draw(&self, draws: &mut Draws) -> usize {
        let share = draws.share();
        self.0.partition_point(|sum| *sum < share).min(self.0.len() - 1)
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

    #[test]
    fn the_second_of_zipf_is_drawn_half_as_often_as_the_first() {
        let (zipf, mut draws) = (Zipf::new(100), Draws::seeded(1));
        let mut counts = [0_u32; 100];
        for _ in 0..52_000 {
            counts[zipf.draw(&mut draws)] += 1;
        }
        // The first has a share of one in 5.19.
        assert!((9_700..10_300).contains(&counts[0]), "{}", counts[0]);
        assert!((4_800..5_200).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[99] > 0);
    }
}
