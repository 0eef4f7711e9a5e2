//! Streams of auctions made from a seed: traffic by the time of day, bursts, prices that drift,
//! values of several shapes, and how far value and price go together.
//!
//! The same options give the same bytes on every machine: chance is `SplitMix64`, and what is
//! computed in floating point uses the four operations, square roots and `libm` alone. Nothing but
//! the traffic's curve is held, whatever the number of auctions. Knows nothing of budgets.

mod bounds;
mod chance;
pub mod profile;
#[cfg(test)]
mod tests;
mod traffic;
mod wander;

use std::io::{self, Write};

use units::Cpm;

pub use self::bounds::{AUCTIONS_MAX, DAY_MS, DURATION_MS_MAX, GenerateError};
use self::chance::{GeneratorChance, whole};
pub use self::profile::Profile;
use self::profile::Values;
use self::traffic::TrafficCurve;
use self::wander::Wander;
use crate::stream::{StreamAuction, StreamWriter, TIME_MS_MAX};

/// Monday, 5 January 2026, 00:00 UTC.
pub const START_MS: u64 = 1_767_571_200_000;

/// What to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// How traffic, prices and values go; a profile by name, or one with fields changed.
    pub profile: Profile,
    /// How many auctions there are, exactly; at most [`AUCTIONS_MAX`].
    pub auctions: u64,
    /// Where chance begins: another seed, another stream of the same sort.
    pub seed: u64,
    /// When the stream begins, in milliseconds since 1970. Days begin at midnight UTC.
    pub start_ms: u64,
    /// How long it goes on, in milliseconds; at most [`DURATION_MS_MAX`].
    pub duration_ms: u64,
}

impl GenerateOptions {
    /// 200,000 auctions in a day of `profile`, of seed 1.
    pub const fn new(profile: Profile) -> Self {
        Self { profile, auctions: 200_000, seed: 1, start_ms: START_MS, duration_ms: DAY_MS }
    }
}

/// The auctions that `options` ask for, in order, made as they are asked for.
///
/// # Errors
///
/// When an option is out of its range.
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
    // Each has a chance of its own, so that one profile's prices stand under another's traffic.
    let [bursts, times, prices] = [chance.split(), chance.split(), chance.split()];
    let moves = chance.split();
    Ok(Auctions {
        profile: profile.clone(),
        traffic: TrafficCurve::new(profile, start_ms, duration_ms, bursts),
        wander: Wander::new(profile, duration_ms, moves),
        times,
        prices,
        left: auctions,
        unused: 1.0,
        start_ms,
        duration_ms,
    })
}

/// Writes the stream that `options` ask for to `out`, which should be buffered.
///
/// # Errors
///
/// [`GenerateError`] as the content of an [`io::Error`] of kind `InvalidInput`, or that of writing.
pub fn write(options: &GenerateOptions, out: impl Write) -> io::Result<()> {
    let auctions =
        auctions(options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut writer = StreamWriter::new(out)?;
    for auction in auctions {
        writer.write(&auction)?;
    }
    writer.finish().map(drop)
}

/// A stream on its way.
#[derive(Debug)]
pub struct Auctions {
    profile: Profile,
    traffic: TrafficCurve,
    wander: Wander,
    times: GeneratorChance,
    prices: GeneratorChance,
    left: u64,
    /// Share of the traffic that is still to come.
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
        // The least of n uniform draws is as 1 - u^(1/n), the next the least of n - 1 in what is left:
        // sorted draws without a sort (Bentley and Saxe, "Generating Sorted Lists of Random Numbers").
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
            libm::exp(libm::log(profile.drift) * done) * shift * self.wander.factor(since_ms);
        let price = profile.price_median * factor * libm::exp(profile.price_sigma * of_price);
        let value = match profile.values {
            Values::Fixed => profile.value_median,
            Values::LogNormal { sigma } => profile.value_median * libm::exp(sigma * of_value),
            Values::Uniform => profile.value_median * 2.0 * chance::uniform_of_normal(of_value),
            Values::Pareto { shape } => {
                // Of median m: the scale is m / 2^(1/shape).
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

/// Units of currency to a price, to the micro, rounded down; what is beyond any price is the
/// highest.
fn cpm(units: f64) -> Cpm {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and fractions of a micro are dropped on purpose"
    )]
    let micros = (units * 1e6) as u64;
    Cpm::new(micros).unwrap_or(Cpm::MAX)
}
