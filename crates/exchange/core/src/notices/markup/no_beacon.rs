//! Why an ad carries no beacon.

use strum::{IntoStaticStr, VariantArray};

/// Why markup has no beacon. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum NoBeacon {
    /// The bid has no markup: the ad is preloaded.
    Absent,
    /// The markup's JSON string cannot be decoded.
    Unreadable,
    /// Only white space.
    Empty,
    /// Not well-formed VAST or DAAST.
    NotVast,
    /// VAST without an ad: the player shows nothing.
    NoAd,
    /// VAST with more ads than any pod.
    TooManyAds,
    /// Not valid native markup.
    NotNative,
    /// The beacon could not be sealed.
    Unsealed,
    /// The impression is secure, and our URL is not HTTPS. Such a sale is billed at once, others
    /// never.
    Insecure,
}

units::labelled!(NoBeacon);
