//! The named kinds of streams. It must not know how they are drawn.

use super::bounds::GenerateError;

/// The distribution of values around their median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// All equal.
    Fixed,
    /// Lognormal with this deviation: many small values and a long tail.
    LogNormal {
        /// Above 0, at most 3.
        sigma: f64,
    },
    /// Uniform from zero to twice the median.
    Uniform,
    /// A heavy tail: the share above x falls as x^-shape.
    Pareto {
        /// Above 1, at most 20; smaller is heavier.
        shape: f64,
    },
    /// Most around the median, few worth many times as much: retargeted users.
    Rare {
        /// The share of valuable ones, 0 to 1.
        share: f64,
        /// Their factor, 1 to 1000.
        times: f64,
    },
}

/// The shape of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Amplitude of traffic over the day: 0 is flat, 1 swings between zero and double the mean.
    pub day_depth: f64,
    /// Hour (UTC) of the highest traffic, 0 to 24.
    pub peak_hour: f64,
    /// Traffic of Saturdays and Sundays relative to other days, above 0, at most 10.
    pub weekend: f64,
    /// Number of bursts, at most 1000.
    pub bursts: u32,
    /// Mean length of a burst, as a share of the stream, at most a half.
    pub burst_length: f64,
    /// Traffic factor in a burst, 1 to 1000.
    pub burst_height: f64,
    /// Median initial price, in currency per 1000 impressions; above 0, at most 100,000.
    pub price_median: f64,
    /// Standard deviation of the logarithm of prices, 0 to 3.
    pub price_sigma: f64,
    /// Price factor at the end relative to the start, 0.01 to 100; growth is exponential.
    pub drift: f64,
    /// Price factor from `shock_at` on, 0.01 to 100.
    pub shock: f64,
    /// Start of the shock, as a share of the stream, 0 to 1.
    pub shock_at: f64,
    /// Hourly movement of the logarithm of prices, 0 to 2; it reverts within hours.
    pub hourly: f64,
    /// The same for every five minutes, 0 to 2.
    pub minutely: f64,
    /// Median value, in the unit of `price_median`.
    pub value_median: f64,
    /// Distribution of values.
    pub values: Values,
    /// Correlation of the draws behind value and price, -1 to 1.
    pub correlation: f64,
}

/// The base of the others: traffic by the day, lognormal prices and values, slightly correlated.
const DIURNAL: Profile = Profile {
    name: "diurnal",
    about: "traffic rises and falls with the day",
    day_depth: 0.7,
    peak_hour: 19.0,
    weekend: 1.0,
    bursts: 0,
    burst_length: 0.0,
    burst_height: 1.0,
    price_median: 1.0,
    price_sigma: 0.6,
    drift: 1.0,
    shock: 1.0,
    shock_at: 0.0,
    hourly: 0.0,
    minutely: 0.0,
    value_median: 2.0,
    values: Values::LogNormal { sigma: 0.8 },
    correlation: 0.3,
};

const FLAT: Profile = Profile {
    name: "flat",
    about: "the same traffic at any time; nothing changes",
    day_depth: 0.0,
    ..DIURNAL
};

