//! Our beacon in the markup of a banner, a video, an audio or a native ad. What it is a beacon of,
//! and what becomes of an ad that takes none, is not known here.
//!
//! What is added is text of its own at one place per ad: a bidder's markup is neither parsed into a
//! tree nor written anew, for a tree forgets what browsers and players forgive.

mod html;
pub(crate) mod unmarked;
mod vast;

use openrtb::codes::MediaType;

use unmarked::Unmarked;

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
