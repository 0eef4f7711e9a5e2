//! Budget of the next hour: leased and granted shortly before it, so that no shard waits.
//!
//! Owns the amount leased and its distribution to shards. The unused part is returned as usual.

use std::cmp::Reverse;

use super::book::ShardPart;
use super::{LedgerCampaign, Recall, StepContext, part_of_node, per};
use crate::calendar::{CalendarHour, Period};
use crate::ledger::account::LedgerAccount;
use crate::ledger::limits::level::LimitLevels;
use crate::ledger::limits::tally::UNLIMITED;
use crate::ledger::step::LedgerOutbox;

/// Lease periods after which a measured rate is outdated.
const STALE_PERIODS: u32 = 8;

impl LedgerCampaign {
    /// Serves shards from the next hour's lease. Returns whether to lease it.
    pub(in crate::ledger) fn look_ahead(
        &mut self,
        account: &mut LedgerAccount,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) -> bool {
        let Some(next) = self.coming(ctx) else { return false };
        let levels = self.levels(account, &next);
        if self.closed_in(account, &next) || levels.is_exceeded() {
            self.return_pool(next.period, account);
            return false;
        }
        if let Some(at) = self.leased(next.period) {
            let recall = self.recall();
            self.deal(at, recall, ctx, outbox);
            return false;
        }
        self.need_ahead(&levels, account, ctx) > 0
    }

    pub(in crate::ledger) fn lease_ahead(
        &mut self,
        account: &mut LedgerAccount,
        ctx: &StepContext,
    ) {
        let Some(next) = self.coming(ctx) else { return };
        let is_leased = self.leased(next.period).is_some();
        if ctx.is_closing || self.closed_in(account, &next) || is_leased {
            return;
        }
        let levels = self.levels(account, &next);
        let amount = self.need_ahead(&levels, account, ctx);
        if amount == 0 {
            return;
        }
        self.least = self.least_of_a_shard();
        let at = self.book(next.period, next.day);
        self.books[at].is_ahead = true;
        self.take_lease(at, amount, account, &next);
    }

    /// Grants the next hour's lease once to the shards that will need it.
    pub(in crate::ledger) fn deal(
        &mut self,
        at: usize,
        recall: Recall,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) {
        let pool = self.books[at].pool();
        if !self.books[at].is_ahead || pool == 0 || recall == Recall::All {
            return;
        }
        self.books[at].is_ahead = false;
        let shards = self.takers(self.books[at].period, ctx.settings.shards, recall);
        let total: u128 = shards.iter().map(|(_, taken)| u128::from(*taken)).sum();
        let mut left = pool;
        for (shard, taken) in shards {
            let part = u128::from(pool) * u128::from(taken) / total;
            let part = u64::try_from(part).expect("a part is less");
            let slice = part.max(self.least).min(left);
            if slice == 0 {
                break;
            }
            left -= slice;
            outbox.grants.push((shard, self.grant(at, shard, slice, ctx)));
        }
    }

    fn coming(&self, ctx: &StepContext) -> Option<CalendarHour> {
        let ahead_ms = ctx.settings.ahead_ms(self.definition.slot);
        ctx.next.filter(|next| next.start_unix_ms <= ctx.now.unix_ms.saturating_add(ahead_ms))
    }

    fn closed_in(&self, account: &LedgerAccount, hour: &CalendarHour) -> bool {
        self.closed_at(account, hour.start_unix_ms, Some(hour)).is_some()
    }

    fn leased(&self, period: Period) -> Option<usize> {
        let is_leased = |book: &super::book::PeriodLeases| book.lease.granted.get() > 0;
        self.books.iter().position(|book| book.period == period && is_leased(book))
    }

    fn need_ahead(&self, levels: &LimitLevels, account: &LedgerAccount, ctx: &StepContext) -> u64 {
        // Without a limit, the number range is the limit.
        let headroom = levels.headroom().min(UNLIMITED - account.tally.life.exposure());
        let least = self.least_of_a_shard();
        let is_open = self.closed(account, ctx).is_none();
        if is_open && !self.is_in_use(ctx) {
            return 0;
        }
        let shards = match ctx.next {
            Some(next) => self.takers(next.period, ctx.settings.shards, Recall::None).len(),
            None => 1,
        };
        let least_of_all = least.saturating_mul(u64::try_from(shards).unwrap_or(u64::MAX));
        let rate = self.rate_ahead(is_open, ctx);
        let usual = per(rate, ctx.settings.lease_span).max(self.slices(ctx.settings));
        let part = part_of_node(headroom, ctx.settings);
        // One shard gets the last of the budget.
        usual.max(least_of_all).min(part).max(least).min(headroom)
    }

    /// Whether shards reserved in this hour, or lacked budget to.
    fn is_in_use(&self, ctx: &StepContext) -> bool {
        let period = ctx.hour.map(|hour| hour.period);
        let current = self.books.iter().filter(|book| Some(book.period) == period);
        let has_reserved = |part: &ShardPart| part.reserved_count > 0;
        self.was_short()
            || self.is_wanted()
            || current.flat_map(|book| &book.parts).any(has_reserved)
    }

    /// The rate at which it took budget when it could.
    fn rate_ahead(&self, is_open: bool, ctx: &StepContext) -> u64 {
        let sample = self.sample(ctx);
        let is_stale =
            self.rated_at.after(ctx.settings.lease_period * STALE_PERIODS) <= ctx.now.tick;
        if is_open && is_stale && !self.was_short() { sample } else { self.rate.max(sample) }
    }

    /// The least that helps a shard: from this hour's requests, or otherwise earlier ones.
    fn least_of_a_shard(&self) -> u64 {
        if self.refused_max > 0 { self.refused_max } else { self.least }
    }

    /// Shards by their share of the latest use, the largest first; equal if there was none.
    fn takers(&self, period: Period, shards: u16, recall: Recall) -> Vec<(u16, u64)> {
        let has_taken = |part: &ShardPart| part.returned < part.granted;
        let before = self.books.iter().filter(|book| book.period < period);
        let before = before.filter(|book| book.parts.iter().any(has_taken));
        let before = before.max_by_key(|book| book.period);
        let taken = |shard: u16| match before {
            Some(book) => {
                let part = book.parts.iter().find(|part| part.shard == shard);
                part.map_or(0, |part| part.granted - part.returned)
            }
            None => 1,
        };
        let may_take = |shard: &u16| match recall {
            Recall::None => true,
            Recall::AllBut(home) => *shard == home,
            Recall::All => false,
        };
        let takers = (0..shards).filter(may_take).map(|shard| (shard, taken(shard)));
        let mut takers: Vec<_> = takers.filter(|(_, taken)| *taken > 0).collect();
        takers.sort_by_key(|(_, taken)| Reverse(*taken));
        takers
    }
}
