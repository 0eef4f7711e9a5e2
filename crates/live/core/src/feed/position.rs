//! Places in the log, by which subscribers say what they have read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of lanes.
pub const LANES: usize = 2;

/// The part of a position that follows every message of its record.
pub const PART_LAST: u16 = u16::MAX;

/// The lane of the log that has the records of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedLane {
    /// Auctions, and what clients publish. Records that the log could not take are told as gaps.
    Firehose,
    /// Records that are never lost: lots and configurations.
    Durable,
}

impl FeedLane {
    /// Both lanes, by [`Self::index`].
    pub const ALL: [Self; LANES] = [Self::Firehose, Self::Durable];

    /// Position in arrays by lane.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Place of a message in a lane. Order is the order of the log: a later epoch is later, whatever its
/// sequences, because a failed commit uses sequences again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct FeedPosition {
    /// The log's epoch.
    pub epoch: u64,
    /// The record's number in the lane.
    pub sequence: u64,
    /// Number of the message among those of its record and topic, from 0.
    #[serde(default = "part_last", skip_serializing_if = "is_part_last")]
    pub part: u16,
}

const fn part_last() -> u16 {
    PART_LAST
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_part_last(part: &u16) -> bool {
    *part == PART_LAST
}

impl FeedPosition {
    /// Behind all messages of a record.
    pub const fn behind(epoch: u64, sequence: u64) -> Self {
        Self { epoch, sequence, part: PART_LAST }
    }
}

impl fmt::Display for FeedPosition {
    /// `epoch-sequence-part`, without the part behind the last message of a record.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, sequence, part } = self;
        write!(f, "{epoch}-{sequence}")?;
        if *part == PART_LAST { Ok(()) } else { write!(f, "-{part}") }
    }
}

/// Why a text is no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is `epoch-sequence`, with `-part` where a record has several messages")]
pub struct FeedPositionError;

impl FromStr for FeedPosition {
    type Err = FeedPositionError;

    fn from_str(text: &str) -> Result<Self, FeedPositionError> {
        let mut numbers = text.split('-');
        let mut next = || numbers.next().filter(|number| is_digits(number));
        let epoch = next().and_then(|number| number.parse().ok()).ok_or(FeedPositionError)?;
        let sequence = next().and_then(|number| number.parse().ok()).ok_or(FeedPositionError)?;
        let part = match numbers.next() {
            None => PART_LAST,
            Some(part) if is_digits(part) => part.parse().map_err(|_| FeedPositionError)?,
            Some(_) => return Err(FeedPositionError),
        };
        if numbers.next().is_some() {
            return Err(FeedPositionError);
        }
        Ok(Self { epoch, sequence, part })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
