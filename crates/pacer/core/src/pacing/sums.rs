//! A campaign's requests and wins at all shards: repeated or reordered reports have no effect.

use crate::calendar::Period;
use crate::messages::{RequestCounts, SpendReport};
use crate::strategy::ObservedTotals;

/// Periods with separate wins per shard: the last two, and one more after a clock jump.
const PERIODS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct ObservedSums {
    carried: ObservedTotals,
    /// From this process. None until the first request, which most campaigns never see.
    by_shard: Option<Box<ShardSums>>,
}

#[derive(Debug, Default)]
struct ShardSums {
    seen: Vec<RequestCounts>,
    wins: Vec<(u16, Period, u64)>,
    /// Wins of earlier periods, and the last of these periods.
    won_before: u64,
    over: Option<Period>,
}

impl ObservedSums {
    pub(super) fn see(&mut self, shard: u16, seen: RequestCounts, shards: u16) {
        self.by_shard.get_or_insert_default().see(shard, seen, shards);
    }

    pub(super) fn report(&mut self, shard: u16, report: &SpendReport, shards: u16) {
        self.by_shard.get_or_insert_default().report(shard, report, shards);
    }

    pub(super) const fn carry(&mut self, totals: ObservedTotals) {
        self.carried = totals;
    }

    /// Since the first pacing. The ledger owns spend.
    pub(super) fn totals(&self) -> ObservedTotals {
        let own = self.by_shard.as_ref().map(|sums| sums.totals());
        self.carried.plus(own.unwrap_or_default())
    }
}

impl ShardSums {
    fn see(&mut self, shard: u16, seen: RequestCounts, shards: u16) {
        self.seen.resize(usize::from(shards), RequestCounts::default());
        let known = &mut self.seen[usize::from(shard)];
        known.requests = known.requests.max(seen.requests);
        known.bids = known.bids.max(seen.bids);
    }

    fn report(&mut self, shard: u16, report: &SpendReport, shards: u16) {
        if self.over.is_some_and(|over| report.period <= over) {
            return; // Only the ledger counts such late wins.
        }
        let same =
            |(of, period, _): &&mut (u16, Period, u64)| (*of, *period) == (shard, report.period);
        match self.wins.iter_mut().find(same) {
            Some((_, _, won)) => *won = report.won_count.max(*won),
            None => self.wins.push((shard, report.period, report.won_count)),
        }
        while self.wins.len() > PERIODS * usize::from(shards) {
            let oldest = self.wins.iter().map(|(_, period, _)| *period).min();
            let is_oldest = |win: &&(u16, Period, u64)| Some(win.1) == oldest;
            self.won_before += self.wins.iter().filter(is_oldest).map(|win| win.2).sum::<u64>();
            self.wins.retain(|win| Some(win.1) != oldest);
            self.over = self.over.max(oldest);
        }
    }

    fn totals(&self) -> ObservedTotals {
        ObservedTotals {
            requests: self.seen.iter().map(|seen| seen.requests).sum(),
            bids: self.seen.iter().map(|seen| seen.bids).sum(),
            wins: self.won_before + self.wins.iter().map(|(_, _, won)| won).sum::<u64>(),
            spent: 0,
        }
    }
}
