//! The holds of a node: which stand, what each counts, and which rows are not saved.
//!
//! Owns the pairs of a raise: while a hold and the one that it replaces both stand, only one of the
//! bids can win, so the pair counts the larger amount. Knows no limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ledger::limits::definition::AccountId;
use crate::store::{AttemptNumber, HoldName, HoldState, StoredHold};

/// Maximum folds of holds in a batch.
const FOLDS_MAX: usize = 4096;

/// The reply that follows the commit of a hold's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum HoldReplyDue {
    Hold,
    End,
}

/// What a hold contributes to the sums of its account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ledger) struct CountedHold {
    /// On hold or charged.
    pub(in crate::ledger) amount: u64,
    /// On hold.
    pub(in crate::ledger) standing: u64,
}

#[derive(Clone, Debug)]
pub(in crate::ledger) struct BookedHold {
    pub(in crate::ledger) row: StoredHold,
    /// Index of its account. None before the account is defined.
    pub(in crate::ledger) account: Option<u32>,
    /// The standing hold that this one replaces.
    pub(in crate::ledger) replaces: Option<HoldName>,
    /// The standing hold that replaces this one.
    pub(in crate::ledger) replaced_by: Option<HoldName>,
    /// Its contribution to the sums of its account.
    pub(in crate::ledger) counted: CountedHold,
    pub(in crate::ledger) is_in_flight: bool,
    /// Whether a batch of unknown outcome contains it.
    pub(in crate::ledger) is_uncertain: bool,
    /// None if no reply is due.
    pub(in crate::ledger) reply_due: Option<HoldReplyDue>,
    /// Whether the log has its bid, or it was placed in this epoch.
    pub(in crate::ledger) is_confirmed: bool,
}

#[derive(Debug, Default)]
pub(in crate::ledger) struct HoldBook {
    holds: BTreeMap<HoldName, BookedHold>,
    pub(in crate::ledger) unsaved: BTreeSet<HoldName>,
    /// Ended holds that still have a row, by day.
    ended: BTreeMap<u32, Vec<HoldName>>,
    pub(in crate::ledger) standing: u64,
    /// Holds whose account is not defined yet.
    pub(in crate::ledger) strangers: BTreeMap<Arc<str>, Vec<HoldName>>,
    /// Holds of other nodes, whose account is not defined yet.
    pub(in crate::ledger) foreign: BTreeMap<Arc<str>, Vec<StoredHold>>,
    /// Sums of charges, of accounts that are not defined yet.
    pub(in crate::ledger) charges: BTreeMap<Arc<str>, u64>,
    pub(in crate::ledger) accounts: BTreeMap<Arc<str>, AccountId>,
    pub(in crate::ledger) names: BTreeMap<AccountId, Arc<str>>,
    pub(in crate::ledger) is_replayed: bool,
    /// Whether a bid waits for the next batch, which is then formed at once.
    pub(in crate::ledger) is_urgent: bool,
}

impl BookedHold {
    pub(in crate::ledger) fn new(row: StoredHold) -> Self {
        Self {
            row,
            account: None,
            replaces: None,
            replaced_by: None,
            counted: CountedHold::default(),
            is_in_flight: false,
            is_uncertain: false,
            reply_due: None,
            is_confirmed: false,
        }
    }

    pub(in crate::ledger) fn stands(&self) -> bool {
        self.row.state == HoldState::Standing
    }

    /// What it counts if it has ended or is replaced.
    fn counted_alone(&self) -> CountedHold {
        let amount = if self.stands() { 0 } else { self.row.exposure().get() };
        CountedHold { amount, standing: 0 }
    }
}

impl HoldBook {
    pub(in crate::ledger) fn get(&self, name: &HoldName) -> Option<&BookedHold> {
        self.holds.get(name)
    }

    pub(in crate::ledger) fn get_mut(&mut self, name: &HoldName) -> Option<&mut BookedHold> {
        self.holds.get_mut(name)
    }

    /// The hold of an attempt.
    pub(in crate::ledger) fn of_attempt(
        &mut self,
        name: &HoldName,
        attempt: AttemptNumber,
    ) -> Option<&mut BookedHold> {
        self.holds.get_mut(name).filter(|hold| hold.row.attempt == attempt)
    }

    /// Adds a hold of the store.
    pub(in crate::ledger) fn restore(&mut self, name: HoldName, row: StoredHold) {
        let strangers = self.strangers.entry(Arc::clone(&row.account)).or_default();
        strangers.push(name.clone());
        self.standing += u64::from(row.state == HoldState::Standing);
        if row.state != HoldState::Standing {
            self.ended.entry(row.day).or_default().push(name.clone());
        }
        self.holds.insert(name, BookedHold::new(row));
    }

