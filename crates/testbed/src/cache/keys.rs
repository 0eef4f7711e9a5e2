//! Which paths a load asks for.

use crate::draws::{Draws, Zipf};

/// Paths with the numbers from 0, in what order and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKeys {
    /// The same one again and again.
    One,
    /// By Zipf's law with exponent 1.
    Zipf {
        /// How many different ones; at least 1.
        count: usize,
    },
    /// One after the other, and again from the first.
    Scan {
        /// How many different ones; at least 1.
        count: usize,
    },
    /// Each once.
    New,
}

/// Draws the numbers of paths.
#[derive(Debug)]
pub(crate) enum KeyDraws {
    Zipf(Zipf, Draws),
    /// The next one, and how many there are.
    Scan(usize, usize),
}

impl KeyDraws {
    pub(crate) fn new(keys: CacheKeys, seed: u64) -> Self {
        match keys {
            CacheKeys::One => Self::Scan(0, 1),
            CacheKeys::Zipf { count } => Self::Zipf(Zipf::new(count), Draws::seeded(seed)),
            CacheKeys::Scan { count } => Self::Scan(0, count),
            CacheKeys::New => Self::Scan(0, usize::MAX),
        }
    }

    pub(crate) fn next(&mut self) -> usize {
        match self {
            Self::Zipf(zipf, draws) => zipf.draw(draws),
            Self::Scan(next, count) => {
                let number = *next;
                *next = (number + 1) % *count;
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_their_order() {
        let first = |keys| {
            let mut draws = KeyDraws::new(keys, 1);
            std::array::from_fn::<_, 5, _>(|_| draws.next())
        };
        assert_eq!(first(CacheKeys::One), [0; 5]);
        assert_eq!(first(CacheKeys::Scan { count: 3 }), [0, 1, 2, 0, 1]);
        assert_eq!(first(CacheKeys::New), [0, 1, 2, 3, 4]);
        assert!(first(CacheKeys::Zipf { count: 3 }).iter().all(|number| *number < 3));
    }
}
