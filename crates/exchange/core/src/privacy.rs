//! What a request's privacy flags take away from what DSPs see of it. What exactly is masked is
//! [`Masks`]'; TCF, GPP and US privacy strings are passed on and not read.

use std::borrow::Cow;

use openrtb::{BidRequest, Editor};

use crate::Auction;
use crate::record::Masks;

/// Which of a device's signals limit what a DSP sees. COPPA always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingSignals {
    /// `device.lmt`: limit ad tracking.
    pub lmt: bool,
    /// `device.dnt`: do not track.
    pub dnt: bool,
}

impl Default for TrackingSignals {
    fn default() -> Self {
        Self { lmt: true, dnt: false }
    }
}

impl TrackingSignals {
    /// Whether a DSP that these limit sees `request` limited.
    pub fn limit(self, request: &BidRequest<'_>) -> bool {
        request.is_coppa() || (self.lmt && request.is_lmt()) || (self.dnt && request.is_dnt())
    }
}

impl Auction<'_> {
    /// Whether the DSP at position `index` sees the request limited.
    pub fn is_limited(&self, index: usize) -> bool {
        self.market.dsps[index].privacy.limit(self.request)
    }
}

/// Adds the limited form of `user` and `device` for DSPs that see the request limited. Does nothing
/// unless a flag is set.
pub(crate) fn limit(editor: &mut Editor<'_>, request: &BidRequest<'_>) {
    let masks = match request {
        request if request.is_coppa() => Masks::COPPA,
        request if request.is_lmt() || request.is_dnt() => Masks::LIMITED,
        _ => return,
    };
    editor.limit("user", |raw| masks.user(raw).map(Cow::into_owned));
    editor.limit("device", |raw| masks.device(raw).map(Cow::into_owned));
}

#[cfg(test)]
mod tests;
