//! Chance from a seed: the same seed, the same numbers, on any machine.

use std::ops::RangeInclusive;

/// `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `range`, both ends included.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let count = u128::from(range.end() - range.start()) + 1;
        let offset = (u128::from(self.number()) * count) >> 64;
        range.start() + u64::try_from(offset).expect("an offset lies in its range")
    }

    /// True this often in a million.
    pub fn happens(&mut self, ppm: u64) -> bool {
        self.within(0..=999_999) < ppm
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, several: &[T]) -> T {
        let last = several.len() as u64 - 1;
        several[usize::try_from(self.within(0..=last)).expect("an index")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_reach_both_ends() {
        // The first number of seed 0 as its authors' own program prints it.
        assert_eq!(Chance::new(0).number(), 0xe220_a839_7b1d_cdaf);
        let mut chance = Chance::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| chance.within(3..=5)).collect();
        for end in 3..=5 {
            assert!(drawn.contains(&end));
        }
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
        assert_eq!((0..10_000).filter(|_| chance.happens(0)).count(), 0);
        assert_eq!((0..10_000).filter(|_| chance.happens(1_000_000)).count(), 10_000);
    }
}
