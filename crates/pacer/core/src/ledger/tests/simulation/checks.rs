//! Invariants after every step of the simulation, recomputed from scratch.

use std::collections::BTreeMap;

use super::{OFFSETS, Reservation, Totals, World, merge, settings};
use crate::calendar::{Period, QUARTER_MS};
use crate::ledger::{BudgetLimits, Holdback};
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{Batch, Lease, LeaseKey};

impl World {
    fn day_of(slot: CampaignIndex, period: Period) -> u64 {
        let offset = OFFSETS[slot.0 as usize % 2];
        u64::try_from((i64::from(period.0) + offset) / 96).expect("after 1970")
    }

    /// The totals that an amount of a campaign and period counts in.
    fn counts(slot: CampaignIndex, period: Period) -> [(u8, u32, u8, u64); 6] {
        let day = Self::day_of(slot, period);
        let spans = [(0, 0), (1, day), (2, u64::from(period.0))];
        std::array::from_fn(|at| match (at % 2, spans[at / 2]) {
            (0, (span, which)) => (0, slot.0, span, which),
            (_, (span, which)) => (1, slot.0 % 2, span, which),
        })
    }

    fn limit_of(limits: &BudgetLimits, span: u8) -> u64 {
        let limit = [limits.life, limits.day, limits.hour][usize::from(span)];
        limit.map_or(u64::MAX, |limit| limit.amount.get())
    }

    pub(super) fn note_limits(&mut self) {
        for span in 0..3 {
            let campaigns = self.campaigns.iter().map(|it| (0, it.slot.0, it.budget.limits));
            let accounts = self.accounts.iter().map(|it| (1, it.id.0, it.limits));
            for (owner, id, limits) in campaigns.chain(accounts) {
                let known = self.most.entry((owner, id, span, 0)).or_default();
                *known = (*known).max(Self::limit_of(&limits, span));
            }
        }
    }

    /// Timely spend, settled or possible, is within the largest limits so far.
    pub(super) fn check_authorised(&self) {
        let mut totals = Totals::new();
        let mut add = |slot, period, amount: u64| {
            for count in Self::counts(slot, period) {
                *totals.entry(count).or_default() += amount;
            }
        };
        for (it, in_time) in self.log.iter().zip(&self.in_time) {
            add(it.key.slot, it.key.period, *in_time);
        }
        let open = self.shards.iter().flat_map(|shard| &shard.open);
        let ghosts = self.ghosts.iter().map(|(_, it)| it).filter(|it| self.tick < it.expires_at);
        for it in open.chain(ghosts) {
            add(it.slot, it.period, it.amount);
        }
        for ((owner, id, span, which), total) in totals {
            let most = self.most[&(owner, id, span, 0)];
            assert!(total <= most, "authorised {total} of {most}: {:?}", (owner, id, span, which));
        }
    }

    /// Grants were durable before, and are of their own hour.
    pub(super) fn check_grants(&self) {
        for (_, grant) in &self.outbox.grants {
            let start_ms = u64::from(grant.period.0) * QUARTER_MS;
            let settings = settings(self.epoch, self.is_late_told);
            let ahead_ms = (settings.ahead + settings.lease_period).as_millis();
            let ahead_ms = u64::try_from(ahead_ms).expect("seconds");
            let is_soon = start_ms <= self.ledger.now().unix_ms + ahead_ms;
            assert!(is_soon, "granted in an hour that is to come");
            let is_over = start_ms + 4 * QUARTER_MS <= self.latest_unix_ms;
            assert!(!is_over, "granted in an hour that is over");
            let (slot, period, epoch) = (grant.slot, grant.period, Epoch(self.epoch));
            let key = LeaseKey { slot, period, node: 1, epoch };
            let durable = self.durable.get(&key).copied().unwrap_or_default();
            let mut at_shards = 0;
            for (number, shard) in (0u16..).zip(&self.shards) {
                let cell = shard.cells.get(&(slot, period)).copied().unwrap_or_default();
                let grants = self.outbox.grants.iter();
                let now = grants
                    .filter(|(to, it)| *to == number && (it.slot, it.period) == (slot, period));
                let granted = now.map(|(_, it)| it.granted.get()).max().unwrap_or(0);
                at_shards += granted.max(cell.granted) - cell.returned;
            }
            let leased = durable.granted.get() - durable.returned.get();
            assert!(at_shards <= leased, "granted {at_shards} of {leased} that are durable");
        }
    }

    pub(super) fn count_ahead(&self) -> usize {
        let unix_ms = self.ledger.now().unix_ms;
        let begin_ms = |period: Period| u64::from(period.0) * QUARTER_MS;
        self.outbox.grants.iter().filter(|(_, it)| unix_ms < begin_ms(it.period)).count()
    }

