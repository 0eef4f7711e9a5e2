//! A shard's capacity and time limits.

use std::time::Duration;

use super::accounts::ShardCampaigns;
use super::lane::{ClassCapacity, PARTS};
use super::token::TokenOrigin;
use crate::messages::index;

/// Maximum number of classes of time to live.
pub const TTLS_MAX: usize = 16;

/// Maximum number of remembered buckets per class. A bucket is a sixteenth of the time to live, so
/// the late window is at most about 4,000 times the time to live.
pub const BUCKETS_MAX: u32 = 65_536;

/// Maximum number of sums of a class.
const LINES_MAX: u32 = 1 << 30;

/// The options of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// The origin of its tokens: unique among all shards of all nodes, and new with every start.
    pub origin: TokenOrigin,
    /// Times to live of reservations, by class; 1 to 16. Each class has its own memory.
    pub ttls: Vec<Duration>,
    /// How long after expiry a late win is distinguished from a repeated one.
    pub late_window: Duration,
    /// Maximum number of campaigns; their numbers are below it.
    pub slots_max: u32,
    /// Maximum number of books: one per spending campaign, plus earlier periods until their last
    /// tokens are forgotten (two, with a horizon above an hour), plus the next period shortly
    /// before it begins. Grants without room strand, so choose generously.
    pub books_max: u32,
    /// Maximum number of reservations per class, open or within the late window; rounded up to a
    /// power of two, at least 32. Each takes a quarter of a byte.
    pub reservations_max: u32,
    /// Maximum number of sums per class: campaigns with reservations per bucket, over all open
    /// buckets; rounded up to a power of two. One per open reservation always suffices.
    pub lines_max: u32,
}

/// Why options are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ShardOptionsError {
    /// None, or too many.
    #[error("`ttls` has {0} times to live: give 1 to {TTLS_MAX}")]
    Ttls(usize),
    /// Too short to divide.
    #[error("`ttls` has {0:?}: give at least {PARTS} nanoseconds")]
    Ttl(Duration),
    /// Needs more than [`BUCKETS_MAX`] buckets.
    #[error("`late_window` {late_window:?} is too long beside a time to live of {ttl:?}: at most {} times that", BUCKETS_MAX / PARTS - 2)]
    LateWindow { late_window: Duration, ttl: Duration },
    /// Zero, or above the limit.
    #[error("`{name}` is {value}: give 1 to {most}")]
    Room { name: &'static str, value: u32, most: u32 },
}

fn index64(number: u64) -> usize {
    usize::try_from(number).expect("addresses have 64 bits")
}

impl ShardOptions {
    /// Maximum memory of a shard with these options, in bytes. It is reserved at the start, and
    /// mostly not touched until needed.
    ///
    /// # Errors
    /// As [`super::ShardLedger::new`].
    pub fn bytes(&self) -> Result<usize, ShardOptionsError> {
        let rooms = self.rooms()?;
        let lanes: usize = rooms.iter().map(ClassCapacity::bytes).sum();
        Ok(lanes + ShardCampaigns::bytes(index(self.slots_max), index(self.books_max)))
    }

    /// Maximum time that a reservation is remembered after it is made.
    pub fn horizon(&self) -> Duration {
        let longest = self.ttls.iter().max().copied().unwrap_or_default();
        longest.saturating_add(longest / PARTS).saturating_add(self.late_window)
    }

    pub(super) fn rooms(&self) -> Result<Vec<ClassCapacity>, ShardOptionsError> {
        if self.ttls.is_empty() || self.ttls.len() > TTLS_MAX {
            return Err(ShardOptionsError::Ttls(self.ttls.len()));
        }
        for (name, value, most) in [
            ("slots_max", self.slots_max, u32::MAX - 1),
            ("books_max", self.books_max, u32::MAX - 1),
            ("reservations_max", self.reservations_max, u32::MAX),
            ("lines_max", self.lines_max, LINES_MAX),
        ] {
            if value == 0 || value > most {
                return Err(ShardOptionsError::Room { name, value, most });
            }
        }
        self.ttls.iter().map(|ttl| self.room(*ttl)).collect()
    }

    fn room(&self, ttl: Duration) -> Result<ClassCapacity, ShardOptionsError> {
        let width = ttl / PARTS;
        if width.is_zero() {
            return Err(ShardOptionsError::Ttl(ttl));
        }
        // Buckets begin at least their width apart, and none is remembered longer than this.
        let remembered = width.saturating_add(ttl).saturating_add(self.late_window);
        let buckets = remembered.as_nanos() / width.as_nanos() + 2;
        let buckets = u32::try_from(buckets).ok().filter(|buckets| *buckets <= BUCKETS_MAX);
        let late_window = self.late_window;
        let buckets = buckets.ok_or(ShardOptionsError::LateWindow { late_window, ttl })?;
        Ok(ClassCapacity {
            reservations: index64(u64::from(self.reservations_max).next_power_of_two().max(32)),
            lines: index(self.lines_max.next_power_of_two()),
            buckets: index(buckets),
            books: index(self.books_max),
        })
    }
}
