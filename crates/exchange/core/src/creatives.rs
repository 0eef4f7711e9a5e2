//! Checks of creatives, from the bid and its markup.

pub(crate) mod format;
pub(crate) mod html;
pub(crate) mod macros;
pub(crate) mod mixed_content;
pub(crate) mod playback;
pub(crate) mod rules;
pub(crate) mod win_notice;