/// All named profiles.
pub const PROFILES: &[Profile] = &[
    FLAT,
    DIURNAL,
    Profile {
        name: "bursty",
        about: "by the day, with 12 bursts of 4 times the traffic, about 15 minutes each in a day",
        bursts: 12,
        burst_length: 0.01,
        burst_height: 4.0,
        ..DIURNAL
    },
    Profile {
        name: "spikes",
        about: "by the day, with 12 bursts of 6 times the traffic, about 15 minutes each in a day",
        bursts: 12,
        burst_length: 0.01,
        burst_height: 6.0,
        ..DIURNAL
    },
    Profile {
        name: "drift-up",
        about: "by the day; prices rise steadily, by half from start to end",
        drift: 1.5,
        ..DIURNAL
    },
    Profile {
        name: "drift-down",
        about: "by the day; prices fall steadily, by a third from start to end",
        drift: 2.0 / 3.0,
        ..DIURNAL
    },
    Profile {
        name: "shock",
        about: "by the day; prices are half as high again from 60 % of the stream on",
        shock: 1.5,
        shock_at: 0.6,
        ..DIURNAL
    },
    Profile {
        name: "correlated",
        about: "by the day; what is worth more costs more: bargains are rare",
        correlation: 0.8,
        ..DIURNAL
    },
    Profile {
        name: "independent",
        about: "by the day; value says nothing of the price",
        correlation: 0.0,
        ..DIURNAL
    },
    Profile {
        name: "heavy-tail",
        about: "by the day; values have a heavy tail (Pareto, shape 2.5)",
        values: Values::Pareto { shape: 2.5 },
        ..DIURNAL
    },
    Profile {
        name: "uniform-value",
        about: "by the day; values lie evenly between nothing and twice their median",
        values: Values::Uniform,
        ..DIURNAL
    },
    Profile {
        name: "fixed-value",
        about: "by the day; every impression is worth the same, prices alone differ",
        values: Values::Fixed,
        ..DIURNAL
    },
    Profile {
        name: "retargeting",
        about: "by the day; one impression in twenty is worth ten times the others",
        values: Values::Rare { share: 0.05, times: 10.0 },
        ..DIURNAL
    },
    Profile {
        name: "night",
        about: "traffic comes nearly all between 20 and 4 o'clock, at prices that vary more",
        day_depth: 0.98,
        peak_hour: 0.0,
        price_sigma: 0.9,
        ..DIURNAL
    },
    Profile {
        name: "minutely",
        about: "by the day; prices move within minutes, by half and more",
        minutely: 0.5,
        ..DIURNAL
    },
    Profile {
        name: "hourly",
        about: "by the day; prices move from hour to hour, by a third",
        hourly: 0.35,
        ..DIURNAL
    },
    Profile {
        name: "market",
        about: "by the day; prices differ much, and move within minutes and from hour to hour",
        price_sigma: 1.0,
        values: Values::LogNormal { sigma: 0.7 },
        correlation: 0.1,
        hourly: 0.2,
        minutely: 0.3,
        ..DIURNAL
    },
    Profile {
        name: "dear-tail",
        about: "by the day; few impressions cost, and are worth, many times the others",
        price_sigma: 1.5,
        values: Values::LogNormal { sigma: 1.5 },
        correlation: 0.5,
        ..DIURNAL
    },
    Profile {
        name: "few-dear",
        about: "by the day; one impression in five hundred is worth a hundred times the others",
        values: Values::Rare { share: 0.002, times: 100.0 },
        correlation: 0.7,
        ..DIURNAL
    },
    Profile {
        name: "night-dear",
        about: "traffic comes at night, at prices that differ very much, and move from hour to hour",
        day_depth: 0.98,
        peak_hour: 0.0,
        price_sigma: 1.5,
        values: Values::LogNormal { sigma: 1.3 },
        correlation: 0.4,
        hourly: 0.35,
        ..DIURNAL
    },
];

/// Profiles that the targets of [`crate::quality`] cover. In the others prices move on their own or
/// few impressions are valuable: even in hindsight, even spend misses 0.95 of the optimum.
pub const STEADY: &[Profile] = PROFILES.split_at(14).0;

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile `{0}`: choose {names}", names = PROFILES.iter().map(|it| it.name).collect::<Vec<_>>().join(", "))]
pub struct NoProfile(String);

impl Profile {
    /// The profile of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The profile of a name from a command line.
    ///
    /// # Errors
    /// Lists the existing names.
    pub fn parse(name: &str) -> Result<Self, NoProfile> {
        Self::named(name).cloned().ok_or_else(|| NoProfile(name.escape_debug().to_string()))
    }

    /// Checks that every field is in its range; returns the first that is not.
    pub(super) fn check(&self) -> Result<(), GenerateError> {
        let (spread, within, range): (f64, _, _) = match self.values {
            Values::Fixed | Values::Uniform => (0.0, 0.0..=0.0, ""),
            Values::LogNormal { sigma } => (sigma, 1e-6..=3.0, "above 0, at most 3"),
            Values::Pareto { shape } => (shape, 1.000_001..=20.0, "above 1, at most 20"),
            Values::Rare { share, .. } => (share, 0.0..=1.0, "0 to 1"),
        };
        let times = if let Values::Rare { times, .. } = self.values { times } else { 1.0 };
        for (field, value, within, range) in [
            ("day_depth", self.day_depth, 0.0..=1.0, "0 to 1"),
            ("peak_hour", self.peak_hour, 0.0..=24.0, "0 to 24"),
            ("weekend", self.weekend, 1e-6..=10.0, "above 0, at most 10"),
            ("bursts", f64::from(self.bursts), 0.0..=1000.0, "0 to 1000"),
            ("burst_length", self.burst_length, 0.0..=0.5, "0 to 0.5"),
            ("burst_height", self.burst_height, 1.0..=1000.0, "1 to 1000"),
            ("price_median", self.price_median, 1e-6..=100_000.0, "above 0, at most 100000"),
            ("price_sigma", self.price_sigma, 0.0..=3.0, "0 to 3"),
            ("drift", self.drift, 0.01..=100.0, "0.01 to 100"),
            ("shock", self.shock, 0.01..=100.0, "0.01 to 100"),
            ("shock_at", self.shock_at, 0.0..=1.0, "0 to 1"),
            ("hourly", self.hourly, 0.0..=2.0, "0 to 2"),
            ("minutely", self.minutely, 0.0..=2.0, "0 to 2"),
            ("value_median", self.value_median, 1e-6..=100_000.0, "above 0, at most 100000"),
            ("values", spread, within, range),
            ("values (times)", times, 1.0..=1000.0, "1 to 1000"),
            ("correlation", self.correlation, -1.0..=1.0, "-1 to 1"),
        ] {
            // NaN is in no range.
            if !within.contains(&value) {
                return Err(GenerateError::Profile { field, value: value.to_string(), range });
            }
        }
        Ok(())
    }
}
