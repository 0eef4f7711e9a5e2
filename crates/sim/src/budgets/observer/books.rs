//! Invariants once faults have ended: budgets are spent to the last nano, and the books are exact.

use std::collections::BTreeMap;

use pacer_core::ledger::{AccountTerms, CampaignTerms, Ledger};
use pacer_core::messages::CampaignIndex;
use pacer_core::store::{Lease, LeaseKey, SpentSum as Folded, SumKey};
use units::Nanos;

use super::super::clock::SimClock;
use super::super::places::{SimLimit, SimLimitOwner, limit_of};
use super::leases::kept_of;
use super::{ObservedSpend, ObservedState, Observer};

impl Observer {
    /// A campaign that has reached none of its present limits (less their holdbacks), with the
    /// amounts used of each. None if there is no such campaign.
    pub(in super::super) fn left(
        &self,
        campaigns: &[CampaignTerms],
        accounts: &[AccountTerms],
        clock: &SimClock,
    ) -> Option<(CampaignIndex, [(SimLimit, u64); 6])> {
        let is_spent = |campaign: &CampaignTerms, (owner, span): SimLimit, used: u64| {
            let (limits, holdback) = match owner {
                SimLimitOwner::Campaign(_) => {
                    (&campaign.budget.limits, campaign.budget.late_holdback)
                }
                SimLimitOwner::Account(id) => {
                    let account = accounts.iter().find(|account| account.id.0 == id);
                    let account = account.expect("an account is defined");
                    (&account.limits, account.late_holdback)
                }
            };
            let limit = limit_of(limits, span);
            limit < u64::MAX && limit <= used + kept_of(holdback, limit)
        };
        campaigns.iter().find_map(|campaign| {
            let used = self.used(campaign.slot, clock);
            let mut levels = used.iter();
            let is_any = levels.any(|(level, used)| is_spent(campaign, *level, *used));
            (!is_any).then_some((campaign.slot, used))
        })
    }

    /// Every reservation has ended, and every lease that the store has or had is closed. Each lease
    /// matches the durable records to the nano, and so do the sums of the leases that were folded.
    pub(in super::super) fn check_books(
        &self,
        leases: &[(LeaseKey, Lease)],
        sums: &[(SumKey, Folded)],
    ) {
        for (id, it) in &self.tokens {
            let is_over = matches!(
                it.state,
                ObservedState::Released | ObservedState::Expired | ObservedState::Won
            );
            assert!(
                is_over && it.record.is_some() == (it.state == ObservedState::Won),
                "{id:?}: {it:?}"
            );
        }
        let mut spent: BTreeMap<LeaseKey, ObservedSpend> = self.spent.clone();
        let gone = self.leases.gone(leases);
        self.leases.check_sums(&gone, sums, u64::MAX);
        for (key, lease) in leases.iter().map(|(key, lease)| (key, lease)).chain(&gone) {
            let back = lease.returned.get() + lease.settled.get();
            assert_eq!(back, lease.granted.get(), "{key:?} is closed: {lease:?}");
            let due = spent.remove(key).unwrap_or_default();
            let total = due.settled + due.late + due.over;
            let told = lease.settled.get() + lease.late.get() + lease.over.get();
            let strayed = due.ancient + self.leases.strayed(key);
            let is_exact = total - strayed <= told && told <= total;
            assert!(is_exact, "{told} spent of {key:?}, by the log {due:?}");
            if due.ancient == 0 && self.leases.is_own(key) && self.is_late_told {
                let figures = [lease.settled, lease.late, lease.over].map(Nanos::get);
                assert_eq!(figures, [due.settled, due.late, due.over], "what {key:?} cost");
            }
        }
        assert!(spent.is_empty(), "spent out of no lease: {spent:?}");
    }

    /// The ledger's spend of every campaign matches the log.
    pub(in super::super) fn check_spend(&self, ledger: &Ledger, slots: u32) {
        for slot in (0..slots).map(CampaignIndex) {
            let of_slot = self.spent.iter().filter(|(key, _)| key.slot == slot);
            let total: u64 = of_slot.map(|(_, it)| it.settled + it.late + it.over).sum();
            // The ledger cannot attribute a win before the campaign is defined.
            let unheard = self.leases.unheard.get(&slot).copied().unwrap_or(0);
            let told = ledger.spend(slot).expect("the campaign is known").life.get();
            let is_exact = total - unheard.min(total) <= told && told <= total;
            assert!(is_exact, "{told} spent by the ledger of {slot:?}, {total} by the log");
            let why = ledger.why(slot);
            let left = (why.at_shards, why.ready, why.frozen);
            assert_eq!(left, (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO), "nothing is left: {why:?}");
        }
    }
}
