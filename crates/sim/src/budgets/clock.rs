//! Both clocks of a machine: the monotonic clock and the wall clock.

use pacer_core::calendar::QUARTER_MS;
use pacer_core::ledger::LedgerTime;
use pacer_core::shard::ShardTime;
use units::Tick;

#[derive(Clone, Copy, Debug)]
pub(super) struct SimClock {
    pub(super) tick_ms: u64,
    pub(super) unix_ms: u64,
}

pub(super) fn tick_of(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

impl SimClock {
    pub(super) fn pass(&mut self, ms: u64) {
        self.tick_ms += ms;
        self.unix_ms += ms;
    }

    pub(super) fn tick(&self) -> Tick {
        tick_of(self.tick_ms)
    }

    pub(super) fn now(&self) -> LedgerTime {
        LedgerTime { tick: self.tick(), unix_ms: self.unix_ms }
    }

    pub(super) fn moment(&self) -> ShardTime {
        let quarter = u32::try_from(self.unix_ms / QUARTER_MS).expect("before the year 100,000");
        ShardTime { tick: self.tick(), quarter }
    }
}
