//! What an impression's player supports: durations, protocols and API frameworks, where given.

use openrtb::codes::MediaType;
use openrtb::{Bid, Imp};

use crate::auction::duration::seconds_max;
use crate::auction::fate::Fate;

#[derive(Clone, Copy, Debug, Default)]
struct Playback<'i> {
    protocols: Option<&'i [u32]>,
    api: Option<&'i [u32]>,
    seconds_min: Option<u32>,
    seconds_max: Option<u32>,
    /// The only durations allowed, if any.
    seconds_required: &'i [u32],
}

impl<'i> Playback<'i> {
    fn of(imp: &'i Imp<'_>, format: MediaType) -> Self {
        if let Some(media) = imp.timed_media(format) {
            return Self {
                protocols: media.protocols.as_deref(),
                api: media.api.as_deref(),
                seconds_min: media.minduration,
                seconds_max: seconds_max(media),
                seconds_required: media.rqddurs.as_deref().unwrap_or_default(),
            };
        }
        let api = match format {
            MediaType::Banner => imp.banner.as_ref().and_then(|banner| banner.api.as_deref()),
            MediaType::Native => imp.native.as_ref().and_then(|native| native.api.as_deref()),
            MediaType::Video | MediaType::Audio => None,
        };
        Self { api, ..Self::default() }
    }

    /// Whether an ad of this duration may be played; 0 means the bid gives none.
    fn allows_seconds(&self, seconds: u32) -> bool {
        let is_required =
            self.seconds_required.is_empty() || self.seconds_required.contains(&seconds);
        seconds == 0
            || (is_required
                && self.seconds_min.is_none_or(|min| min <= seconds)
                && self.seconds_max.is_none_or(|max| seconds <= max))
    }
}

pub(crate) fn allows_duration(imp: &Imp<'_>, format: MediaType, seconds: Option<u32>) -> bool {
    seconds.is_none_or(|seconds| Playback::of(imp, format).allows_seconds(seconds))
}

pub(crate) fn check_playback(imp: &Imp<'_>, format: MediaType, bid: &Bid<'_>) -> Result<(), Fate> {
    let playback = Playback::of(imp, format);
    let lists = |list: Option<&[u32]>, code: u32| {
        list.is_none_or(|list| list.is_empty() || list.contains(&code))
    };
    if bid.protocol.is_some_and(|protocol| !lists(playback.protocols, protocol)) {
        return Err(Fate::Protocol);
    }
    // Markup that can use several frameworks needs one of them.
    let apis = bid.apis.iter().flatten().copied().chain(bid.api);
    let mut apis = apis.filter(|api| *api > 0).peekable();
    if apis.peek().is_some() && !apis.any(|api| lists(playback.api, api)) {
        return Err(Fate::Api);
    }
    if bid.dur.is_some_and(|seconds| !playback.allows_seconds(seconds)) {
        return Err(Fate::Duration);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
