//! Uniform and normal draws from a seed, the same on every machine. It must not know auctions.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use units::SplitMix64;

#[derive(Clone, Debug)]
pub(super) struct GeneratorChance(SplitMix64);

impl GeneratorChance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) const fn split(&mut self) -> Self {
        Self::new(self.0.bits())
    }

    /// Uniform in `(0, 1]`, so that its logarithm exists.
    pub(super) fn positive(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits and one more, 2^53, are exact")]
        let count = ((self.0.bits() >> 11) + 1) as f64;
        // 2^-53, exactly.
        count * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Two independent normal draws of mean 0 and variance 1 (Box and Muller, 1958).
    pub(super) fn normals(&mut self) -> (f64, f64) {
        let radius = (-2.0 * libm::log(self.positive())).sqrt();
        let angle = 2.0 * PI * self.positive();
        (radius * libm::cos(angle), radius * libm::sin(angle))
    }
}

/// The normal distribution function: maps normal draws to uniform ones in `[0, 1]`.
pub(super) fn uniform_of_normal(normal: f64) -> f64 {
    0.5 * libm::erfc(-normal * FRAC_1_SQRT_2)
}

/// Exact: counts and times of a stream are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "limits keep it below 2^53")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
