//! Time as the rules see it: an argument, never read from a clock.

use std::time::Duration;

/// Nanoseconds since an origin that the caller chose, the same for every tick it compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Later by `duration`; time ends after 584 years.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(duration)))
    }

    /// Earlier by `duration`, at the earliest the origin.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(duration)))
    }

    /// From `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_saturate_at_both_ends() {
        let tick = Tick::from_nanos(5);
        assert_eq!(tick.after(Duration::from_nanos(3)), Tick::from_nanos(8));
        assert_eq!(tick.before(Duration::from_secs(1)), Tick::ZERO);
        assert_eq!(tick.since(Tick::from_nanos(9)), Duration::ZERO);
        assert_eq!(Tick::from_nanos(u64::MAX).after(Duration::MAX), Tick::from_nanos(u64::MAX));
    }
}
