//! How far a subscriber has read its view.

use serde::{Deserialize, Serialize};

use super::position::FeedPosition;

/// What happens to a subscriber that reads more slowly than messages arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowPolicy {
    /// It gets every message, or is disconnected with the position from which to resume.
    #[default]
    Strict,
    /// It gets the latest message of each key, and the number of those it missed.
    Conflate,
}

/// A place in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedCursor {
    /// Number of the next entry of the view.
    pub(super) next: u64,
    /// Restarts of the view that it knows.
    pub(super) restarts: u32,
    /// Place of the last message that was taken, or where the subscription began.
    pub(super) after: FeedPosition,
}

impl FeedCursor {
    /// Place of the last message that was taken, or where the subscription began.
    pub const fn after(&self) -> FeedPosition {
        self.after
    }
}

/// Whether a cursor can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorState {
    /// It has read everything.
    AtEnd,
    /// There is more to read.
    Behind,
    /// The ring no longer has this many of the next messages: the subscriber was too slow.
    FellBehind {
        /// Messages of the view that it missed.
        missed: u64,
    },
    /// The shard missed a part of the feed: everything after [`FeedCursor::after`] must come from the
    /// log.
    Restarted,
}
