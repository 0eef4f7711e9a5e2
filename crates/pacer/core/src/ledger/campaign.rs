//! A campaign in the ledger, and how it serves its shards from durable leases.
//!
//! Owns slices, recalls and gates. The ledger does the leasing.

mod ahead;
pub(super) mod book;

use std::time::Duration;

use units::{Currency, Nanos, Tick};

use super::account::LedgerAccount;
use super::folding::ClosedLease;
use super::limits::definition::{CampaignBudget, CampaignTerms, DefinitionError};
use super::limits::level::{LimitLevels, LimitOwner, levels_of};
use super::limits::tally::{ExposureTally, UNLIMITED};
use super::settings::LedgerSettings;
use super::step::{LedgerOutbox, LedgerTime};
use crate::calendar::{Calendar, CalendarHour, Period, WEEK_HOURS};
use crate::messages::{BudgetGrant, RefillRequest, SpendingGate};
use crate::refusal::SpendRefusal;
use book::{PeriodLeases, left_of};

/// Maximum doublings of patience: from five seconds to five minutes.
const DRAINS_MAX: u32 = 6;

/// Minimum size of a slice, in usual reservations.
const RESERVATIONS_MIN: u64 = 8;

/// The shards that must return what they have not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recall {
    None,
    AllBut(u16),
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingRefill {
    shard: u16,
    amount: u64,
    /// A smaller refill does not help. Zero if any amount does.
    refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GateState {
    version: u64,
    closed: Option<SpendRefusal>,
    recall: Recall,
}

pub(super) struct StepContext<'a> {
    pub(super) settings: &'a LedgerSettings,
    pub(super) now: LedgerTime,
    /// By the account's clocks. None if the calendar has ended.
    pub(super) hour: Option<CalendarHour>,
    pub(super) next: Option<CalendarHour>,
    pub(super) calendar: Option<&'a Calendar>,
    pub(super) is_store_failing: bool,
    pub(super) is_closing: bool,
}

