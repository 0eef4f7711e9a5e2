//! Sizes of banners.

use std::fmt;

use openrtb::Format;

/// Width and height in DIPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdSize {
    /// The width.
    pub w: u32,
    /// The height.
    pub h: u32,
}

impl AdSize {
    /// A size of `w` by `h`.
    pub const fn new(w: u32, h: u32) -> Self {
        Self { w, h }
    }

    /// None unless both are given.
    pub(crate) fn given(w: Option<u32>, h: Option<u32>) -> Option<Self> {
        w.zip(h).map(|(w, h)| Self { w, h })
    }

    /// None if the format is not of one size.
    pub(crate) fn of(format: &Format) -> Option<Self> {
        Self::given(format.w, format.h)
    }

    /// Whether it is `offered`; an interstitial's offered sizes are maxima.
    pub(crate) fn is_offered(self, offered: &Format, is_interstitial: bool) -> bool {
        match Self::of(offered) {
            Some(max) if is_interstitial => self.w <= max.w && self.h <= max.h,
            offered => offered == Some(self),
        }
    }
}

/// As `300x250`.
impl fmt::Display for AdSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.w, self.h)
    }
}
