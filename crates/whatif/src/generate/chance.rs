//! Chance from a seed: uniform and normal draws, the same on every machine. Knows nothing of
//! auctions.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use units::SplitMix64;

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Another chance, which goes on by itself.
    pub(super) const fn split(&mut self) -> Self {
        Self::new(self.0.bits())
    }

    /// Uniform in `(0, 1]`: its logarithm exists.
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

/// The share of normal draws below `normal`: uniform in `[0, 1]`.
pub(super) fn uniform_of_normal(normal: f64) -> f64 {
    0.5 * libm::erfc(-normal * FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_their_moments_and_make_uniforms() {
        let mut chance = Chance::new(3);
        let count = 50_000;
        let (mut sum, mut squares, mut products, mut below) = (0.0, 0.0, 0.0, 0);
        for _ in 0..count {
            let (a, b) = chance.normals();
            sum += a + b;
            squares += a * a + b * b;
            products += a * b;
            below += i32::from(uniform_of_normal(a) < 0.25);
        }
        let count = f64::from(count);
        assert!((sum / (2.0 * count)).abs() < 0.02, "{sum}");
        assert!((squares / (2.0 * count) - 1.0).abs() < 0.02, "{squares}");
        assert!((products / count).abs() < 0.02, "{products}");
        assert!((f64::from(below) / count - 0.25).abs() < 0.01, "{below}");
    }

    #[test]
    fn a_positive_draw_is_never_zero() {
        let mut chance = Chance::new(9);
        assert!((0..10_000).map(|_| chance.positive()).all(|draw| draw > 0.0 && draw <= 1.0));
    }
}
