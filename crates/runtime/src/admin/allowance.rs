//! A rate limit on operators' changes. It must not know what is changed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::reply::{ErrorCode, Reply};
use crate::config::{Section, ms, secs};

/// A rate limit on changes, each of which reads files or writes to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLimits {
    /// Most changes at once after a pause.
    pub burst: u32,
    /// Time until one more is allowed.
    pub interval: Duration,
}

impl ChangeLimits {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self {
            burst: s.integer(
                "changes_burst",
                100,
                1..=10_000_u32,
                "Maximum burst of changes through the API: reloads, and changes to accounts and \
                 campaigns. Further changes are rejected with 429.",
            ),
            interval: s.duration(
                "change_interval",
                "100ms",
                ms(1)..=secs(3600),
                "Time after which one more change is allowed again, up to `changes_burst`.",
            ),
        }
    }
}

/// A rate limit on changes. Clones share it.
#[derive(Clone, Debug)]
pub struct ChangeAllowance {
    limits: ChangeLimits,
    bucket: Arc<Mutex<ChangeBucket>>,
}

impl ChangeAllowance {
    /// A limiter with its full burst available.
    pub fn new(limits: ChangeLimits) -> Self {
        let bucket = ChangeBucket { left: limits.burst, filled_at: Instant::now() };
        Self { limits, bucket: Arc::new(Mutex::new(bucket)) }
    }

    /// Takes one change. If none is left, returns the response, 429.
    pub(super) fn take(&self) -> Result<(), Reply> {
        let mut bucket = self.bucket.lock().expect("nothing panics while it counts");
        if bucket.take(&self.limits, Instant::now()) {
            return Ok(());
        }
        drop(bucket);
        let message = "changes are asked for more often than `admin.changes_burst` and \
                       `admin.change_interval` allow: try again later";
        let interval = self.limits.interval;
        let seconds = interval.as_secs() + u64::from(interval.subsec_nanos() > 0);
        Err(Reply::error(ErrorCode::TooManyRequests, message).with_retry_after(seconds))
    }
}

#[derive(Debug)]
struct ChangeBucket {
    left: u32,
    filled_at: Instant,
}

impl ChangeBucket {
    fn take(&mut self, limits: &ChangeLimits, now: Instant) -> bool {
        while self.left < limits.burst && self.filled_at + limits.interval <= now {
            self.left += 1;
            self.filled_at += limits.interval;
        }
        if self.left == limits.burst {
            self.filled_at = now;
        }
        let is_allowed = 0 < self.left;
        self.left -= u32::from(is_allowed);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_rationed() {
        let start = Instant::now();
        let limits = ChangeLimits { burst: 10, interval: Duration::from_secs(1) };
        let mut bucket = ChangeBucket { left: limits.burst, filled_at: start };
        let mut taken = |after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            (0..1000).filter(|_| bucket.take(&limits, now)).count()
        };
        assert_eq!(taken(5000), 10);
        assert_eq!(taken(5999), 0);
        assert_eq!(taken(6000), 1);
        assert_eq!(taken(8500), 2);
        assert_eq!(taken(8999), 0);
        assert_eq!(taken(9000), 1);
        assert_eq!(taken(3_600_000), 10);
    }
}
