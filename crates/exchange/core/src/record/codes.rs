//! The numbers of enumerations in records, as in `proto/`.

use events::{MalformedRecord, Varint};

use super::outcome::{AuctionEnding, CallOutcome};
use crate::asking::not_asked::NotAsked;
use crate::auction::enriched::EnrichmentOutcome;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::judging::judge::ResponseFate;
use crate::market::{BidsReturned, NoticeMode};

pub(super) trait SchemaCode: Copy {
    /// The number, which never changes and is never 0.
    fn number(self) -> u64;

    /// None if no variant has this number.
    fn of_number(number: u64) -> Option<Self>;

    fn read(field: Varint) -> Result<Self, MalformedRecord> {
        field.known(Self::of_number)
    }
}

macro_rules! coded {
    ($($name:ty),*) => {$(
        impl SchemaCode for $name {
            #[inline]
            fn number(self) -> u64 {
                self as u64
            }

            #[inline]
            fn of_number(number: u64) -> Option<Self> {
                u8::try_from(number).ok().and_then(Self::from_repr)
            }
        }
    )*};
}

coded!(
    AuctionType,
    BidsReturned,
    CallOutcome,
    AuctionEnding,
    EnrichmentOutcome,
    Fate,
    NotAsked,
    NoticeMode,
    ResponseFate
);

#[cfg(test)]
mod tests;
