//! Generates streams of auctions from a seed: traffic by time of day, bursts, drifting prices,
//! several distributions of values, and a correlation of value and price.
//!
//! The same options yield the same bytes on every machine: randomness is `SplitMix64`, and floating
//! point uses only the four operations, square roots and `libm`. Memory holds only the traffic
//! curve, whatever the number of auctions. It must not know budgets.

mod bounds;
mod chance;
mod price_walk;
pub mod profile;
#[cfg(test)]
mod tests;
mod traffic;

use std::io::{self, Write};

use units::Cpm;

pub use self::bounds::{AUCTIONS_MAX, DAY_MS, DURATION_MS_MAX, GenerateError};
use self::chance::{GeneratorChance, whole};
use self::price_walk::PriceWalk;
pub use self::profile::Profile;
use self::profile::Values;
use self::traffic::TrafficCurve;
use crate::stream::{StreamAuction, StreamWriter, TIME_MS_MAX};

/// Monday, 5 January 2026, 00:00 UTC.
pub const START_MS: u64 = 1_767_571_200_000;

/// What to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// Traffic, prices and values: a named profile, or one with changed fields.
    pub profile: Profile,
    /// Exact number of auctions, at most [`AUCTIONS_MAX`].
    pub auctions: u64,
    /// The seed: another one yields another stream of the same kind.
    pub seed: u64,
    /// Start of the stream, in milliseconds since 1970. Days begin at midnight UTC.
    pub start_ms: u64,
    /// Its duration in milliseconds, at most [`DURATION_MS_MAX`].
    pub duration_ms: u64,
}

impl GenerateOptions {
    /// 200,000 auctions in a day of `profile`, with seed 1.
    pub const fn new(profile: Profile) -> Self {
        Self { profile, auctions: 200_000, seed: 1, start_ms: START_MS, duration_ms: DAY_MS }
    }
}

/// The auctions of `options`, in order, generated lazily.
///
/// # Errors
/// If an option is out of its range.
pub fn auctions(options: &GenerateOptions) -> Result<Auctions, GenerateError> {
    let &GenerateOptions { ref profile, auctions, seed, start_ms, duration_ms } = options;
    if !(1..=AUCTIONS_MAX).contains(&auctions) {
        return Err(GenerateError::Auctions(auctions));
    }
    if !(1..=DURATION_MS_MAX).contains(&duration_ms) {
        return Err(GenerateError::Duration(duration_ms));
    }
    if start_ms.checked_add(duration_ms).is_none_or(|end_ms| end_ms > TIME_MS_MAX) {
        return Err(GenerateError::Start(start_ms));
    }
    profile.check()?;
    let mut chance = GeneratorChance::new(seed);
    // Separate generators, so that the prices of a profile do not depend on its traffic.
    let [bursts, times, prices] = [chance.split(), chance.split(), chance.split()];
    let moves = chance.split();
    Ok(Auctions {
        profile: profile.clone(),
        traffic: TrafficCurve::new(profile, start_ms, duration_ms, bursts),
        price_walk: PriceWalk::new(profile, duration_ms, moves),
        times,
        prices,
        left: auctions,
        unused: 1.0,
        start_ms,
        duration_ms,
    })
}

/// Writes the stream of `options` to `out`, which should be buffered.
///
/// # Errors
/// [`GenerateError`] within an [`io::Error`] of kind `InvalidInput`, or the error of writing.
pub fn write(options: &GenerateOptions, out: impl Write) -> io::Result<()> {
    let auctions =
        auctions(options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut writer = StreamWriter::new(out)?;
    for auction in auctions {
        writer.write(&auction)?;
    }
    writer.finish().map(drop)
}

/// A stream being generated.
#[derive(Debug)]
pub struct Auctions {
    profile: Profile,
    traffic: TrafficCurve,
    price_walk: PriceWalk,
    times: GeneratorChance,
    prices: GeneratorChance,
    left: u64,
    /// Share of the traffic still to come.
    unused: f64,
    start_ms: u64,
    duration_ms: u64,
}

impl Iterator for Auctions {
    type Item = StreamAuction;

    fn next(&mut self) -> Option<StreamAuction> {
        if self.left == 0 {
            return None;
        }
        // The minimum of n uniform draws is distributed as 1 - u^(1/n), and the next one as the
        // minimum of n - 1 in the rest: sorted draws without sorting (Bentley and Saxe, "Generating
        // Sorted Lists of Random Numbers").
        self.unused *= libm::exp(libm::log(self.times.positive()) / whole(self.left));
        self.left -= 1;
        let since_ms = self.traffic.when(1.0 - self.unused).min(self.duration_ms - 1);
        let (market_price, value) = self.price_and_value(since_ms);
        Some(StreamAuction { time_ms: self.start_ms + since_ms, market_price, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

impl Auctions {
    fn price_and_value(&mut self, since_ms: u64) -> (Cpm, Cpm) {
        let profile = &self.profile;
        let (of_price, other) = self.prices.normals();
        let of_value = profile.correlation * of_price
            + (1.0 - profile.correlation * profile.correlation).sqrt() * other;
        let done = whole(since_ms) / whole(self.duration_ms);
        let shift = if done >= profile.shock_at { profile.shock } else { 1.0 };
        let factor =
            libm::exp(libm::log(profile.drift) * done) * shift * self.price_walk.factor(since_ms);
        let price = profile.price_median * factor * libm::exp(profile.price_sigma * of_price);
        let value = match profile.values {
            Values::Fixed => profile.value_median,
            Values::LogNormal { sigma } => profile.value_median * libm::exp(sigma * of_value),
            Values::Uniform => profile.value_median * 2.0 * chance::uniform_of_normal(of_value),
            Values::Pareto { shape } => {
                // For the median m, the scale is m / 2^(1/shape).
                let above = 1.0 - chance::uniform_of_normal(of_value);
                profile.value_median * libm::exp(-libm::log(2.0 * above.max(1e-12)) / shape)
            }
            Values::Rare { share, times } => {
                let is_rare = chance::uniform_of_normal(of_value) >= 1.0 - share;
                let (noise, _) = self.prices.normals();
                let noise = libm::exp(0.25 * noise);
                profile.value_median * noise * if is_rare { times } else { 1.0 }
            }
        };
        (cpm(price), cpm(value))
    }
}

/// Currency units as a price, rounded down to the micro and capped at the highest price.
fn cpm(units: f64) -> Cpm {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and fractions of a micro are dropped on purpose"
    )]
    let micros = (units * 1e6) as u64;
    Cpm::new(micros).unwrap_or(Cpm::MAX)
}