impl StepContext<'_> {
    /// The end of the present period or the next one, on the monotonic clock.
    fn end_of(&self, period: Period) -> Tick {
        let hour = self.next.filter(|next| next.period == period).or(self.hour);
        let end_unix_ms = hour.map_or(0, |hour| hour.end_unix_ms);
        let left_ms = end_unix_ms.saturating_sub(self.now.unix_ms);
        self.now.tick.after(Duration::from_millis(left_ms))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CampaignNeeds {
    pub(super) lease: bool,
    /// Other campaigns of the account should return what they do not use.
    pub(super) others: bool,
    /// Another look when the account's exposure falls.
    pub(super) waits: bool,
}

pub(super) struct LedgerCampaign {
    pub(super) definition: CampaignTerms,
    pub(super) account: u32,
    pub(super) tally: ExposureTally,
    pub(super) books: Vec<PeriodLeases>,
    /// Rows of books closed since the last look.
    pub(super) closed: Vec<(Period, ClosedLease)>,
    refills: Vec<PendingRefill>,
    /// The largest refused reservation of the period: the least that helps a shard.
    pub(super) refused_max: u64,
    /// The same for the last hour in which any shard requested a refill.
    pub(super) least: u64,
    /// Rate at which shards take budget, in nanos per second.
    pub(super) rate: u64,
    granted: u64,
    pub(super) rated_at: Tick,
    /// Mean reservation at the shard that last reported.
    pub(super) usual_reservation: u64,
    is_lateness_recorded: bool,
    gate: Option<GateState>,
    /// The one shard that spends the last of the budget.
    home: Option<u16>,
    /// When a shard last reserved or received a grant.
    active_at: Tick,
    /// Until then all shards return what they have not reserved, because they did not use it.
    drained_until: Option<Tick>,
    drains: u32,
    /// Deadlines of the next look, one per clock; `MAX` is never.
    pub(super) wake_unix_ms: u64,
    pub(super) wake_tick: u64,
    pub(super) is_dirty: bool,
    pub(super) is_unsaved: bool,
    pub(super) is_hungry: bool,
    pub(super) is_waiting: bool,
}

impl LedgerCampaign {
    pub(super) fn new(
        definition: &CampaignTerms,
        account: u32,
        currency: Currency,
        settings: &LedgerSettings,
        now: Tick,
    ) -> Result<Self, DefinitionError> {
        let budget = &definition.budget;
        budget.limits.check(budget.late_holdback, currency)?;
        Ok(Self {
            definition: *definition,
            account,
            tally: ExposureTally::default(),
            books: Vec::new(),
            closed: Vec::new(),
            refills: Vec::new(),
            refused_max: 0,
            least: 0,
            rate: 0,
            granted: 0,
            rated_at: now,
            usual_reservation: 0,
            is_lateness_recorded: settings.is_lateness_recorded,
            gate: None,
            home: None,
            active_at: now,
            drained_until: None,
            drains: 0,
            wake_unix_ms: u64::MAX,
            wake_tick: u64::MAX,
            is_dirty: false,
            is_unsaved: false,
            is_hungry: false,
            is_waiting: false,
        })
    }

    /// Takes a definition. Returns false if it is not newer.
    pub(super) fn define(
        &mut self,
        next: &CampaignTerms,
        currency: Currency,
    ) -> Result<bool, DefinitionError> {
        let known = &self.definition;
        if next.account != known.account {
            return Err(DefinitionError::AccountChanged);
        }
        next.budget.limits.check(next.budget.late_holdback, currency)?;
        if next.version <= known.version {
            return Ok(false);
        }
        self.definition = *next;
        self.share_again();
        Ok(true)
    }

    /// Ends the single shard's role: several shards may be able to spend again.
    pub(super) fn share_again(&mut self) {
        self.home = None;
        self.refused_max = self.refills.iter().map(|want| want.refused).max().unwrap_or(0);
    }

    /// Why it may not spend, regardless of budget.
    pub(super) fn closed(
        &self,
        account: &LedgerAccount,
        ctx: &StepContext,
    ) -> Option<SpendRefusal> {
        self.closed_at(account, ctx.now.unix_ms, ctx.hour.as_ref())
    }

    /// Why it may not spend at a time, regardless of budget.
    pub(super) fn closed_at(
        &self,
        account: &LedgerAccount,
        unix_ms: u64,
        hour: Option<&CalendarHour>,
    ) -> Option<SpendRefusal> {
        let budget = &self.definition.budget;
        if budget.is_paused || account.definition.is_paused {
            return Some(SpendRefusal::Paused);
        }
        if !(budget.start_unix_ms..budget.end_unix_ms).contains(&unix_ms) {
            return Some(SpendRefusal::OutOfFlight);
        }
        let is_out = hour.is_some_and(|hour| !budget.daypart.contains(hour.hour_of_week));
        is_out.then_some(SpendRefusal::OutOfDaypart)
    }

    pub(super) fn levels(&self, account: &LedgerAccount, hour: &CalendarHour) -> LimitLevels {
        let CampaignBudget { limits, late_holdback, .. } = &self.definition.budget;
        let own = levels_of(LimitOwner::Campaign, limits, *late_holdback, &self.tally, hour);
        LimitLevels::new(own, account.levels(hour))
    }

    /// Index of a period's book, which is created if missing.
    pub(super) fn book(&mut self, period: Period, day: u32) -> usize {
        match self.books.iter().position(|book| book.period == period) {
            Some(at) => at,
            None => {
                self.books.push(PeriodLeases::new(period, day, self.is_lateness_recorded));
                self.books.len() - 1
            }
        }
    }

    pub(super) fn recount(&mut self, at: usize, account: &mut LedgerAccount) {
        let book = &mut self.books[at];
        let to = book.sum();
        let from = std::mem::replace(&mut book.counted, to);
        if from == to {
            return;
        }
        self.tally.change(book.period, book.day, from, to);
        account.tally.change(book.period, book.day, from, to);
        account.is_freed |= to.exposure() < from.exposure();
    }

    pub(super) fn request_refill(&mut self, shard: u16, want: &RefillRequest) {
        let (amount, refused) = (want.amount.get(), want.refused.get());
        self.refills.retain(|known| known.shard != shard);
        if amount > 0 {
            self.refills.push(PendingRefill { shard, amount, refused });
        }
        self.refused_max = self.refused_max.max(refused);
    }

    pub(super) fn note_active(&mut self, now: Tick) {
        self.active_at = now;
    }

    pub(super) fn note_reserved(&mut self, now: Tick) {
        self.active_at = now;
        self.drains = 0;
    }

    /// Until when the shard that spends the last may keep it unused. The time doubles with each
    /// drain; otherwise a remainder below any bid would go back and forth all day.
    fn idle_at(&self, ctx: &StepContext) -> Tick {
        self.active_at.after(ctx.settings.patience * (1 << self.drains.min(DRAINS_MAX)))
    }

    /// Whether shards have budget of this period and have not used any for a while.
    pub(super) fn is_idle(&self, ctx: &StepContext) -> bool {
        let period = ctx.hour.map(|hour| hour.period);
        let current = self.books.iter().find(|book| Some(book.period) == period);
        let has_rights = current.is_some_and(|book| book.outstanding() + book.pool() > 0);
        has_rights && self.active_at.after(ctx.settings.patience) <= ctx.now.tick
    }

    pub(super) fn drain(&mut self, ctx: &StepContext) {
        self.drained_until = Some(ctx.now.tick.after(ctx.settings.lease_period));
        self.drains = self.drains.saturating_add(1);
        self.home = None;
        self.refills.clear();
        self.refused_max = 0;
        self.active_at = ctx.now.tick;
    }

    /// Looks at everything: ends periods, serves refill requests, sends gates.
    pub(super) fn look(
        &mut self,
        account: &mut LedgerAccount,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) -> CampaignNeeds {
        self.end_periods(account, ctx);
        if ctx.is_closing {
            self.return_pools(account);
            return CampaignNeeds::default();
        }
        let mut needs = self.look_at_now(account, ctx, outbox);
        needs.lease |= self.look_ahead(account, ctx, outbox);
        needs
    }

    fn look_at_now(
        &mut self,
        account: &mut LedgerAccount,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) -> CampaignNeeds {
        let closed = self.closed(account, ctx);
        let Some(hour) = ctx.hour else {
            let closed = closed.or(Some(SpendRefusal::LedgerUnavailable));
            self.tell(closed, Recall::All, ctx, outbox);
            return CampaignNeeds::default();
        };
        let levels = self.levels(account, &hour);
        self.drained_until = self.drained_until.filter(|until| ctx.now.tick < *until);
        if self.home.is_some() && self.is_idle(ctx) && self.idle_at(ctx) <= ctx.now.tick {
            self.drain(ctx);
        }
        if closed.is_some() || levels.is_exceeded() || self.drained_until.is_some() {
            self.home = None;
            self.return_pool(hour.period, account);
            let is_exceeded = levels.is_exceeded();
            let closed = closed.or_else(|| levels.refusal().filter(|_| is_exceeded));
            self.tell(closed, Recall::All, ctx, outbox);
            return CampaignNeeds { waits: is_exceeded, ..CampaignNeeds::default() };
        }
        let Some(at) = self.serving(&hour) else {
            let closed = levels.refusal().filter(|_| self.was_short());
            self.tell(closed, Recall::None, ctx, outbox);
            return CampaignNeeds {
                waits: levels.is_short_of_account(),
                ..CampaignNeeds::default()
            };
        };
        let headroom = levels.headroom();
        let recall = self.home.map_or(Recall::None, Recall::AllBut);
        self.deal(at, recall, ctx, outbox);
        let book = &self.books[at];
        let remaining = headroom.saturating_add(book.pool() + book.pending());
        self.choose_home(remaining, ctx.settings.shards);
        self.serve(at, headroom, ctx, outbox);
        let is_missed = !account.waiting.is_empty();
        if is_missed && self.refills.is_empty() {
            // A pool that no shard requests goes to a campaign of the account that has nothing.
            self.books[at].return_pool();
            self.recount(at, account);
        }
        let mut needs = self.tell_rest(at, &levels, ctx, outbox);
        needs.lease &= !is_missed || self.is_wanted();
        needs
    }

    /// Index of the book that serves shards. None until a shard requests a refill.
    fn serving(&mut self, hour: &CalendarHour) -> Option<usize> {
        let known = self.books.iter().position(|book| book.period == hour.period);
        let is_wanted = !self.refills.is_empty();
        known.or_else(|| is_wanted.then(|| self.book(hour.period, hour.day)))
    }

    fn tell_rest(
        &mut self,
        at: usize,
        levels: &LimitLevels,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) -> CampaignNeeds {
        let (headroom, pool) = (levels.headroom(), self.books[at].pool());
        let is_short = match self.home {
            Some(home) => self.refills.iter().any(|want| want.shard == home),
            None => !self.refills.is_empty(),
        };
        let is_out = pool == 0 && (is_short || self.was_short());
        let closed = match levels.refusal() {
            Some(refusal) => Some(refusal).filter(|_| is_out),
            None if is_short && ctx.is_store_failing => Some(SpendRefusal::LedgerUnavailable),
            None => None,
        };
        let recall = self.home.map_or(Recall::None, Recall::AllBut);
        self.tell(closed, recall, ctx, outbox);
        // Wait for the pending lease.
        let pending = self.books[at].pending();
        let have = pool + pending;
        let part = part_of_node(headroom.saturating_add(have), ctx.settings);
        let low = self.rate.max(self.slice(ctx.settings)).min(part);
        let is_low = self.home.is_none() && have < low;
        CampaignNeeds {
            lease: headroom > 0 && ((is_short && pending == 0) || is_low),
            others: headroom == 0 && is_short && levels.is_short_of_account(),
            waits: headroom == 0 && levels.is_short_of_account(),
        }
    }

    /// Lets one shard spend the remainder when a request exceeds a shard's share of it.
    fn choose_home(&mut self, remaining: u64, shards: u16) {
        let parts = |times: u64| self.refused_max.saturating_mul(times);
        let shards = u64::from(shards);
        if self.home.is_some() && parts(8 * shards) <= remaining {
            self.home = None;
        } else if self.home.is_none() && remaining < parts(4 * shards) {
            self.home = self.refills.first().map(|want| want.shard);
        }
    }

    fn serve(&mut self, at: usize, headroom: u64, ctx: &StepContext, outbox: &mut LedgerOutbox) {
        let until = Tick::from_nanos(self.books[at].until);
        if until > Tick::ZERO && until.after(ctx.settings.late_window) <= ctx.now.tick {
            // The wall clock has gone back, and shards may have forgotten this hour.
            return;
        }
        let wants = std::mem::take(&mut self.refills);
        for want in wants {
            let PendingRefill { shard, amount, refused } = want;
            let pool = self.books[at].pool();
            let slice = match self.home {
                Some(home) if home == shard => pool,
                Some(_) => 0,
                None => {
                    let part = headroom.saturating_add(pool) / (4 * u64::from(ctx.settings.shards));
                    let usual = self.slice(ctx.settings).max(amount);
                    usual.min(part).max(refused).min(pool)
                }
            };
            if slice < refused || slice == 0 {
                let [amount, refused] = [amount, refused].map(|of| of.saturating_sub(slice));
                self.refills.push(PendingRefill { shard, amount, refused });
            }
            if slice == 0 {
                continue;
            }
            self.granted = self.granted.saturating_add(slice);
            outbox.grants.push((shard, self.grant(at, shard, slice, ctx)));
        }
    }

    pub(super) fn grant(
        &mut self,
        at: usize,
        shard: u16,
        slice: u64,
        ctx: &StepContext,
    ) -> BudgetGrant {
        let book = &mut self.books[at];
        let granted = book.grant(shard, slice);
        self.active_at = ctx.now.tick;
        let until = ctx.end_of(book.period);
        if book.until == 0 {
            book.until = until.nanos();
        }
        // The wall clock may jump forward: shards keep the end that they received.
        book.lasts_until(until, ctx.settings);
        BudgetGrant { slot: self.definition.slot, period: book.period, granted, until }
    }

    /// A shard's share of the campaign's rate over `slice_span`; at low rates some reservations,
    /// because they come in bursts and the next lease is at least a lease period away.
    fn slice(&self, settings: &LedgerSettings) -> u64 {
        let by_rate = per(self.rate, settings.slice_span) / u64::from(settings.shards);
        by_rate.max(self.usual_reservation.saturating_mul(RESERVATIONS_MIN))
    }

    pub(super) fn slices(&self, settings: &LedgerSettings) -> u64 {
        self.slice(settings).saturating_mul(u64::from(settings.shards))
    }

    pub(super) fn was_short(&self) -> bool {
        self.gate.is_some_and(|told| told.closed.is_some_and(SpendRefusal::is_out_of_budget))
    }

    pub(super) fn recall(&self) -> Recall {
        self.gate.map_or(Recall::None, |told| told.recall)
    }

    fn tell(
        &mut self,
        closed: Option<SpendRefusal>,
        recall: Recall,
        ctx: &StepContext,
        outbox: &mut LedgerOutbox,
    ) {
        let version = match self.gate {
            Some(told) if (told.closed, told.recall) == (closed, recall) => return,
            Some(told) => told.version + 1,
            None => 1,
        };
        self.gate = Some(GateState { version, closed, recall });
        for shard in 0..ctx.settings.shards {
            let is_recalled = match recall {
                Recall::None => false,
                Recall::AllBut(home) => shard != home,
                Recall::All => true,
            };
            outbox.gates.push((
                shard,
                SpendingGate { slot: self.definition.slot, version, closed, is_recalled },
            ));
        }
    }

    pub(super) fn return_pool(&mut self, period: Period, account: &mut LedgerAccount) {
        if let Some(at) = self.books.iter().position(|book| book.period == period) {
            self.books[at].return_pool();
            self.recount(at, account);
        }
    }

    pub(super) fn return_pools(&mut self, account: &mut LedgerAccount) {
        for at in 0..self.books.len() {
            self.books[at].return_pool();
            self.recount(at, account);
        }
    }

    fn end_periods(&mut self, account: &mut LedgerAccount, ctx: &StepContext) {
        let Some(hour) = ctx.hour else { return };
        self.tally.begin_day(hour.day);
        account.tally.begin_day(hour.day);
        let mut at = 0;
        while at < self.books.len() {
            if hour.period <= self.books[at].period {
                at += 1;
                continue;
            }
            if !self.books[at].is_over {
                self.share_again();
                self.drains = 0;
                self.books[at].is_over = true;
                self.books[at].lasts_until(ctx.now.tick, ctx.settings);
            }
            self.books[at].return_pool();
            self.recount(at, account);
            let book = &self.books[at];
            let is_closed = book.closes_at <= ctx.now.tick.nanos() || book.is_empty();
            if is_closed && book.is_settled() {
                let book = self.books.swap_remove(at);
                self.closed.extend(book.closed_rows(self.definition.slot, ctx.settings));
            } else {
                at += 1;
            }
        }
    }

    pub(super) fn lease(&mut self, account: &mut LedgerAccount, ctx: &StepContext) {
        let Some(hour) = ctx.hour else { return };
        let may_spend = !ctx.is_closing && self.closed(account, ctx).is_none();
        if !may_spend || self.drained_until.is_some() {
            return;
        }
        let headroom = self.levels(account, &hour).headroom();
        self.look_at_rate(ctx);
        let Some(at) = self.serving(&hour) else { return };
        let book = &self.books[at];
        // Without a limit, the number range is the limit.
        let room = UNLIMITED - account.tally.life.exposure().max(book.lease.granted.get());
        let headroom = headroom.min(room);
        let have = book.pool() + book.pending();
        let amount = if self.home.is_some() {
            headroom
        } else {
            let usual = per(self.rate, ctx.settings.lease_span).max(self.slices(ctx.settings));
            let target = usual.max(self.refused_max).max(self.wanted());
            let part = part_of_node(headroom.saturating_add(have), ctx.settings);
            target.min(part).saturating_sub(have).min(headroom)
        };
        if amount == 0 {
            return;
        }
        self.take_lease(at, amount, account, &hour);
    }

    pub(super) fn take_lease(
        &mut self,
        at: usize,
        amount: u64,
        account: &mut LedgerAccount,
        hour: &CalendarHour,
    ) {
        let book = &mut self.books[at];
        let granted = book.lease.granted.checked_add(Nanos::new(amount));
        book.lease.granted = granted.expect("leases fit the books");
        book.is_unsaved = true;
        self.recount(at, account);
        let levels = self.levels(account, hour);
        assert!(!levels.is_exceeded(), "what is leased is within every limit: {:?}", levels.0);
    }

    fn wanted(&self) -> u64 {
        self.refills.iter().fold(0, |sum: u64, want| sum.saturating_add(want.amount))
    }

    /// Updates the rate: up at once, down by quarters.
    fn look_at_rate(&mut self, ctx: &StepContext) {
        let sample = self.sample(ctx);
        self.rate = sample.max(self.rate / 4 * 3 + sample / 4);
        self.granted = 0;
        self.rated_at = ctx.now.tick;
    }

    pub(super) fn sample(&self, ctx: &StepContext) -> u64 {
        let span = ctx.now.tick.since(self.rated_at).max(ctx.settings.lease_period);
        let taken = u128::from(self.granted.saturating_add(self.wanted()));
        let sample = taken * 1_000_000_000 / span.as_nanos().max(1);
        u64::try_from(sample).unwrap_or(u64::MAX)
    }

    /// When the wall clock next affects it; `MAX` is never.
    pub(super) fn next_unix_ms(&self, ctx: &StepContext) -> u64 {
        let boundary_ms = self.next_boundary_ms(ctx);
        let ahead_at = boundary_ms.saturating_sub(ctx.settings.ahead_ms(self.definition.slot));
        let is_later = boundary_ms < u64::MAX && ctx.now.unix_ms < ahead_at;
        if is_later { ahead_at } else { boundary_ms }
    }

    /// When it next opens, closes, or can use another hour's budget.
    fn next_boundary_ms(&self, ctx: &StepContext) -> u64 {
        let (Some(hour), Some(calendar)) = (ctx.hour, ctx.calendar) else { return u64::MAX };
        let CampaignBudget { start_unix_ms: start, end_unix_ms: end, daypart, .. } =
            self.definition.budget;
        let boundary = match ctx.now.unix_ms {
            now if now < start => start,
            now if now < end => end,
            _ => u64::MAX,
        };
        let has_rights = self.books.iter().any(|book| hour.period <= book.period);
        if has_rights || self.was_short() {
            return boundary.min(hour.end_unix_ms);
        }
        let runs = daypart.contains(hour.hour_of_week);
        let coming = calendar.from(hour.end_unix_ms).iter().take(usize::from(WEEK_HOURS) + 2);
        let mut other = coming.skip_while(|hour| daypart.contains(hour.hour_of_week) == runs);
        boundary.min(other.next().map_or(u64::MAX, |hour| hour.start_unix_ms))
    }

    /// Deadline of the next look without events, in nanoseconds; `MAX` is never.
    pub(super) fn next_tick(&self, ctx: &StepContext) -> u64 {
        let now = ctx.now.tick.nanos();
        let over = self.books.iter().filter(|book| book.is_over);
        let closing = over.map(|book| book.closes_at).filter(|at| now < *at).min();
        let drained = self.drained_until.map(Tick::nanos);
        let idle = self.home.map(|_| self.idle_at(ctx).nanos());
        let idle = idle.filter(|at| now < *at);
        [closing, drained, idle].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    pub(super) fn has_unsaved(&self) -> bool {
        let is_unsaved =
            |book: &PeriodLeases| book.is_unsaved || book.dead.iter().any(|it| it.is_unsaved);
        self.books.iter().any(is_unsaved)
    }

    /// What it has in the current period and no shard has.
    pub(super) fn pool(&self, period: Period) -> u64 {
        self.books.iter().find(|book| book.period == period).map_or(0, PeriodLeases::pool)
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.books.iter().map(PeriodLeases::outstanding).sum()
    }

    pub(super) fn frozen(&self) -> u64 {
        let dead = self.books.iter().flat_map(|book| &book.dead);
        dead.map(|dead| left_of(&dead.lease)).sum()
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.refills.is_empty()
    }
}

/// Maximum share of `remaining` that one node leases while others may need some.
pub(super) fn part_of_node(remaining: u64, settings: &LedgerSettings) -> u64 {
    remaining / (4 * u64::from(settings.nodes))
}

pub(super) fn per(rate: u64, span: Duration) -> u64 {
    let amount = u128::from(rate) * span.as_nanos() / 1_000_000_000;
    u64::try_from(amount).unwrap_or(u64::MAX)
}
