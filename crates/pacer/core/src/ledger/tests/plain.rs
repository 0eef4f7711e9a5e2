//! A naive shard with a record per reservation.

use std::collections::BTreeMap;

use units::Nanos;

use crate::calendar::Period;
use crate::messages::{BudgetGrant, CampaignIndex, RefillRequest, SpendReport, SpendingGate};

#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    pub slot: CampaignIndex,
    pub period: Period,
    pub amount: u64,
    pub expires_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    pub granted: u64,
    pub free: u64,
    pub returned: u64,
    pub settled: u64,
    pub late: u64,
    pub over: u64,
    reserved: u64,
    reserved_count: u64,
    until: u64,
    is_changed: bool,
}

#[derive(Default)]
pub struct PlainShard {
    pub cells: BTreeMap<(CampaignIndex, Period), Cell>,
    pub open: Vec<Reservation>,
    pub expired: Vec<Reservation>,
    pub gates: BTreeMap<CampaignIndex, SpendingGate>,
    wants: BTreeMap<CampaignIndex, u64>,
}

impl PlainShard {
    pub fn take_grant(&mut self, grant: &BudgetGrant) {
        let is_recalled = self.is_recalled(grant.slot);
        let cell = self.cells.entry((grant.slot, grant.period)).or_default();
        let more = grant.granted.get().saturating_sub(cell.granted);
        cell.granted += more;
        cell.until = cell.until.max(grant.until.nanos());
        cell.is_changed = true;
        if is_recalled {
            cell.returned += more;
        } else {
            cell.free += more;
        }
    }

    pub fn take_gate(&mut self, gate: SpendingGate) {
        if self.gates.get(&gate.slot).is_some_and(|known| gate.version <= known.version) {
            return;
        }
        self.gates.insert(gate.slot, gate);
        if gate.is_recalled {
            for (_, cell) in self.cells.iter_mut().filter(|((slot, _), _)| *slot == gate.slot) {
                cell.give_up();
            }
        }
    }

    fn is_recalled(&self, slot: CampaignIndex) -> bool {
        self.gates.get(&slot).is_some_and(|gate| gate.is_recalled)
    }

    pub fn reserve(
        &mut self,
        slot: CampaignIndex,
        amount: u64,
        at: (u64, u64),
        expires_at: u64,
    ) -> bool {
        let (now, quarter) = at;
        let Some(gate) = self.gates.get(&slot).copied() else { return false };
        if gate.closed.is_some_and(|reason| !reason.is_out_of_budget()) {
            return false;
        }
        let of_slot = self.cells.range_mut((slot, Period(0))..=(slot, Period(u32::MAX)));
        let has_begun = |period: Period| u64::from(period.0) <= quarter;
        let current = of_slot.rev().find(|((_, period), _)| has_begun(*period));
        let current = current.filter(|(_, cell)| now < cell.until);
        match current {
            Some(((_, period), cell)) if amount <= cell.free => {
                cell.free -= amount;
                cell.reserved += amount;
                cell.reserved_count += 1;
                cell.is_changed = true;
                self.open.push(Reservation { slot, period: *period, amount, expires_at });
                true
            }
            _ => {
                let known = self.wants.entry(slot).or_default();
                *known = (*known).max(amount);
                false
            }
        }
    }

    fn give_back(&mut self, from: &Reservation, amount: u64, now: u64) {
        let is_recalled = self.is_recalled(from.slot);
        let cell = self.cells.get_mut(&(from.slot, from.period)).expect("reserved out of it");
        cell.is_changed = true;
        if now < cell.until && !is_recalled {
            cell.free += amount;
        } else {
            cell.returned += amount;
        }
    }

    pub fn win(&mut self, at: usize, price: u64, now: u64) -> (Reservation, u64, u64) {
        let won = self.open.swap_remove(at);
        let paid = price.min(won.amount);
        self.give_back(&won, won.amount - paid, now);
        let cell = self.cells.get_mut(&(won.slot, won.period)).expect("reserved out of it");
        cell.settled += paid;
        cell.over += price - paid;
        (won, paid, price - paid)
    }

    pub fn win_late(&mut self, at: usize, price: u64) -> Reservation {
        let won = self.expired.swap_remove(at);
        let cell = self.cells.get_mut(&(won.slot, won.period)).expect("reserved out of it");
        cell.late += price;
        cell.is_changed = true;
        won
    }

    pub fn tick(&mut self, now: u64) {
        let (open, over) = self.open.iter().partition(|it| now < it.expires_at);
        self.open = open;
        let over: Vec<Reservation> = over;
        for expired in over {
            self.give_back(&expired, expired.amount, now);
            self.expired.push(expired);
        }
        for cell in self.cells.values_mut().filter(|cell| cell.until <= now) {
            cell.give_up();
        }
    }

    pub fn reports(&mut self) -> Vec<SpendReport> {
        let changed = self.cells.iter_mut().filter(|(_, cell)| cell.is_changed);
        let report = |(&(slot, period), cell): (&(CampaignIndex, Period), &mut Cell)| {
            cell.is_changed = false;
            SpendReport {
                slot,
                period,
                returned: Nanos::new(cell.returned),
                settled: Nanos::new(cell.settled),
                late: Nanos::new(cell.late),
                over: Nanos::new(cell.over),
                reserved: Nanos::new(cell.reserved),
                reserved_count: cell.reserved_count,
                won_count: 0,
            }
        };
        changed.map(report).collect()
    }

    pub fn wants(&mut self) -> Vec<RefillRequest> {
        let wants = std::mem::take(&mut self.wants);
        let is_told = |slot: &CampaignIndex| {
            self.gates.get(slot).is_some_and(|gate| {
                let is_open = gate.closed.is_none_or(|it| it.label() == "ledger_unavailable");
                is_open && !gate.is_recalled
            })
        };
        let told = wants.into_iter().filter(|(slot, _)| is_told(slot));
        told.map(|(slot, amount)| RefillRequest {
            slot,
            amount: Nanos::new(amount),
            refused: Nanos::new(amount),
        })
        .collect()
    }
}

impl Cell {
    fn give_up(&mut self) {
        self.is_changed |= self.free > 0;
        self.returned += std::mem::take(&mut self.free);
    }
}
