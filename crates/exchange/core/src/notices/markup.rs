//! Our beacon in the markup of banners, video, audio and native ads. Text is inserted at one place
//! per ad; markup is not parsed into a tree and rewritten, which would lose what browsers and
//! players tolerate. Knows no kinds of beacons.

mod html;
pub(crate) mod no_beacon;
mod vast;

use openrtb::codes::MediaType;

use no_beacon::NoBeacon;

/// `markup` with `beacon` called when the ad is shown. `beacon` is a URL of letters, digits and
/// `-._~:/`, which need no escape. Adds at most [`vast::ADS_MAX`] beacons and some tags.
pub(crate) fn add_beacon(
    format: MediaType,
    markup: &str,
    beacon: &str,
) -> Result<String, NoBeacon> {
    if markup.trim_ascii().is_empty() {
        return Err(NoBeacon::Empty);
    }
    match format {
        MediaType::Banner => Ok(html::add_pixel(markup, beacon)),
        MediaType::Video | MediaType::Audio => vast::add_impression(markup, beacon),
        MediaType::Native => openrtb::add_tracker(markup, beacon).ok_or(NoBeacon::NotNative),
    }
}

#[cfg(test)]
mod tests;
