//! Kinds of records, by the number in a frame of the log.

/// The kind of a record, stored in its frame. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A change to the notices owed to DSPs, in the encoding of the exchange's delivery. It was 1
    /// before there were other kinds.
    Notice = 1,
    /// [`v1::Generation`](crate::v1::Generation).
    Generation = 2,
    /// [`v1::Auction`](crate::v1::Auction).
    Auction = 3,
    /// [`v1::Gap`](crate::v1::Gap).
    Gap = 4,
    /// [`v1::Watermark`](crate::v1::Watermark).
    Watermark = 5,
    /// [`v1::Settlements`](crate::v1::Settlements).
    Settlements = 6,
    /// [`v1::Publication`](crate::v1::Publication).
    Publication = 7,
    /// [`v1::Lot`](crate::v1::Lot).
    Lot = 8,
}

impl RecordKind {
    /// Every kind, by number.
    pub const ALL: [Self; 8] = [
        Self::Notice,
        Self::Generation,
        Self::Auction,
        Self::Gap,
        Self::Watermark,
        Self::Settlements,
        Self::Publication,
        Self::Lot,
    ];

    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// None if the number is unknown, for example of a later release.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The name that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Generation => "generation",
            Self::Auction => "auction",
            Self::Gap => "gap",
            Self::Watermark => "watermark",
            Self::Settlements => "settlements",
            Self::Publication => "publication",
            Self::Lot => "lot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files contain these numbers, so they never change.
    #[test]
    fn kinds_keep_their_numbers() {
        for (code, kind, label) in [
            (0, None, ""),
            (1, Some(RecordKind::Notice), "notice"),
            (2, Some(RecordKind::Generation), "generation"),
            (3, Some(RecordKind::Auction), "auction"),
            (4, Some(RecordKind::Gap), "gap"),
            (5, Some(RecordKind::Watermark), "watermark"),
            (6, Some(RecordKind::Settlements), "settlements"),
            (7, Some(RecordKind::Publication), "publication"),
            (8, Some(RecordKind::Lot), "lot"),
            (9, None, ""),
        ] {
            assert_eq!(RecordKind::from_code(code), kind, "{code}");
            assert_eq!(kind.map_or(code, RecordKind::code), code);
            assert_eq!(kind.map_or("", RecordKind::label), label);
        }
    }
}
