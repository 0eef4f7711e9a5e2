//! `[live.lots]`.

use std::time::Duration;

use live_core::floor::FloorSettings;
use runtime::config::{Section, ms, secs};

/// The table `[live.lots]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LotsConfig {
    lots_max: usize,
    waiting_max: usize,
    hold_timeout: Duration,
    kept: Duration,
}

impl LotsConfig {
    pub(crate) fn read(s: &mut Section<'_>) -> Self {
        Self {
            lots_max: s.integer(
                "count_max",
                1_000,
                1..=100_000_usize,
                "Maximum number of lots, with those that are over and still kept.",
            ),
            waiting_max: s.integer(
                "waiting_max",
                1_000,
                1..=100_000_usize,
                "Maximum number of commands that wait for one lot. More are refused as busy.",
            ),
            hold_timeout: s.duration(
                "hold_timeout",
                "5s",
                ms(100)..=secs(60),
                "Maximum wait until the ledger holds the money of a bid. The bid is then refused.",
            ),
            kept: s.duration(
                "keep_for",
                "24h",
                secs(0)..=secs(31_536_000),
                "How long a lot is shown after it and its deal are over. Its records, and all later \
                 ones of the durable lane, are kept until then.",
            ),
        }
    }

    pub(crate) fn floor(&self) -> FloorSettings {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        FloorSettings {
            lots_max: self.lots_max,
            waiting_max: self.waiting_max,
            hold_timeout_ms: ms(self.hold_timeout),
            kept_ms: ms(self.kept),
        }
    }
}
