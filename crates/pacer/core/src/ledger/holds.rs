//! Holds: the ledger decides about each at once, within its account's limits, and answers once it
//! is durable.
//!
//! A hold is exposure of its account, in the hour in which it was decided. A charge counts there as
//! well: after midnight, only in total. A batch with new holds does not wait for the lease period;
//! as one batch is in flight at a time, holds that arrive meanwhile share the next one.

use std::sync::Arc;

use units::Nanos;

use super::account::holds::{BookedHold, CountedHold, HoldReplyDue};
use super::limits::definition::{AccountId, LimitSpan};
use super::limits::level::LimitLevel;
use super::limits::tally::{Exposure, UNLIMITED};
use super::step::{HoldAnswer, HoldDenial, HoldInput, HoldOutcome, HoldPlacement, LedgerOutbox};
use super::{AHEAD_MS_MAX, Ledger};
use crate::calendar::{CalendarHour, Period, QUARTER_MS};
use crate::messages::index;
use crate::store::{
    AttemptNumber, ChargeKey, CommitOutcome, HoldName, HoldState, StoredHold, StoredHoldKey,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Where and in place of what a hold is booked.
struct HoldDecision {
    /// Index of the account.
    at: u32,
    hour: CalendarHour,
    replaced: Option<ReplacedHold>,
}

/// A hold that is replaced, with its part of the sums.
struct ReplacedHold {
    name: HoldName,
    period: Period,
    day: u32,
    counted: u64,
}

impl ReplacedHold {
    fn counted_in(&self, span: LimitSpan, hour: &CalendarHour) -> u64 {
        let counts = match span {
            LimitSpan::Life => true,
            LimitSpan::Day => self.day == hour.day,
            LimitSpan::Hour => self.period == hour.period,
        };
        if counts { self.counted } else { 0 }
    }
}

impl Ledger {
    /// Adds the store's holds and sums of charges, of all nodes, before the first step. Missing
    /// ones are spent again.
    #[must_use]
    pub fn with_holds(
        mut self,
        holds: impl IntoIterator<Item = (StoredHoldKey, StoredHold)>,
        charges: impl IntoIterator<Item = (ChargeKey, Nanos)>,
    ) -> Self {
        let near_ms = self.now.unix_ms.saturating_add(AHEAD_MS_MAX);
        for (StoredHoldKey { node, name }, row) in holds {
            if node != self.settings.node {
                self.holds.foreign.entry(Arc::clone(&row.account)).or_default().push(row);
                continue;
            }
            // The clock had reached the hour of the decision.
            let start_ms = row.period.start_unix_ms();
            if start_ms <= near_ms {
                self.now.unix_ms = self.now.unix_ms.max(start_ms);
            }
            self.holds.restore(name, row);
        }
        for (ChargeKey { account, .. }, cost) in charges {
            let sum = self.holds.charges.entry(account).or_default();
            *sum = sum.saturating_add(cost.get());
        }
        self
    }

    /// Number of standing holds.
    pub const fn standing_holds(&self) -> u64 {
        self.holds.standing
    }

    pub(super) fn name_account(&mut self, id: AccountId, name: &Arc<str>) {
        self.holds.accounts.insert(Arc::clone(name), id);
        if self.holds.names.insert(id, Arc::clone(name)).is_none() {
            self.adopt_holds(id);
        }
    }

    /// Counts the store's holds and charges of an account, once it is defined and named.
    pub(super) fn adopt_holds(&mut self, id: AccountId) {
        let (named, at) = (self.holds.names.get(&id).cloned(), self.account_at.get(&id).copied());
        let Some((name, at)) = named.zip(at) else { return };
        let account = &mut self.accounts[index(at)];
        if let Some(hour) = self.zones[&account.definition.zone].hour {
            account.tally.begin_day(hour.day);
        }
        if let Some(sum) = self.holds.charges.remove(&name) {
            account.tally.fold(None, Exposure { held: sum, late: 0 });
        }
        for row in self.holds.foreign.remove(&name).unwrap_or_default() {
            let amount = row.exposure().get();
            let standing = if row.state == HoldState::Standing { amount } else { 0 };
            account.count_hold(&row, CountedHold::default(), CountedHold { amount, standing });
        }
        for stranger in self.holds.strangers.remove(&name).unwrap_or_default() {
            // A later attempt of the bid may be another account's.
            let hold = self.holds.get_mut(&stranger).filter(|hold| hold.row.account == name);
            if let Some(hold) = hold {
                hold.account = Some(at);
                self.recount_hold(&stranger);
            }
        }
        self.mark_members(index(at));
    }

    pub(super) fn take_hold(&mut self, message: HoldInput, outbox: &mut LedgerOutbox) {
        match message {
            HoldInput::Place(placement) => self.place(&placement, outbox),
            HoldInput::Standing(placement) => self.confirm(&placement, outbox),
            HoldInput::End { name, attempt, end } => self.end_hold(&name, attempt, end, outbox),
            HoldInput::Replayed => {
                // A second report would take holds of bids that are being logged for orphans.
                if !std::mem::replace(&mut self.holds.is_replayed, true) {
                    for name in self.holds.orphans() {
                        self.finish(&name, HoldState::Released);
                    }
                }
            }
        }
    }

    fn place(&mut self, placement: &HoldPlacement, outbox: &mut LedgerOutbox) {
        let HoldPlacement { name, attempt, .. } = placement;
        let known = self.holds.get(name).map(|hold| hold.row.attempt);
        if known.is_some_and(|known| attempt <= &known) {
            return self.place_again(placement, outbox);
        }
        self.supersede(name, outbox);
        match self.decide(placement) {
            Err(denial) => answer(name, *attempt, HoldOutcome::Refused(denial), outbox),
            Ok(HoldDecision { at, hour, replaced }) => {
                let row = row_of(placement, hour.period, hour.day);
                self.book_hold(name, row, Some(at), replaced);
                let hold = self.holds.get_mut(name).expect("it is booked");
                hold.reply_due = Some(HoldReplyDue::Hold);
                self.holds.is_urgent = true;
                let levels = self.accounts[index(at)].levels(&hour);
                let is_within = |level: &LimitLevel| level.excess() == Nanos::ZERO;
                assert!(levels.iter().all(is_within), "holds are within every limit: {levels:?}");
            }
        }
    }

    /// A repeated or outdated placement changes nothing.
    fn place_again(&mut self, placement: &HoldPlacement, outbox: &mut LedgerOutbox) {
        let HoldPlacement { name, attempt, .. } = placement;
        let is_unsaved = self.is_hold_unsaved(name);
        let hold = self.holds.of_attempt(name, *attempt);
        let is_same =
            |row: &StoredHold| (&row.account, row.amount) == (&placement.account, placement.amount);
        match hold.filter(|hold| hold.stands() && is_same(&hold.row)) {
            Some(hold) if is_unsaved => hold.reply_due = Some(HoldReplyDue::Hold),
            Some(_) => answer(name, *attempt, HoldOutcome::Held, outbox),
            None => {
                let denial = HoldDenial::Unavailable("the hold of this bid has ended");
                answer(name, *attempt, HoldOutcome::Refused(denial), outbox);
            }
        }
    }

    /// A later attempt means that the earlier one's bid was never logged: the next start would
    /// release its hold in any case, so its end need not be durable before it is answered.
    fn supersede(&mut self, name: &HoldName, outbox: &mut LedgerOutbox) {
        let earlier = self.holds.get_mut(name).filter(|hold| !is_charged(hold));
        let Some(hold) = earlier else { return };
        let denial = HoldDenial::Unavailable("a later attempt for the same bid was made");
        let outcome = hold.reply_due.take().map(|due| match due {
            HoldReplyDue::Hold => HoldOutcome::Refused(denial),
            HoldReplyDue::End => HoldOutcome::Ended,
        });
        if let Some(outcome) = outcome {
            answer(name, hold.row.attempt, outcome, outbox);
        }
        if hold.stands() {
            self.finish(name, HoldState::Released);
        }
    }

    fn decide(&mut self, placement: &HoldPlacement) -> Result<HoldDecision, HoldDenial> {
        self.check_available(&placement.name)?;
        let at = self.account_named(&placement.account).ok_or(HoldDenial::UnknownAccount)?;
        let account = &mut self.accounts[index(at)];
        if account.definition.is_paused {
            return Err(HoldDenial::AccountClosed);
        }
        if account.definition.currency != placement.currency {
            return Err(HoldDenial::WrongCurrency(account.definition.currency));
        }
        let Some(hour) = self.zones[&account.definition.zone].hour else {
            return Err(HoldDenial::Unavailable("the hours of the account's zone have ended"));
        };
        account.tally.begin_day(hour.day);
        let most = (UNLIMITED / 2).saturating_sub(account.tally.life.exposure());
        let replaced = self.replaced(placement, at);
        let amount = placement.amount.get();
        let amount = amount.max(replaced.as_ref().map_or(0, |replaced| replaced.counted));
        if most < amount {
            return Err(HoldDenial::TooLarge);
        }
        let fits = |ledger: &Self| {
            let levels = ledger.accounts[index(at)].levels(&hour);
            check_headroom(levels, amount, &hour, replaced.as_ref())
        };
        if fits(self).is_err() {
            self.return_unused(at, hour.period);
            fits(self)?;
        }
        Ok(HoldDecision { at, hour, replaced })
    }

    fn check_available(&self, name: &HoldName) -> Result<(), HoldDenial> {
        let why = if self.is_closing {
            "the ledger ends"
        } else if self.is_store_failing {
            "the ledger's store fails"
        } else if !self.is_whole() || !self.holds.is_replayed {
            "the ledger starts"
        } else if self.holds.get(name).is_some_and(is_charged) {
            "the bid of this number is paid"
        } else {
            return Ok(());
        };
        Err(HoldDenial::Unavailable(why))
    }

    fn account_named(&self, name: &str) -> Option<u32> {
        self.account_at.get(self.holds.accounts.get(name)?).copied()
    }

    fn replaced(&self, placement: &HoldPlacement, at: u32) -> Option<ReplacedHold> {
        let name = HoldName { lot: Arc::clone(&placement.name.lot), bid: placement.replaces? };
        if name == placement.name || !self.holds.replaceable(&name, at) {
            return None;
        }
        let BookedHold { row, counted, .. } = self.holds.get(&name)?;
        Some(ReplacedHold { name, period: row.period, day: row.day, counted: counted.amount })
    }

    /// Returns what campaigns of the account hold of an hour and no shard has, and makes idle ones
    /// return the rest for a later bid.
    fn return_unused(&mut self, at: u32, period: Period) {
        for slot in self.accounts[index(at)].members.clone() {
            let (campaign, account) = self.pair(slot).expect("a member stays known");
            campaign.return_pool(period, account);
            self.mark(slot);
        }
        self.search(index(at), None);
    }

    /// A bid of the log stands. Its money is on hold, even above a limit.
    fn confirm(&mut self, placement: &HoldPlacement, outbox: &mut LedgerOutbox) {
        let HoldPlacement { name, attempt, account, .. } = placement;
        match self.holds.get_mut(name) {
            Some(hold) if hold.stands() && hold.row.attempt == *attempt => {
                hold.is_confirmed = true;
                return;
            }
            // It was ended, or its number was used again: neither happens to a logged bid.
            Some(hold) if is_charged(hold) || *attempt <= hold.row.attempt => {
                self.stats.strays += 1;
                return;
            }
            Some(_) => self.supersede(name, outbox),
            None => (),
        }
        let at = self.account_named(account);
        let life = at.map_or(0, |at| self.accounts[index(at)].tally.life.exposure());
        if (UNLIMITED / 2).saturating_sub(life) < placement.amount.get() {
            self.stats.strays += 1;
            return;
        }
        let zone = at.map(|at| self.accounts[index(at)].definition.zone);
        let hour = zone.and_then(|zone| self.zones.get(&zone)?.hour);
        let quarter = u32::try_from(self.now.unix_ms / QUARTER_MS).unwrap_or(u32::MAX);
        let day = u32::try_from(self.now.unix_ms / DAY_MS).unwrap_or(u32::MAX);
        let (period, day) = hour.map_or((Period(quarter), day), |hour| (hour.period, hour.day));
        if let Some(at) = at {
            self.accounts[index(at)].tally.begin_day(day);
        }
        self.book_hold(name, row_of(placement, period, day), at, None);
    }

    fn book_hold(
        &mut self,
        name: &HoldName,
        row: StoredHold,
        account: Option<u32>,
        replaced: Option<ReplacedHold>,
    ) {
        let replaces = replaced.map(|replaced| replaced.name);
        let below = replaces.clone();
        if account.is_none() {
            let strangers = self.holds.strangers.entry(Arc::clone(&row.account));
            strangers.or_default().push(name.clone());
        }
        let hold = BookedHold { account, replaces, is_confirmed: true, ..BookedHold::new(row) };
        self.holds.place(name, hold);
        for name in below.iter().chain([name]) {
            self.recount_hold(name);
        }
    }

    fn end_hold(
        &mut self,
        name: &HoldName,
        attempt: AttemptNumber,
        end: HoldState,
        outbox: &mut LedgerOutbox,
    ) {
        assert!(end != HoldState::Standing, "an end is a release or a charge");
        let is_unsaved = self.is_hold_unsaved(name);
        let Some(hold) = self.holds.of_attempt(name, attempt) else {
            if let HoldState::Charged(cost) = end {
                self.stats.strays += 1;
                self.stats.stray_nanos = self.stats.stray_nanos.saturating_add(cost.get());
            }
            return answer(name, attempt, HoldOutcome::Ended, outbox);
        };
        let stands = hold.stands();
        if let (false, HoldState::Charged(cost)) = (stands || hold.row.state == end, end) {
            // The first end counts.
            self.stats.strays += 1;
            self.stats.stray_nanos = self.stats.stray_nanos.saturating_add(cost.get());
        }
        if !stands && !is_unsaved {
            return answer(name, attempt, HoldOutcome::Ended, outbox);
        }
        hold.reply_due = Some(HoldReplyDue::End);
        if stands {
            self.finish(name, end);
        }
    }

    fn is_hold_unsaved(&self, name: &HoldName) -> bool {
        self.holds.unsaved.contains(name)
            || self.holds.get(name).is_some_and(|hold| hold.is_in_flight)
    }

    /// Ends a standing hold: what is free again may be leased.
    fn finish(&mut self, name: &HoldName, end: HoldState) {
        for changed in self.holds.end(name, end) {
            self.recount_hold(&changed);
        }
        if let Some(at) = self.holds.get(name).and_then(|hold| hold.account) {
            self.wake_waiting(index(at));
        }
    }

    fn recount_hold(&mut self, name: &HoldName) {
        let to = self.holds.counted(name);
        let Some(hold) = self.holds.get_mut(name) else { return };
        let Some(at) = hold.account else { return };
        let from = std::mem::replace(&mut hold.counted, to);
        self.accounts[index(at)].count_hold(&hold.row, from, to);
    }

    /// Applies the outcome of a batch to its holds, and answers.
    pub(super) fn end_holds(
        &mut self,
        rows: Vec<(HoldName, StoredHold)>,
        ended: CommitOutcome,
        outbox: &mut LedgerOutbox,
    ) {
        for (name, row) in rows {
            let Some(hold) = self.holds.get_mut(&name) else { continue };
            hold.is_in_flight = false;
            if hold.row != row {
                // A later batch contains it.
                continue;
            }
            let attempt = row.attempt;
            match ended {
                CommitOutcome::Committed => {
                    hold.is_uncertain = false;
                    let outcome = match row.state {
                        HoldState::Standing => HoldOutcome::Held,
                        HoldState::Released | HoldState::Charged(_) => HoldOutcome::Ended,
                    };
                    if hold.reply_due.take().is_some() {
                        answer(&name, attempt, outcome, outbox);
                    }
                    self.holds.close(&name);
                }
                CommitOutcome::Refused
                    if hold.reply_due == Some(HoldReplyDue::Hold) && !hold.is_uncertain =>
                {
                    hold.reply_due = None;
                    let denial = HoldDenial::Unavailable("the ledger's store fails");
                    answer(&name, attempt, HoldOutcome::Refused(denial), outbox);
                    self.finish(&name, HoldState::Released);
                }
                CommitOutcome::Refused | CommitOutcome::Unknown => {
                    hold.is_uncertain |= ended == CommitOutcome::Unknown;
                    self.holds.unsaved.insert(name);
                }
            }
        }
    }

    /// Whether a batch is formed before the lease period is over. A failing store is not asked more
    /// often than that.
    pub(super) fn has_urgent_holds(&self) -> bool {
        self.holds.is_urgent && !self.is_store_failing
    }
}

fn is_charged(hold: &BookedHold) -> bool {
    matches!(hold.row.state, HoldState::Charged(_))
}

fn row_of(placement: &HoldPlacement, period: Period, day: u32) -> StoredHold {
    StoredHold {
        attempt: placement.attempt,
        account: Arc::clone(&placement.account),
        amount: placement.amount,
        period,
        day,
        state: HoldState::Standing,
    }
}

fn answer(
    name: &HoldName,
    attempt: AttemptNumber,
    outcome: HoldOutcome,
    outbox: &mut LedgerOutbox,
) {
    outbox.holds.push(HoldAnswer { name: name.clone(), attempt, outcome });
}

/// Checks an amount against each limit, from the total to the hour.
fn check_headroom(
    levels: [LimitLevel; 3],
    amount: u64,
    hour: &CalendarHour,
    replaced: Option<&ReplacedHold>,
) -> Result<(), HoldDenial> {
    for level in levels {
        let freed = replaced.map_or(0, |replaced| replaced.counted_in(level.span, hour));
        let outstanding = Nanos::new(level.outstanding.get().saturating_sub(freed));
        let headroom = LimitLevel { outstanding, ..level }.headroom();
        if let Some(headroom) = headroom.filter(|headroom| headroom.get() < amount) {
            return Err(HoldDenial::OverAccount { span: level.span, headroom });
        }
    }
    Ok(())
}
