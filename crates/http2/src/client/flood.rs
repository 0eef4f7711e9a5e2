//! Bounds what a server makes us do without answering: floods of SETTINGS, PING, CONTINUATION and
//! the like.

use crate::error::{Http2Error, Http2ErrorCode};

/// Frames that a connection may receive without a request.
const FRAMES_MAX: u32 = 2_000;
/// Frames that each request allows besides those of its response.
const FRAMES_PER_REQUEST: u32 = 8;

/// Frames that the server may still send.
#[derive(Debug)]
pub(super) struct FrameAllowance(u32);

impl Default for FrameAllowance {
    fn default() -> Self {
        Self(FRAMES_MAX)
    }
}

impl FrameAllowance {
    /// A request was sent.
    pub(super) fn earn(&mut self) {
        self.0 = (self.0 + FRAMES_PER_REQUEST).min(FRAMES_MAX);
    }

    /// A frame arrived that brings no response forward.
    pub(super) fn spend(&mut self) -> Result<(), Http2Error> {
        let code = Http2ErrorCode::ENHANCE_YOUR_CALM;
        let flood = Http2Error::new(code, "the server floods the connection with frames");
        self.0 = self.0.checked_sub(1).ok_or(flood)?;
        Ok(())
    }
}
