//! What a shard keeps of the feed, and how far each subscriber has read it.
//!
//! A message is encoded once and kept once per shard, in a *chunk* with others that came at the same
//! time. A *view* is what one subscription selects: the entries of its messages, shared by all who
//! subscribe to the same. A subscriber has a *cursor* into its view, and no queue.
//!
//! **Invariant:** between the place where a cursor begins and the place where it is, a subscriber
//! was given every message of its view exactly once, or is told that it fell behind.

mod batch;
mod cursor;
mod position;
mod ring;

pub use batch::{BatchEntry, FeedBatch, OpenedView, ViewId};
pub use cursor::{CursorState, FeedCursor, SlowPolicy};
pub use position::{FeedLane, FeedPosition, LANES, PART_LAST};
pub use ring::{Conflation, FeedRing, RingLimits, TakenMessages};
