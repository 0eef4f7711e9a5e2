//! How long a video or audio ad may be, as the impression says.

use openrtb::TimedMedia;

/// The longest ad: `maxduration` and what it may be extended by (`maxextended`, where -1 is without
/// end), and never longer than the pod. `None` if it may have any length; 0 is no limit.
pub(crate) fn seconds_max(media: &TimedMedia<'_>) -> Option<u32> {
    let max = media.maxduration.filter(|max| *max > 0);
    let max = max.and_then(|max| match media.maxextended.unwrap_or(0) {
        ..=-1 => None,
        more => Some(max.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))),
    });
    max.into_iter().chain(media.poddur.filter(|pod| *pod > 0)).min()
}

/// The seconds that an ad without a duration counts as: those of the longest ad that may be played.
/// Where any length may be, they are `maxduration`, the longest that the impression names.
pub(crate) fn untold_seconds(media: &TimedMedia<'_>) -> Option<u32> {
    let maxduration = media.maxduration.filter(|max| *max > 0);
    let required = media.rqddurs.iter().flatten().copied().max();
    required.into_iter().chain(seconds_max(media)).min().or(maxduration)
}
