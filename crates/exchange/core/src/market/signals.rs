//! Device signals that limit what a DSP sees of its user.

use openrtb::BidRequest;

/// Device signals that limit what a DSP sees. COPPA always does.
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
    /// Whether a DSP limited by these signals gets a limited `request`.
    pub fn limit(self, request: &BidRequest<'_>) -> bool {
        request.is_coppa() || (self.lmt && request.is_lmt()) || (self.dnt && request.is_dnt())
    }
}
