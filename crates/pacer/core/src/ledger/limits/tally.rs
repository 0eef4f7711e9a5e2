//! The use of limits: sums by total, day and hour, updated as leases change.
//!
//! Owns the sums of one campaign or one account. Knows neither leases nor limits.

use crate::calendar::Period;

/// In nanos.
pub(in crate::ledger) const UNLIMITED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ledger) struct Exposure {
    /// Leased and not returned, whether settled or not.
    pub(in crate::ledger) held: u64,
    /// Spent in addition: late, or above the price.
    pub(in crate::ledger) late: u64,
}

impl Exposure {
    pub(in crate::ledger) fn exposure(self) -> u64 {
        self.held.saturating_add(self.late)
    }

    fn change(&mut self, from: Self, to: Self) {
        let rest = self.held.checked_sub(from.held).expect("a sum contains each of its parts");
        self.held = rest.checked_add(to.held).expect("what is leased fits the books");
        // It never shrinks, so it may saturate.
        let more = to.late.checked_sub(from.late).expect("what was spent stays spent");
        self.late = self.late.saturating_add(more);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) struct HourExposure {
    pub(in crate::ledger) period: Period,
    pub(in crate::ledger) day: u32,
    pub(in crate::ledger) sum: Exposure,
}

/// Sums of a campaign or an account: in total, and by hour of the days that are not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::ledger) struct ExposureTally {
    pub(in crate::ledger) life: Exposure,
    pub(in crate::ledger) hours: Vec<HourExposure>,
    /// Folded sums of such days, from before the start.
    folded: Vec<(u32, Exposure)>,
    /// Hours of earlier days are dropped: only total limits count them.
    today: u32,
}

impl ExposureTally {
    pub(in crate::ledger) fn change(
        &mut self,
        period: Period,
        day: u32,
        from: Exposure,
        to: Exposure,
    ) {
        self.life.change(from, to);
        if day < self.today {
            return;
        }
        match self.hours.iter_mut().find(|hour| hour.period == period) {
            Some(hour) => hour.sum.change(from, to),
            None => {
                let mut sum = Exposure::default();
                sum.change(from, to);
                self.hours.push(HourExposure { period, day, sum });
            }
        }
    }

    pub(in crate::ledger) fn day(&self, day: u32) -> Exposure {
        let mut total = self.folded(day);
        for hour in self.hours.iter().filter(|hour| hour.day == day) {
            total.change(Exposure::default(), hour.sum);
        }
        total
    }

    pub(in crate::ledger) fn folded(&self, day: u32) -> Exposure {
        let folded = self.folded.iter().find(|(of, _)| *of == day);
        folded.map_or(Exposure::default(), |(_, sum)| *sum)
    }

    /// Counts a folded sum, of a day or of all past days.
    pub(in crate::ledger) fn fold(&mut self, day: Option<u32>, sum: Exposure) {
        self.life.change(Exposure::default(), sum);
        let Some(day) = day.filter(|day| self.today <= *day) else { return };
        match self.folded.iter_mut().find(|(of, _)| *of == day) {
            Some((_, total)) => total.change(Exposure::default(), sum),
            None => self.folded.push((day, sum)),
        }
    }

    pub(in crate::ledger) fn hour(&self, period: Period) -> Exposure {
        let hour = self.hours.iter().find(|hour| hour.period == period);
        hour.map_or(Exposure::default(), |hour| hour.sum)
    }

    pub(in crate::ledger) fn begin_day(&mut self, day: u32) {
        if self.today < day {
            self.today = day;
            self.hours.retain(|hour| day <= hour.day);
            self.hours.shrink_to(2);
            self.folded.retain(|(of, _)| day <= *of);
        }
    }
}
