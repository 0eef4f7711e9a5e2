//! A shard's campaigns: gates, books by period, and messages due to the ledger.
//!
//! A book stays until nothing can change it. Books retire oldest first, so that one number per
//! campaign marks the past: a repeated old grant must not begin a book anew, whose report would
//! return money that was spent.

use std::collections::VecDeque;
use std::time::Duration;

use units::{Nanos, Tick};

use super::book::{NONE, PeriodBudget, PeriodHolding};
use super::outcome::{GrantRejected, SettledWin};
use crate::calendar::Period;
use crate::messages::{
    BudgetGrant, CampaignIndex, Receipt, RefillRequest, SpendReport, SpendingGate, index,
};
use crate::refusal::SpendRefusal;

#[derive(Clone, Debug)]
struct ShardCampaign {
    /// The book of its latest period, or [`NONE`].
    newest: u32,
    /// Earlier ones are retired.
    periods_from: Period,
    gate: Option<u64>,
    closed: Option<SpendRefusal>,
    is_recalled: bool,
    is_known: bool,
    is_wanting: bool,
    /// The largest refused amount since the last refill request.
    refused: u64,
}

const UNKNOWN: ShardCampaign = ShardCampaign {
    newest: NONE,
    periods_from: Period(0),
    gate: None,
    closed: None,
    is_recalled: false,
    is_known: false,
    is_wanting: false,
    refused: 0,
};

#[derive(Debug)]
pub(super) struct ShardCampaigns {
    slots: Vec<ShardCampaign>,
    slots_max: usize,
    books: Vec<PeriodBudget>,
    books_max: usize,
    unused: Vec<u32>,
    changed: VecDeque<u32>,
    wanting: VecDeque<u32>,
    /// How long after a period's end its last token is forgotten.
    horizon: Duration,
    due: Tick,
    is_closed: bool,
}

impl ShardCampaigns {
    pub fn new(slots_max: usize, books_max: usize, horizon: Duration) -> Self {
        Self {
            slots: Vec::with_capacity(slots_max),
            slots_max,
            books: Vec::with_capacity(books_max),
            books_max,
            unused: Vec::with_capacity(books_max),
            changed: VecDeque::with_capacity(books_max),
            wanting: VecDeque::with_capacity(slots_max),
            horizon,
            due: Tick::from_nanos(u64::MAX),
            is_closed: false,
        }
    }

    pub const fn bytes(slots_max: usize, books_max: usize) -> usize {
        slots_max * (size_of::<ShardCampaign>() + size_of::<u32>())
            + books_max * (size_of::<PeriodBudget>() + 2 * size_of::<u32>())
    }

    pub fn take(&mut self, grant: &BudgetGrant) -> Result<(), GrantRejected> {
        let at = self.account(grant.slot)?;
        let account = &mut self.slots[at];
        if grant.period < account.periods_from {
            return Err(GrantRejected::Retired);
        }
        let is_recalled = account.is_recalled;
        let book = match self.find(grant.slot, grant.period) {
            Some(book) => book,
            None => self.begin_book(grant.slot, grant.period)?,
        };
        let (index, book) = (book, &mut self.books[index(book)]);
        let is_more = book.grant(grant);
        self.due = self.due.min(book.until);
        if is_more {
            self.slots[at].is_known = true;
            if is_recalled || self.is_closed {
                self.return_free(index);
            }
        }
        Ok(())
    }

    pub fn take_gate(&mut self, gate: &SpendingGate) -> Result<(), GrantRejected> {
        let at = self.account(gate.slot)?;
        let account = &mut self.slots[at];
        account.is_known = true;
        if account.gate.is_some_and(|known| gate.version <= known) {
            return Ok(());
        }
        account.gate = Some(gate.version);
        account.closed = gate.closed;
        account.is_recalled = gate.is_recalled;
        if account.is_recalled {
            let mut book = account.newest;
            while book != NONE {
                self.return_free(book);
                book = self.books[index(book)].older;
            }
        }
        Ok(())
    }

    /// The book from which `amount` can be reserved, or why none can.
    #[inline]
    pub fn spendable(
        &self,
        slot: CampaignIndex,
        amount: u64,
        quarter: u32,
        now: Tick,
    ) -> Result<u32, SpendRefusal> {
        let account = self.slots.get(index(slot.0)).filter(|account| account.is_known);
        let account = account.ok_or(SpendRefusal::Unknown)?;
        let reason = account.closed.unwrap_or(SpendRefusal::LedgerUnavailable);
        if !reason.is_out_of_budget() || self.is_closed {
            return Err(reason);
        }
        let book = self.current(account, quarter).ok_or(reason)?;
        let held = &self.books[index(book)];
        if now >= held.until || amount > held.free { Err(reason) } else { Ok(book) }
    }

