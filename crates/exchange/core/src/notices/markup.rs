//! Our beacon in the markup of a banner, a video, an audio or a native ad. What it is a beacon of,
//! and what becomes of an ad that takes none, is not known here.
//!
//! What is added is text of its own at one place per ad: a bidder's markup is neither parsed into a
//! tree nor written anew, for a tree forgets what browsers and players forgive.

mod html;
mod vast;

use openrtb::codes::MediaType;
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

/// `markup` with `beacon` called when the ad is shown. `beacon` is a URL of letters, digits and
/// `-._~:/`, which need no escape in any of the formats. It grows by at most [`vast::ADS_MAX`]
/// beacons and some tags.
pub(crate) fn add_beacon(
    format: MediaType,
    markup: &str,
    beacon: &str,
) -> Result<String, Unmarked> {
    if markup.trim_ascii().is_empty() {
        return Err(Unmarked::Empty);
    }
    match format {
        MediaType::Banner => Ok(html::add_pixel(markup, beacon)),
        MediaType::Video | MediaType::Audio => vast::add_impression(markup, beacon),
        MediaType::Native => openrtb::add_tracker(markup, beacon).ok_or(Unmarked::NotNative),
    }
}

#[cfg(test)]
mod tests;
