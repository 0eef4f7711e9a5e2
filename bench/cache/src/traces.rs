//! Seeded requests: which keys are asked for, and how large their values are.

/// Marsaglia's xorshift64*, the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Zipf's law with exponent 1: the nth key is asked for 1/n as often as the first.
pub struct Zipf(Vec<f64>);

impl Zipf {
    #[expect(clippy::cast_precision_loss, reason = "few keys")]
    pub fn new(keys: usize) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<_> = (1..=keys)
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
    pub fn draw(&self, random: &mut Random) -> usize {
        let share = random.share();
        self.0.partition_point(|sum| *sum < share).min(self.0.len() - 1)
    }
}