    /// The book of a campaign's latest period, or [`NONE`].
    #[inline]
    pub fn newest(&self, slot: CampaignIndex) -> u32 {
        self.slots.get(index(slot.0)).map_or(NONE, |account| account.newest)
    }

    /// Reads a campaign's latest book. The result means nothing.
    #[inline]
    pub fn warm(&self, slot: CampaignIndex) -> u64 {
        self.books.get(index(self.newest(slot))).map_or(0, PeriodBudget::warm)
    }

    /// What may be reserved if the ledger cannot refill the campaign; zero otherwise.
    pub fn last_of(&self, slot: CampaignIndex, quarter: u32, now: Tick) -> u64 {
        let account = self.slots.get(index(slot.0)).filter(|account| account.is_known);
        let is_last =
            |account: &&ShardCampaign| account.closed.is_some_and(SpendRefusal::is_exhausted);
        let book = account.filter(is_last).and_then(|account| self.current(account, quarter));
        let held = book.map(|book| &self.books[index(book)]);
        held.filter(|held| now < held.until).map_or(0, |held| held.free)
    }

    pub fn lack(&mut self, slot: CampaignIndex, amount: u64) {
        if let Some(account) = self.slots.get_mut(index(slot.0)).filter(|account| account.is_known)
        {
            // A free reservation needs budget too.
            account.refused = account.refused.max(amount).max(1);
            want(account, slot, &mut self.wanting);
        }
    }

    /// Reserves at most what is free in the book. Returns the period of a win.
    #[inline]
    pub fn reserve(&mut self, book: u32, amount: u64) -> Period {
        let held = self.change(book);
        held.reserve(amount);
        let (slot, period) = (held.slot, held.period);
        if held.free < held.slice / 2 {
            want(&mut self.slots[index(slot.0)], slot, &mut self.wanting);
        }
        period
    }

    pub fn give_back(&mut self, book: u32, amount: u64, now: Tick) {
        let is_spendable = self.is_spendable(book, now);
        self.change(book).give_back(amount, is_spendable);
    }

    pub fn settle(&mut self, book: u32, amount: u64, price: u64, now: Tick) -> SettledWin {
        let is_spendable = self.is_spendable(book, now);
        self.change(book).settle(amount, price, is_spendable)
    }

    pub fn settle_late(&mut self, book: u32, price: u64) -> SettledWin {
        self.change(book).settle_late(price)
    }

    pub fn claim(&mut self, book: u32) {
        self.books[index(book)].claimed += 1;
    }

    pub fn end_claim(&mut self, book: u32) {
        let book = &mut self.books[index(book)];
        book.claimed = book.claimed.checked_sub(1).expect("a claim ends once");
    }

    pub fn find(&self, slot: CampaignIndex, period: Period) -> Option<u32> {
        self.books_of(slot).find(|book| self.books[index(*book)].period == period)
    }

    pub fn holdings(&self, slot: CampaignIndex) -> impl Iterator<Item = PeriodHolding> {
        self.books_of(slot).map(|book| self.books[index(book)].holding())
    }

    pub fn next_report(&mut self) -> Option<SpendReport> {
        let book = &mut self.books[index(self.changed.pop_front()?)];
        book.is_changed = false;
        Some(book.report())
    }

    /// The next campaign whose request still stands and could be served.
    pub fn next_want(&mut self, quarter: u32) -> Option<RefillRequest> {
        while let Some(slot) = self.wanting.pop_front() {
            let account = &mut self.slots[index(slot)];
            account.is_wanting = false;
            let refused = std::mem::take(&mut account.refused);
            let account = &self.slots[index(slot)];
            let is_open =
                account.closed.is_none_or(|reason| reason == SpendRefusal::LedgerUnavailable);
            if account.is_recalled || !is_open {
                continue;
            }
            let book = self.current(account, quarter).map(|book| &self.books[index(book)]);
            let (free, slice) = book.map_or((0, 0), |book| (book.free, book.slice));
            let short = if free < slice / 2 { slice - free } else { 0 };
            let refused = if refused > free { refused } else { 0 };
            let amount = short.max(refused);
            if amount > 0 {
                let [amount, refused] = [amount, refused].map(Nanos::new);
                return Some(RefillRequest { slot: CampaignIndex(slot), amount, refused });
            }
        }
        None
    }

    /// Returns everything free from now on, and how much was taken of each open period.
    pub fn close_all(&mut self) -> Vec<Receipt> {
        self.is_closed = true;
        self.wanting.clear();
        let mut receipts = Vec::new();
        for at in 0..self.books.len() {
            if !self.books[at].is_used {
                continue;
            }
            self.return_free(u32::try_from(at).expect("books are numbered by 32 bits"));
            receipts.push(self.books[at].receipt());
        }
        receipts
    }

