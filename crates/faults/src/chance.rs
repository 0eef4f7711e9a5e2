//! Seeded random choices: the same seed gives the same numbers on any machine, so every failure can
//! be repeated.

use std::ops::RangeInclusive;

use units::SplitMix64;

/// A sequence of random choices.
#[derive(Clone, Debug)]
pub struct Chance(SplitMix64);

impl Chance {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `limit`, which is positive.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// As [`Self::below`], for indexes.
    pub fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).expect("below a usize")
    }

    /// True once in `n` times; never if `n` is 0.
    pub const fn once_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// A number in `range`, both ends included.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let count = u128::from(range.end() - range.start()) + 1;
        let offset = (u128::from(self.bits()) * count) >> 64;
        range.start() + u64::try_from(offset).expect("an offset lies in its range")
    }

    /// True with this probability, in ppm.
    pub fn happens(&mut self, ppm: u64) -> bool {
        self.within(0..=999_999) < ppm
    }

    /// One of `several`.
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
        let mut chance = Chance::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| chance.within(3..=5)).collect();
        for end in 3..=5 {
            assert!(drawn.contains(&end));
        }
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
        assert_eq!((0..10_000).filter(|_| chance.happens(0)).count(), 0);
        assert_eq!((0..10_000).filter(|_| chance.happens(1_000_000)).count(), 10_000);
        assert_eq!((0..10_000).filter(|_| chance.once_in(0)).count(), 0);
        assert!((0..10_000).all(|_| chance.once_in(1) && chance.index(3) < 3));
    }
}
