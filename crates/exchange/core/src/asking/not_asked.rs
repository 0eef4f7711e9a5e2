//! Why a DSP is not asked.

use strum::{FromRepr, IntoStaticStr, VariantArray};

use super::guard::GuardRefusal;

/// Why a DSP is not asked. Declaration order is precedence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum NotAsked {
    /// It does not buy from the publisher.
    Publisher = 1,
    /// It does not buy in the country, or not in the region.
    Country = 2,
    /// It does not buy on this type of device.
    Device = 3,
    /// It needs a user id, and the request has none.
    UserId = 4,
    /// The request is not in its sample.
    Sampling = 5,
    /// `wseat` and `bseat` exclude all its seats.
    Seats = 6,
    /// No impression is open to it with a format and size that it buys.
    Impressions = 7,
    /// The operator has paused it. From here on the [`guard`](crate::guard) decides.
    Paused = 8,
    /// It fails and is throttled.
    Breaker = 9,
    /// Its limit of calls per second is reached.
    Qps = 10,
    /// Its limit of calls in flight is reached.
    InFlight = 11,
}

units::labelled!(NotAsked);

impl From<GuardRefusal> for NotAsked {
    fn from(refusal: GuardRefusal) -> Self {
        match refusal {
            GuardRefusal::Paused => Self::Paused,
            GuardRefusal::Breaker => Self::Breaker,
            GuardRefusal::Qps => Self::Qps,
            GuardRefusal::InFlight => Self::InFlight,
        }
    }
}
