//! The pace: all that a shard needs to decide a request, in integers, without state or randomness.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use units::Cpm;

use crate::refusal::SpendRefusal;

use super::settings::DUAL_MAX;

const FRACTION_BITS: u32 = 32;

const ONE: u64 = 1 << FRACTION_BITS;

/// Maximum multiplier: `e^5` is 148.4.
const MULTIPLIER_MAX: u64 = 149 << FRACTION_BITS;

const _: () = assert!(DUAL_MAX <= 5.0, "the multiplier of the least dual is below the largest");

const _: () = assert!(
    Cpm::MAX.micros().leading_zeros() + MULTIPLIER_MAX.leading_zeros() > 0,
    "a value times a multiplier fits 128 bits"
);

/// How a campaign bids until the next slot ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidPace {
    multiplier: u64,
    threshold: u64,
}

impl BidPace {
    /// Every request, at its value.
    pub const FULL: Self = Self { multiplier: ONE, threshold: u64::MAX };

    /// No request.
    pub const NONE: Self = Self { multiplier: ONE, threshold: 0 };

    /// Bids `multiplier` times the value for a share `rate` of requests.
    pub(super) fn new(multiplier: f64, rate: f64) -> Self {
        Self { multiplier: fixed_point(multiplier), threshold: threshold(rate) }
    }

    /// Bids `multiplier` times the value for every request.
    #[cfg(test)]
    pub(crate) fn with_multiplier(multiplier: f64) -> Self {
        Self::new(multiplier, 1.0)
    }

    /// `value` times the multiplier, rounded down.
    #[inline]
    pub fn price(self, value: Cpm) -> Cpm {
        let product = u128::from(value.micros()) * u128::from(self.multiplier);
        let micros = u64::try_from(product >> FRACTION_BITS).unwrap_or(u64::MAX);
        Cpm::new(micros).unwrap_or(Cpm::MAX)
    }

    /// The multiplier in units of 2^-32; at most 149.
    pub const fn multiplier(self) -> u64 {
        self.multiplier
    }

    /// Requests with a draw below this are bid for; `u64::MAX` admits all.
    pub const fn threshold(self) -> u64 {
        self.threshold
    }
}

const LEAST_BID: Cpm = Cpm::new(1).expect("one micro is a price");

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held within the limits before; a float casts to the nearest integer in range"
)]
fn fixed_point(multiplier: f64) -> u64 {
    ((multiplier * ONE as f64) as u64).min(MULTIPLIER_MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float casts to the nearest integer in range: below 0 to 0, from 1 on to all"
)]
fn threshold(rate: f64) -> u64 {
    (rate * 18_446_744_073_709_551_616.0) as u64
}

/// The bid for a request of this value with this draw (see [`DrawKey`]): at most `value` times the
/// multiplier, rounded down.
///
/// # Errors
/// [`SpendRefusal::Throttled`] if the draw is not below the threshold, otherwise
/// [`SpendRefusal::BelowMinimum`].
#[inline]
pub fn decide(pace: BidPace, value: Cpm, draw: u64) -> Result<Cpm, SpendRefusal> {
    if draw >= pace.threshold && pace.threshold != u64::MAX {
        return Err(SpendRefusal::Throttled);
    }
    let price = pace.price(value);
    if price < LEAST_BID { Err(SpendRefusal::BelowMinimum) } else { Ok(price) }
}

/// The key of an account's draws. Secret: with it, requests could be crafted to evade throttling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DrawKey([u8; 16]);

impl DrawKey {
    /// From secret bytes.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// A request's draw for a campaign: reproducible, independent, and uniform over `u64`.
    pub fn draw(&self, request: &[u8], campaign: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&campaign.to_le_bytes());
        hasher.write(request);
        hasher.finish()
    }
}

impl std::fmt::Debug for DrawKey {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DrawKey(…)")
    }
}

#[cfg(test)]
mod tests;
