//! Why an ad carries no beacon.

use strum::{IntoStaticStr, VariantArray};

/// Why markup has no beacon. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Unmarked {
    /// There is no markup in the bid: the ad is preloaded.
    Absent,
    /// The JSON string that it stands in cannot be read.
    Unreadable,
    /// Nothing but white space.
    Empty,
    /// No VAST or DAAST, or not well-formed.
    NotVast,
    /// VAST without an ad: the player shows nothing.
    NoAd,
    /// VAST with more ads than any pod.
    TooManyAds,
    /// No native markup, or not as the standard has it.
    NotNative,
    /// The beacon could not be sealed.
    Unsealed,
    /// The impression is secure, and the beacon's URL is not HTTPS. Such a sale is billed at once;
    /// all others without a beacon never are.
    Insecure,
}

units::labelled!(Unmarked);
