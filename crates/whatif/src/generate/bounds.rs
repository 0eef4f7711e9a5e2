//! Limits of a stream, and why one is refused.

/// A day in milliseconds.
pub const DAY_MS: u64 = 86_400_000;

/// Longest stream: memory holds its traffic by the minute.
pub const DURATION_MS_MAX: u64 = 366 * DAY_MS;

/// Most auctions of a stream.
pub const AUCTIONS_MAX: u64 = 1_000_000_000;

/// Why nothing is generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum GenerateError {
    /// The number of auctions is out of range.
    #[error("{0} auctions cannot be: ask for 1 to {AUCTIONS_MAX}")]
    Auctions(u64),
    /// The duration is out of range.
    #[error("a stream of {0} ms cannot be: it goes on for 1 to {DURATION_MS_MAX} ms, 366 days")]
    Duration(u64),
    /// The start is too late.
    #[error("a stream from {0} ms on would end after the year 9999: begin it earlier")]
    Start(u64),
    /// A field of the profile is out of range.
    #[error("the profile's {field} cannot be {value}: it is {range}")]
    Profile { field: &'static str, value: String, range: &'static str },
}
