//! How much a shard may hold, and for how long.

use std::time::Duration;

use super::accounts::ShardCampaigns;
use super::lane::{ClassCapacity, PARTS};
use super::token::TokenOrigin;
use crate::messages::index;

/// Most classes of time to live.
pub const TTLS_MAX: usize = 16;

/// Most buckets of one class that are remembered. With the sixteenth of a time to live as their width
/// this bounds the late window: to 4,000 times a class's time to live, and more.
pub const BUCKETS_MAX: u32 = 65_536;

/// Most reservations and lines of one class.
const ROOM_MAX: u32 = 1 << 30;

/// What a shard is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Who makes its tokens: unique among all shards of all nodes, and new with every start.
    pub origin: TokenOrigin,
    /// How long reservations last, by class; 1 to 16 of them. They take memory of their own each.
    pub ttls: Vec<Duration>,
    /// How long after its expiry a reservation is remembered, so that a late win is told from one that
    /// is repeated.
    pub late_window: Duration,
    /// Most campaigns; their numbers are below it.
    pub slots_max: u32,
    /// Most campaigns' periods: each campaign that spends has one, and beside it those before until
    /// their last tokens are forgotten: with hours, and a horizon of more than one, two of them; and the
    /// next from shortly before it begins. What is granted and has no room strands: rather too many.
    pub books_max: u32,
    /// Most reservations of a class that are open, or were within the late window; rounded up to a power
    /// of two, at least 32. They take a quarter of a byte each.
    pub reservations_max: u32,
    /// Most sums of a class: campaigns that reserved in a bucket, over all buckets that are not over;
    /// rounded up to a power of two. At most one for each open reservation is needed.
    pub lines_max: u32,
}

/// Why options are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardOptionsError {
    /// None, or too many.
    #[error("`ttls` has {0} times to live: give 1 to {TTLS_MAX}")]
    Ttls(usize),
    /// Too short to be divided.
    #[error("`ttls` has {0:?}: give at least {PARTS} nanoseconds")]
    Ttl(Duration),
    /// Takes more than [`BUCKETS_MAX`] buckets.
    #[error("`late_window` {late_window:?} is too long beside a time to live of {ttl:?}: at most {} times that", BUCKETS_MAX / PARTS - 2)]
    LateWindow {
        /// As given.
        late_window: Duration,
        /// Beside which it is too long.
        ttl: Duration,
    },
    /// Nothing, or more than can be numbered.
    #[error("`{name}` is {value}: give 1 to {most}")]
    Room {
        /// Which.
        name: &'static str,
        /// As given.
        value: u32,
        /// At most.
        most: u32,
    },
}

impl ShardOptions {
    /// How much memory a shard takes at the most that is made with these, in bytes: all of it is set aside
    /// at the start, and most of it is not touched before it is needed.
    ///
    /// # Errors
    /// As [`super::ShardLedger::new`].
    pub fn bytes(&self) -> Result<usize, ShardOptionsError> {
        let rooms = self.rooms()?;
        let lanes: usize = rooms.iter().map(ClassCapacity::bytes).sum();
        Ok(lanes + ShardCampaigns::bytes(index(self.slots_max), index(self.books_max)))
    }

    /// For how long after it was made a reservation is remembered, at the most.
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
            ("reservations_max", self.reservations_max, ROOM_MAX),
            ("lines_max", self.lines_max, ROOM_MAX),
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
        // Buckets begin at least their width apart, and none is remembered for longer than this.
        let remembered = width.saturating_add(ttl).saturating_add(self.late_window);
        let buckets = remembered.as_nanos() / width.as_nanos() + 2;
        let buckets = u32::try_from(buckets).ok().filter(|buckets| *buckets <= BUCKETS_MAX);
        let late_window = self.late_window;
        let buckets = buckets.ok_or(ShardOptionsError::LateWindow { late_window, ttl })?;
        Ok(ClassCapacity {
            reservations: index(self.reservations_max.next_power_of_two().max(32)),
            lines: index(self.lines_max.next_power_of_two()),
            buckets: index(buckets),
            books: index(self.books_max),
        })
    }
}
