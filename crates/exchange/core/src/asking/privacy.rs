//! Applies a request's privacy flags to what DSPs see. [`Masks`] defines what is masked; TCF, GPP
//! and US privacy strings are passed on unread.

use std::borrow::Cow;

use openrtb::{BidRequest, Editor};

use super::mask::Masks;
use crate::auction::Auction;

impl Auction<'_> {
    /// Whether the DSP at position `index` gets the limited request.
    pub fn is_limited(&self, index: usize) -> bool {
        self.market.dsps[index].privacy.limit(self.request)
    }
}

/// Adds the limited form of `user` and `device`, if a privacy flag is set.
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
