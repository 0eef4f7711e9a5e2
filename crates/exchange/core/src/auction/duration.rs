//! Limits of a video or audio ad's duration.

use openrtb::TimedMedia;

/// `maxduration` plus `maxextended` (-1: unlimited), at most the pod. None if unlimited or 0.
pub(crate) fn seconds_max(media: &TimedMedia<'_>) -> Option<u32> {
    let max = media.maxduration.filter(|max| *max > 0);
    let max = max.and_then(|max| match media.maxextended.unwrap_or(0) {
        ..=-1 => None,
        more => Some(max.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))),
    });
    max.into_iter().chain(media.poddur.filter(|pod| *pod > 0)).min()
}

/// The duration assumed for an ad without one: the longest allowed, or `maxduration` if unlimited.
pub(crate) fn longest_seconds(media: &TimedMedia<'_>) -> Option<u32> {
    let maxduration = media.maxduration.filter(|max| *max > 0);
    let required = media.rqddurs.iter().flatten().copied().max();
    required.into_iter().chain(seconds_max(media)).min().or(maxduration)
}