    /// Adds a standing hold, instead of one of that name that has ended.
    pub(in crate::ledger) fn place(&mut self, name: &HoldName, hold: BookedHold) {
        let below = hold.replaces.as_ref().and_then(|below| self.holds.get_mut(below));
        if let Some(below) = below {
            below.replaced_by = Some(name.clone());
        }
        let is_in_flight = self.holds.get(name).is_some_and(|former| former.is_in_flight);
        let former = self.holds.insert(name.clone(), BookedHold { is_in_flight, ..hold });
        assert!(former.is_none_or(|it| !it.stands()), "a hold ends before another has its name");
        self.standing += 1;
        self.unsaved.insert(name.clone());
    }

    /// Ends a standing hold, and returns the holds whose counted amount may change.
    pub(in crate::ledger) fn end(&mut self, name: &HoldName, end: HoldState) -> Vec<HoldName> {
        let hold = self.holds.get_mut(name).expect("it is known");
        assert!(hold.stands(), "a hold ends once: {hold:?}");
        hold.row.state = end;
        assert!(hold.row.exposure() <= hold.row.amount, "no charge exceeds its hold: {hold:?}");
        let (below, above) = (hold.replaces.take(), hold.replaced_by.take());
        if let Some(below) = below.as_ref().and_then(|below| self.holds.get_mut(below)) {
            below.replaced_by.clone_from(&above);
        }
        if let Some(above) = above.as_ref().and_then(|above| self.holds.get_mut(above)) {
            above.replaces.clone_from(&below);
        }
        self.standing -= 1;
        self.unsaved.insert(name.clone());
        let mut changed = vec![name.clone()];
        changed.extend(below);
        let mut next = above;
        while let Some(above) = next {
            next = self.holds.get(&above).and_then(|hold| hold.replaced_by.clone());
            changed.push(above);
        }
        changed
    }

    /// What a hold counts: nothing if another replaces it, and no less than those it replaces.
    pub(in crate::ledger) fn counted(&self, name: &HoldName) -> CountedHold {
        let Some(hold) = self.holds.get(name) else { return CountedHold::default() };
        if !hold.stands() || hold.replaced_by.is_some() {
            return hold.counted_alone();
        }
        let mut amount = hold.row.amount.get();
        let mut below = hold.replaces.as_ref();
        while let Some(hold) = below.and_then(|below| self.holds.get(below)) {
            amount = amount.max(hold.row.amount.get());
            below = hold.replaces.as_ref();
        }
        CountedHold { amount, standing: amount }
    }

    /// A standing hold of the account that nothing replaces yet: a bid may replace it.
    pub(in crate::ledger) fn replaceable(&self, name: &HoldName, account: u32) -> bool {
        self.holds.get(name).is_some_and(|hold| {
            hold.stands() && hold.account == Some(account) && hold.replaced_by.is_none()
        })
    }

    /// Standing holds whose bid the log does not have.
    pub(in crate::ledger) fn orphans(&self) -> Vec<HoldName> {
        let orphans = self.holds.iter().filter(|(_, hold)| hold.stands() && !hold.is_confirmed);
        orphans.map(|(name, _)| name.clone()).collect()
    }

    /// Rows for a batch. Without all leases, only the ends: what stands may count on budget that a
    /// later batch returns.
    pub(in crate::ledger) fn gather(
        &mut self,
        has_all_leases: bool,
    ) -> Vec<(HoldName, StoredHold)> {
        let holds = &mut self.holds;
        let mut rows = Vec::new();
        self.unsaved.retain(|name| {
            let hold = holds.get_mut(name).expect("an unsaved hold is known");
            let is_taken = has_all_leases || !hold.stands();
            if is_taken {
                hold.is_in_flight = true;
                rows.push((name.clone(), hold.row.clone()));
            }
            !is_taken
        });
        self.is_urgent &= !has_all_leases;
        rows
    }

    /// The row of an ended hold is durable: it may be folded after its day.
    pub(in crate::ledger) fn close(&mut self, name: &HoldName) {
        if let Some(hold) = self.holds.get(name).filter(|hold| !hold.stands()) {
            self.ended.entry(hold.row.day).or_default().push(name.clone());
        }
    }

    /// Ended holds of days before one, as long as nothing of them is unsaved.
    pub(in crate::ledger) fn take_due(&mut self, before_day: u32) -> Vec<HoldName> {
        let mut due = BTreeSet::new();
        while let Some(mut entry) = self.ended.first_entry() {
            if before_day <= *entry.key() || due.len() == FOLDS_MAX {
                break;
            }
            let Some(name) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            let is_saved = |hold: &&BookedHold| !hold.stands() && !hold.is_in_flight;
            // Otherwise it comes again with its commit.
            if !self.unsaved.contains(&name) && self.holds.get(&name).filter(is_saved).is_some() {
                due.insert(name);
            }
        }
        due.into_iter().collect()
    }

    /// Applies the outcome of folds.
    pub(in crate::ledger) fn end_folds(&mut self, names: &[HoldName], is_gone: bool) {
        for name in names {
            let has_ended = self.holds.get(name).is_some_and(|hold| !hold.stands());
            if !has_ended || self.unsaved.contains(name) {
                continue;
            }
            if is_gone {
                self.holds.remove(name);
            } else {
                self.close(name);
            }
        }
    }
}
