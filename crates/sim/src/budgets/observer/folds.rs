//! Checks which leases the ledger folds, and that the sums match the folded rows.

use std::collections::BTreeMap;

use pacer_core::messages::CampaignIndex;
use pacer_core::store::{Fold, Lease, LeaseKey, SpentSum, SumKey, UnattributedWin};

use super::super::clock::SimClock;
use super::super::options::HOURS_KEPT;
use super::super::places::start_of;
use super::super::zone::DAY_MS;
use super::{Leases, Observer};

const HOUR_MS: u64 = 3_600_000;

impl Leases {
    /// Whether this process or an earlier one folded the lease.
    pub(super) fn is_folded(&self, key: &LeaseKey) -> bool {
        self.folded.contains_key(key) || self.moved.contains(key)
    }

    /// The leases that the store no longer has, given those it has. All of them were folded.
    pub(super) fn gone(&self, found: &[(LeaseKey, Lease)]) -> BTreeMap<LeaseKey, Lease> {
        let found: BTreeMap<_, _> = found.iter().copied().collect();
        let mut gone = self.folded.clone();
        for (key, lease) in self.committed.iter().filter(|(key, _)| !found.contains_key(*key)) {
            assert!(self.asked.contains(key), "what was committed of {key:?} is kept: {lease:?}");
            gone.insert(*key, *lease);
        }
        for key in found.keys() {
            assert!(!self.is_folded(key), "what was folded does not come back: {key:?}");
        }
        gone
    }

    /// Per campaign, the sums match the spend of the folded leases. A day's sum is at most that
    /// day's spend.
    pub(super) fn check_sums(
        &self,
        gone: &BTreeMap<LeaseKey, Lease>,
        sums: &[(SumKey, SpentSum)],
        applied_seq: u64,
    ) {
        let mut due: BTreeMap<CampaignIndex, SpentSum> = BTreeMap::new();
        let mut of_days: BTreeMap<(CampaignIndex, u32), SpentSum> = BTreeMap::new();
        for (key, lease) in gone {
            let day = self.day_of(key);
            for total in
                [due.entry(key.slot).or_default(), of_days.entry((key.slot, day)).or_default()]
            {
                *total = total.plus(SpentSum::of(lease));
            }
        }
        for (_, stray) in self.strays.range(..=applied_seq) {
            let SumKey { slot, day, .. } = stray.sum;
            let of_day = day.map(|day| of_days.entry((slot, day)).or_default());
            for total in std::iter::once(due.entry(slot).or_default()).chain(of_day) {
                *total = total.plus(stray.spent);
            }
        }
        let mut told: BTreeMap<CampaignIndex, SpentSum> = BTreeMap::new();
        for (key, spent) in sums {
            let total = told.entry(key.slot).or_default();
            *total = total.plus(*spent);
            let Some(day) = key.day else { continue };
            let most = of_days.get(&(key.slot, day)).copied().unwrap_or_default();
            let is_within =
                spent.settled <= most.settled && spent.late <= most.late && spent.over <= most.over;
            assert!(is_within, "{spent:?} of {key:?}, folded {most:?}");
        }
        assert_eq!(told, due, "what is folded counts once");
    }

    fn day_of(&self, key: &LeaseKey) -> u32 {
        self.places.hour(key.slot, start_of(key.period)).day
    }

    /// A batch adds this win to a sum. It must match a record that the ledger received, and counts
    /// once.
    pub(super) fn check_stray(&mut self, stray: &UnattributedWin, applied_seq: u64) {
        let UnattributedWin { seq, sum, spent } = *stray;
        let (key, total, _) = self.records[&seq];
        assert!(seq <= applied_seq, "a stray is applied with its record: {stray:?}");
        assert_eq!((sum.slot, sum.node), (key.slot, key.node), "{stray:?} of {key:?}");
        assert!(sum.day.is_none_or(|day| day == self.day_of(&key)), "{stray:?} of {key:?}");
        let said = spent.settled.get() + spent.late.get() + spent.over.get();
        assert_eq!(said, total, "{stray:?} of {key:?}");
        self.strays.insert(seq, *stray);
    }

    /// Wins that came too late for their lease's row, except ancient ones.
    pub(super) fn strayed(&self, key: &LeaseKey) -> u64 {
        let records = self.strays.keys().map(|seq| self.records[seq]);
        let of_key = records.filter(|(of, _, is_ancient)| of == key && !is_ancient);
        of_key.map(|(_, total, _)| total).sum()
    }

    /// A batch folds this lease or day: no more wins can come, and no clock shows its hour again.
    /// `open` returns the amount of dead reservations that can still be won in time.
    pub(super) fn check_fold(&mut self, fold: &Fold, open: impl Fn(&LeaseKey) -> u64) {
        let latest_ms = self.latest_unix_ms.max(self.unix_ms);
        let key = match fold {
            Fold::Lease(key, day) => {
                assert_eq!(*day, self.day_of(key), "a lease is folded into its day: {key:?}");
                key
            }
            Fold::Day(SumKey { day, .. }) => {
                let ended_ms = u64::from(day.expect("a day is folded") + 1) * DAY_MS;
                assert!(ended_ms < latest_ms, "a day is folded when it is over: {fold:?}");
                return;
            }
        };
        let over_ms = start_of(key.period) + HOUR_MS;
        let kept_ms = u64::try_from(HOURS_KEPT.as_millis()).expect("an hour");
        assert!(over_ms + kept_ms <= latest_ms, "an hour is kept for a while: {key:?}");
        // The store may have refused the row. Then there is nothing to fold.
        let lease = self.committed.get(key).copied().unwrap_or_default();
        let certain = self.certain.get(key).copied().unwrap_or_default();
        assert_eq!(lease, certain, "what is folded is durable: {key:?}");
        assert!(lease.is_closed() && open(key) == 0, "what is folded is closed: {key:?} {lease:?}");
        let told = self.told.get(key).copied().unwrap_or_default();
        let said = lease.settled.get() + lease.late.get() + lease.over.get();
        let due = told.paid + told.beside - self.strayed(key);
        assert!(due <= said, "{told:?} of {key:?}, {said} is folded");
        self.asked.insert(*key);
    }
}

impl Observer {
    /// Leases of past days and daily sums of long ago have been folded.
    pub(in super::super) fn check_rows(
        &self,
        leases: &[(LeaseKey, Lease)],
        sums: &[(SumKey, SpentSum)],
        clock: &SimClock,
    ) {
        let late = leases.iter().find(|(key, _)| start_of(key.period) + DAY_MS < clock.unix_ms);
        assert_eq!(late, None, "an hour of days ago is folded");
        let long_ago =
            |key: &SumKey| key.day.is_some_and(|day| u64::from(day + 4) * DAY_MS < clock.unix_ms);
        assert_eq!(sums.iter().find(|(key, _)| long_ago(key)), None, "a day of long ago is folded");
    }
}