    /// A batch leases within every known limit, whatever the outcome of earlier ones.
    pub(super) fn check_batch(&self, batch: &Batch) {
        let mut before = self.durable.clone();
        merge(&mut before, &self.maybe.iter().map(|it| (*it.0, *it.1)).collect::<Vec<_>>());
        let mut after = before.clone();
        merge(&mut after, &batch.leases);
        let mut held = Totals::new();
        let mut late = Totals::new();
        for (key, lease) in &after {
            for count in Self::counts(key.slot, key.period) {
                *held.entry(count).or_default() += lease.granted.get() - lease.returned.get();
                *late.entry(count).or_default() += lease.late.get() + lease.over.get();
            }
        }
        for (key, lease) in &batch.leases {
            let known = before.get(key).copied().unwrap_or_default();
            self.check_taken_back(key, &known, lease);
            if lease.granted <= known.granted {
                continue;
            }
            for count in Self::counts(key.slot, key.period) {
                let (owner, id, span, _) = count;
                let campaign = &self.known_campaigns[id as usize];
                let limits = match owner {
                    0 => &campaign.budget.limits,
                    _ => &self.known_accounts[id as usize].limits,
                };
                let limit = Self::limit_of(limits, span);
                let kept = match campaign.budget.late_holdback {
                    // For holdback, the late part of this lease is unknown.
                    Holdback::Share(share)
                        if owner == 0 && limit < u64::MAX && self.is_late_told =>
                    {
                        (limit * u64::from(share.get())).div_ceil(1_000_000)
                    }
                    _ => 0,
                };
                let used = held[&count] + late[&count].max(kept);
                assert!(used <= limit, "leased {used} of {limit}: {count:?} at {}", self.step);
            }
        }
    }

    /// What is reclaimed of a dead epoch was not won in time, and no valid token holds it.
    fn check_taken_back(&self, key: &LeaseKey, known: &Lease, lease: &Lease) {
        if key.epoch == Epoch(self.epoch) || lease.returned <= known.returned {
            return;
        }
        let won = self.log.iter().zip(&self.in_time).filter(|(of, _)| of.key == *key);
        let won: u64 = won.map(|(_, in_time)| in_time).sum();
        let is_open = |it: &&(Epoch, Reservation)| {
            let (epoch, of) = it;
            let is_of = (*epoch, of.slot, of.period) == (key.epoch, key.slot, key.period);
            is_of && self.tick < of.expires_at
        };
        let open: u64 = self.ghosts.iter().filter(is_open).map(|(_, of)| of.amount).sum();
        let used = lease.returned.get() + won + open;
        assert!(used <= lease.granted.get(), "{won} won and {open} open of {key:?}: {lease:?}");
    }

    /// The sums match the books, and an account's match its campaigns'.
    pub(super) fn check_sums(&self) {
        let mut of_accounts = [(0, 0); 2];
        for campaign in self.ledger.campaigns.iter().flatten() {
            for book in &campaign.books {
                assert_eq!(book.counted, book.sum(), "a book is counted as it is");
                let hour = campaign.tally.hours.iter().find(|hour| hour.period == book.period);
                assert!(hour.is_none_or(|hour| hour.sum == book.sum()), "an hour is its book");
            }
            let of_account = &mut of_accounts[campaign.account as usize];
            of_account.0 += campaign.tally.life.held;
            of_account.1 += campaign.tally.life.late;
        }
        for (account, sums) in self.ledger.accounts.iter().zip(of_accounts) {
            assert_eq!((account.tally.life.held, account.tally.life.late), sums);
        }
    }

    /// Every lease is closed, and its spend matches the log to the nano.
    pub(super) fn check_books(&self) {
        let mut spent: BTreeMap<LeaseKey, (u64, u64, u64)> = BTreeMap::new();
        for it in &self.log {
            let sums = spent.entry(it.key).or_default();
            *sums = (sums.0 + it.settled.get(), sums.1 + it.late.get(), sums.2 + it.over.get());
        }
        for (key, lease) in &self.durable {
            let sums = spent.remove(key).unwrap_or_default();
            let told = (lease.settled.get(), lease.late.get(), lease.over.get());
            let total = |(settled, late, over): (u64, u64, u64)| settled + late + over;
            let is_exact = told == sums || (!self.is_late_told && total(told) == total(sums));
            assert!(is_exact, "{told:?} was spent of {key:?}, {sums:?} by the log");
            let back = lease.returned.get() + lease.settled.get();
            assert_eq!(back, lease.granted.get(), "{key:?} is closed: {lease:?}");
        }
        assert!(spent.is_empty(), "spent out of no lease: {spent:?}");
        assert_eq!(self.ledger.stats().stray_nanos, 0);
        for campaign in self.ledger.campaigns.iter().flatten() {
            let mut open = campaign.books.iter().filter(|book| !book.is_empty());
            assert!(open.next().is_none(), "closed books go: {:?}", campaign.books);
            let of_slot = self.log.iter().filter(|it| it.key.slot == campaign.definition.slot);
            let total: u64 =
                of_slot.map(|it| it.settled.get() + it.late.get() + it.over.get()).sum();
            let spend = self.ledger.spend(campaign.definition.slot).expect("it is known");
            assert_eq!(spend.life.get(), total);
        }
    }
}
