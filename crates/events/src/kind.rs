//! Which kinds of records there are, by the number that a frame of the log carries.

/// What a record is: the kind of its frame. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A change to the notices owed to DSPs, in the bytes of the exchange's own delivery. The log of
    /// notices has had it as 1 since before there were others.
    Notice = 1,
    /// [`v1::Generation`](crate::v1::Generation).
    Generation = 2,
    /// [`v1::Auction`](crate::v1::Auction).
    Auction = 3,
    /// [`v1::Gap`](crate::v1::Gap).
    Gap = 4,
    /// [`v1::Watermark`](crate::v1::Watermark).
    Watermark = 5,
}

impl Kind {
    /// Every kind, by number.
    pub const ALL: [Self; 5] =
        [Self::Notice, Self::Generation, Self::Auction, Self::Gap, Self::Watermark];

    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// `None` of a number that a later release has given, or nobody.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// What people call it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Generation => "generation",
            Self::Auction => "auction",
            Self::Gap => "gap",
            Self::Watermark => "watermark",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These numbers stand in files: they never change.
    #[test]
    fn kinds_keep_their_numbers() {
        for (code, kind, label) in [
            (0, None, ""),
            (1, Some(Kind::Notice), "notice"),
            (2, Some(Kind::Generation), "generation"),
            (3, Some(Kind::Auction), "auction"),
            (4, Some(Kind::Gap), "gap"),
            (5, Some(Kind::Watermark), "watermark"),
            (6, None, ""),
        ] {
            assert_eq!(Kind::from_code(code), kind, "{code}");
            assert_eq!(kind.map_or(code, Kind::code), code);
            assert_eq!(kind.map_or("", Kind::label), label);
        }
    }
}
