//! The lifetimes of reservations that requests can choose from.

use std::time::Duration;

use pacer_core::shard::token::TtlClass;

/// Lifetimes by class, ascending.
#[derive(Clone, Debug)]
pub(crate) struct ReservationClasses {
    ttls: Vec<Duration>,
    usual: TtlClass,
}

impl ReservationClasses {
    /// Of a shard with these lifetimes; `usual` is that of requests which name none.
    pub fn new(ttls: Vec<Duration>, usual: Duration) -> Self {
        let usual = class(&ttls, usual);
        Self { ttls, usual }
    }

    /// The shortest class that lasts `seconds`, or else the longest; the usual one for 0.
    #[inline]
    pub fn of(&self, seconds: u16) -> TtlClass {
        if seconds == 0 {
            return self.usual;
        }
        class(&self.ttls, Duration::from_secs(seconds.into()))
    }

    /// A class's lifetime in whole seconds.
    #[inline]
    pub fn seconds(&self, class: TtlClass) -> u16 {
        u16::try_from(self.ttls[usize::from(class.0)].as_secs()).unwrap_or(u16::MAX)
    }

    /// The lifetime of requests that name none.
    pub fn usual(&self) -> Duration {
        self.ttls[usize::from(self.usual.0)]
    }

    /// The longest lifetime.
    pub fn longest(&self) -> Duration {
        self.ttls[self.ttls.len() - 1]
    }
}

fn class(ttls: &[Duration], wanted: Duration) -> TtlClass {
    let class = ttls.partition_point(|ttl| *ttl < wanted).min(ttls.len() - 1);
    TtlClass(u8::try_from(class).expect("classes are few"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_that_suffices_is_chosen() {
        let ttls = [15, 60, 1800].map(Duration::from_secs).to_vec();
        let classes = ReservationClasses::new(ttls, Duration::from_secs(15));
        for (seconds, class) in [(0, 0), (1, 0), (15, 0), (16, 1), (60, 1), (61, 2), (9999, 2)] {
            assert_eq!(classes.of(seconds), TtlClass(class), "{seconds} s");
        }
        assert_eq!(classes.seconds(TtlClass(1)), 60);
        assert_eq!((classes.usual().as_secs(), classes.longest().as_secs()), (15, 1800));
    }
}
