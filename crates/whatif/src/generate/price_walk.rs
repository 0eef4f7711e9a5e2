//! Random movement of prices, by the hour and by minutes. It must not know auctions.

use super::chance::{GeneratorChance, whole};
use super::profile::Profile;

const HOUR_MS: u64 = 3_600_000;
const MINUTES_MS: u64 = 300_000;

/// Persistence of a level after an hour, and after five minutes.
const HOUR_KEEPS: f64 = 0.85;
const MINUTES_KEEP: f64 = 0.8;

/// Additions to the logarithm of prices over the stream.
#[derive(Debug)]
pub(super) struct PriceWalk {
    /// At the end of each hour, linear between.
    hours: Vec<f64>,
    minutes: Vec<f64>,
}

impl PriceWalk {
    pub(super) fn new(profile: &Profile, duration_ms: u64, mut chance: GeneratorChance) -> Self {
        let mut walk = |step_ms: u64, keeps: f64, by: f64| {
            // Without movement, keep no levels.
            let steps = if by > 0.0 { duration_ms / step_ms + 2 } else { 0 };
            let mut level = 0.0;
            let levels = (0..steps).map(|_| {
                level = keeps * level + by * chance.normals().0;
                level
            });
            levels.collect()
        };
        let minutely = profile.minutely * (1.0 - MINUTES_KEEP * MINUTES_KEEP).sqrt();
        Self {
            hours: walk(HOUR_MS, HOUR_KEEPS, profile.hourly),
            minutes: walk(MINUTES_MS, MINUTES_KEEP, minutely),
        }
    }

    /// The factor of prices at a time since the start of the stream.
    pub(super) fn factor(&self, since_ms: u64) -> f64 {
        let level = |levels: &[f64], at: u64| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            levels.get(at).or(levels.last()).copied().unwrap_or(0.0)
        };
        let (hour, within) = (since_ms / HOUR_MS, whole(since_ms % HOUR_MS) / whole(HOUR_MS));
        let (from, to) = (level(&self.hours, hour), level(&self.hours, hour + 1));
        let minutes = level(&self.minutes, since_ms / MINUTES_MS);
        libm::exp(from + (to - from) * within + minutes)
    }
}
