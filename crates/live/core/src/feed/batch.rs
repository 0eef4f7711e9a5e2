//! What a shard gets at once: messages that came together, and the views that they belong to.

use std::ops::Range;

use super::position::{FeedPosition, LANES};

/// Names a view of one shard; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Messages for one shard, and how far they bring it.
#[derive(Clone, Debug, Default)]
pub struct FeedBatch {
    /// The messages, one behind the other.
    pub bytes: Vec<u8>,
    /// Which views have which of them, in the order of the log.
    pub entries: Vec<BatchEntry>,
    /// Views that are complete from now on.
    pub opened: Vec<OpenedView>,
    /// How far each lane had been read before this batch.
    pub from: [FeedPosition; LANES],
    /// How far each lane has been read: a message that is not here does not exist.
    pub reached: [FeedPosition; LANES],
    /// Batches before this one were dropped, because the shard did not take them.
    pub is_restart: bool,
}

/// A message of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// The view.
    pub view: ViewId,
    /// Place of the message in [`FeedBatch::bytes`].
    pub range: Range<u32>,
    /// Place of its record in the log.
    pub position: FeedPosition,
    /// Messages with the same key replace each other for subscribers that conflate.
    pub key: u64,
}

/// A view that has every message behind `since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedView {
    /// The view.
    pub view: ViewId,
    /// The last record before its first message.
    pub since: FeedPosition,
}