    /// Ends periods that are over by `now`, and retires finished books.
    pub fn sweep(&mut self, now: Tick) {
        if now < self.due {
            return;
        }
        self.due = Tick::from_nanos(u64::MAX);
        for at in 0..self.books.len() {
            let book = &self.books[at];
            if book.is_used {
                let due = self.close(at, now);
                self.due = self.due.min(due);
            }
        }
    }

    fn close(&mut self, at: usize, now: Tick) -> Tick {
        let book = &mut self.books[at];
        if now < book.until {
            return book.until;
        }
        let number = u32::try_from(at).expect("books are numbered by 32 bits");
        book.closed = book.closed.min(now);
        let closed = book.closed;
        self.return_free(number);
        let book = &self.books[at];
        let finished = closed.after(self.horizon);
        if now < finished {
            return finished;
        }
        if book.older == NONE && book.is_finished() {
            self.retire(number);
            return Tick::from_nanos(u64::MAX);
        }
        now.after(self.horizon / super::lane::PARTS)
    }

    fn retire(&mut self, book: u32) {
        let held = &mut self.books[index(book)];
        assert_eq!(held.reserved, 0, "all has expired before it is forgotten");
        held.is_used = false;
        let (slot, period) = (held.slot, held.period);
        let account = &mut self.slots[index(slot.0)];
        account.periods_from = Period(period.0.saturating_add(1));
        if account.newest == book {
            account.newest = NONE;
        } else {
            let newer = self.books_of(slot).find(|other| self.books[index(*other)].older == book);
            self.books[index(newer.expect("all books but the newest have a newer"))].older = NONE;
        }
        self.unused.push(book);
    }

    fn account(&mut self, slot: CampaignIndex) -> Result<usize, GrantRejected> {
        let at = index(slot.0);
        if at >= self.slots_max {
            return Err(GrantRejected::SlotsMax);
        }
        if at >= self.slots.len() {
            self.slots.resize(at + 1, UNKNOWN);
        }
        Ok(at)
    }

    fn begin_book(&mut self, slot: CampaignIndex, period: Period) -> Result<u32, GrantRejected> {
        let begun = PeriodBudget::new(slot, period);
        let book = if let Some(book) = self.unused.pop() {
            self.books[index(book)] = begun;
            book
        } else if self.books.len() < self.books_max {
            self.books.push(begun);
            u32::try_from(self.books.len() - 1).expect("books are numbered by 32 bits")
        } else {
            return Err(GrantRejected::BooksMax);
        };
        let newer = |other: &u32| self.books[index(*other)].period > period;
        let newer = self.books_of(slot).take_while(newer).last();
        let link = match newer {
            Some(newer) => &mut self.books[index(newer)].older,
            None => &mut self.slots[index(slot.0)].newest,
        };
        let older = std::mem::replace(link, book);
        self.books[index(book)].older = older;
        Ok(book)
    }

    fn books_of(&self, slot: CampaignIndex) -> impl Iterator<Item = u32> {
        let newest = self.slots.get(index(slot.0)).map(|account| account.newest);
        let exists = |book: u32| (book != NONE).then_some(book);
        std::iter::successors(newest.and_then(exists), move |book| {
            exists(self.books[index(*book)].older)
        })
    }

    /// The book of the latest period that has begun.
    #[inline]
    fn current(&self, account: &ShardCampaign, quarter: u32) -> Option<u32> {
        let mut book = account.newest;
        while book != NONE {
            let held = &self.books[index(book)];
            if held.period.0 <= quarter {
                return Some(book);
            }
            book = held.older;
        }
        None
    }

    /// Whether returned money can be spent again here.
    fn is_spendable(&self, book: u32, now: Tick) -> bool {
        let book = &self.books[index(book)];
        now < book.until && !self.slots[index(book.slot.0)].is_recalled && !self.is_closed
    }

    fn return_free(&mut self, book: u32) {
        if self.books[index(book)].return_free() {
            self.change(book);
        }
    }

    #[inline]
    fn change(&mut self, book: u32) -> &mut PeriodBudget {
        let held = &mut self.books[index(book)];
        if !held.is_changed {
            held.is_changed = true;
            self.changed.push_back(book);
        }
        held
    }
}

fn want(account: &mut ShardCampaign, slot: CampaignIndex, wanting: &mut VecDeque<u32>) {
    if !account.is_wanting {
        account.is_wanting = true;
        wanting.push_back(slot.0);
    }
}
