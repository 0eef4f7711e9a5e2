//! The naive model: every reservation is a record, every sum is recomputed.

use std::collections::BTreeMap;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Open,
    Claimed { was: Was },
    Won,
    Released,
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    Open,
    Released,
    Expired,
}

#[derive(Debug)]
struct Reservation {
    token: ReservationToken,
    bucket: u64,
    expires: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rights {
    granted: u64,
    until: u64,
    returned: u64,
    settled: u64,
    late: u64,
    over: u64,
    reserved: u64,
    reserved_count: u64,
    won_count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Campaign {
    is_known: bool,
    gate: Option<SpendingGate>,
}

pub struct Model {
    options: ShardOptions,
    now: u64,
    quarter: u32,
    campaigns: BTreeMap<u32, Campaign>,
    rights: BTreeMap<(u32, u32), Rights>,
    reservations: Vec<Reservation>,
    /// By class: the newest bucket's number and start.
    newest: [Option<(u64, u64)>; 2],
    buckets: u64,
}

impl Model {
    pub fn new(options: ShardOptions) -> Self {
        Self {
            options,
            now: 0,
            quarter: 0,
            campaigns: BTreeMap::new(),
            rights: BTreeMap::new(),
            reservations: Vec::new(),
            newest: [None; 2],
            buckets: 0,
        }
    }

    fn ttl(&self, class: TtlClass) -> u64 {
        u64::try_from(self.options.ttls[usize::from(class.0)].as_nanos()).expect("short")
    }

    fn late_window(&self) -> u64 {
        u64::try_from(self.options.late_window.as_nanos()).expect("short")
    }

    fn is_recalled(&self, slot: u32) -> bool {
        let gate = self.campaigns.get(&slot).and_then(|campaign| campaign.gate);
        gate.is_some_and(|gate| gate.is_recalled)
    }

    fn reserved(&self, slot: u32, period: u32) -> u64 {
        let holds = |state| matches!(state, State::Open | State::Claimed { was: Was::Open });
        let of = |token: &ReservationToken| {
            token.slot() == CampaignIndex(slot) && token.period() == Period(period)
        };
        let held = self.reservations.iter().filter(|it| of(&it.token) && holds(it.state));
        held.map(|it| it.token.amount().get()).sum()
    }

    fn free(&self, slot: u32, period: u32) -> u64 {
        let rights = self.rights[&(slot, period)];
        rights.granted - rights.returned - rights.settled - self.reserved(slot, period)
    }

    /// Returns what has become free and must not be spent.
    fn freed(&mut self, slot: u32, period: u32, amount: u64) {
        let rights = self.rights[&(slot, period)];
        if self.now >= rights.until || self.is_recalled(slot) {
            self.rights.get_mut(&(slot, period)).expect("known").returned += amount;
        }
    }

    fn return_free(&mut self, slot: u32, period: u32) {
        let free = self.free(slot, period);
        self.rights.get_mut(&(slot, period)).expect("known").returned += free;
    }

    pub fn pass(&mut self, now: u64) {
        self.now = self.now.max(now);
        for at in 0..self.reservations.len() {
            let reservation = &mut self.reservations[at];
            if reservation.state == State::Open && reservation.expires <= self.now {
                reservation.state = State::Expired;
                let token = reservation.token;
                self.freed(token.slot().0, token.period().0, token.amount().get());
            }
        }
    }

    pub fn advance(&mut self, now: u64) {
        self.pass(now);
        let over = self.rights.iter().filter(|(_, rights)| self.now >= rights.until);
        let over: Vec<_> = over.map(|(at, _)| *at).collect();
        over.into_iter().for_each(|(slot, period)| self.return_free(slot, period));
    }

    /// Whether nothing can change a period any more.
    pub fn may_be_retired(&self, slot: u32, period: u32) -> bool {
        let of = |token: &ReservationToken| {
            token.slot() == CampaignIndex(slot) && token.period().0 <= period
        };
        let of_it = self.reservations.iter().filter(|it| of(&it.token));
        let is_over = |it: &Reservation| {
            it.expires + self.late_window() <= self.now
                && !matches!(it.state, State::Claimed { .. })
        };
        let earlier = self.rights.range((slot, 0)..=(slot, period));
        let mut earlier = earlier.map(|((_, period), rights)| (*period, rights));
        of_it.into_iter().all(is_over)
            && earlier
                .all(|(period, rights)| rights.until <= self.now && self.free(slot, period) == 0)
    }

    pub fn take(&mut self, grant: &BudgetGrant) {
        let (slot, period) = (grant.slot.0, grant.period.0);
        let (granted, until) = (grant.granted.get(), grant.until.nanos());
        let known = self.rights.entry((slot, period)).or_default();
        if granted > known.granted {
            (known.granted, known.until) = (granted, until);
            self.campaigns.entry(slot).or_default().is_known = true;
            if self.is_recalled(slot) {
                self.return_free(slot, period);
            }
        } else if granted == known.granted {
            known.until = known.until.min(until);
        }
    }

    pub fn take_gate(&mut self, gate: &SpendingGate) {
        let campaign = self.campaigns.entry(gate.slot.0).or_default();
        campaign.is_known = true;
        if campaign.gate.is_none_or(|known| known.version < gate.version) {
            campaign.gate = Some(*gate);
            if gate.is_recalled {
                let periods = self.rights.range((gate.slot.0, 0)..=(gate.slot.0, u32::MAX));
                let periods: Vec<u32> = periods.map(|((_, period), _)| *period).collect();
                periods.into_iter().for_each(|period| self.return_free(gate.slot.0, period));
            }
        }
    }

    /// The period of a reservation, and its expiry.
    pub fn may_reserve(
        &mut self,
        slot: u32,
        amount: u64,
        class: TtlClass,
        at: ShardTime,
    ) -> Result<Period, Denial> {
        self.quarter = self.quarter.max(at.quarter);
        self.pass(at.tick.nanos());
        let campaign = self.campaigns.get(&slot).filter(|campaign| campaign.is_known);
        let campaign = campaign.ok_or(Denial::Refused(SpendRefusal::Unknown))?;
        let closed = campaign.gate.and_then(|gate| gate.closed);
        let lacks = [
            SpendRefusal::BudgetExhausted,
            SpendRefusal::DayExhausted,
            SpendRefusal::HourExhausted,
            SpendRefusal::LedgerUnavailable,
        ];
        let lack = Denial::Refused(closed.unwrap_or(SpendRefusal::LedgerUnavailable));
        if closed.is_some_and(|closed| !lacks.contains(&closed)) {
            return Err(lack);
        }
        let begun = self.rights.range((slot, 0)..=(slot, self.quarter)).next_back();
        let ((_, period), rights) = begun.ok_or(lack)?;
        if self.now >= rights.until || self.free(slot, *period) < amount {
            return Err(lack);
        }
        let period = Period(*period);
        if self.is_full(slot, period, class) { Err(Denial::Full) } else { Ok(period) }
    }

    fn is_full(&self, slot: u32, period: Period, class: TtlClass) -> bool {
        let of_class = self.reservations.iter().filter(|it| it.token.ttl() == class);
        let of_class: Vec<_> = of_class.collect();
        let is_kept = |it: &&&Reservation| it.expires + self.late_window() > self.now;
        let kept = of_class.iter().filter(is_kept).count();
        let is_open = |it: &&&Reservation| it.expires > self.now;
        let open = of_class.iter().filter(is_open);
        let line = |it: &&Reservation| (it.bucket, it.token.slot(), it.token.period());
        let mut lines: std::collections::BTreeSet<_> = open.map(line).collect();
        let bucket = self.current(class).map_or(u64::MAX, |(bucket, _)| bucket);
        lines.insert((bucket, CampaignIndex(slot), period));
        let most = |number: u32| usize::try_from(number).expect("few");
        kept >= most(self.options.reservations_max) || lines.len() > most(self.options.lines_max)
    }

    /// The current bucket: its number and start.
    fn current(&self, class: TtlClass) -> Option<(u64, u64)> {
        let width = self.ttl(class) / 16;
        self.newest[usize::from(class.0)].filter(|(_, begun)| self.now < begun + width)
    }

    pub fn reserve(&mut self, token: ReservationToken) {
        let class = token.ttl();
        let (bucket, begun) = self.current(class).unwrap_or_else(|| {
            self.buckets += 1;
            (self.buckets, self.now)
        });
        self.newest[usize::from(class.0)] = Some((bucket, begun));
        let expires = begun + self.ttl(class) / 16 + self.ttl(class);
        self.reservations.push(Reservation { token, bucket, expires, state: State::Open });
        let at = (token.slot().0, token.period().0);
        let rights = self.rights.get_mut(&at).expect("known");
        rights.reserved += token.amount().get();
        rights.reserved_count += 1;
    }

    fn find(&mut self, token: &ReservationToken) -> &mut Reservation {
        let found = self.reservations.iter_mut().find(|it| it.token == *token);
        found.expect("the model knows every token that was made")
    }

    fn look(&mut self, token: &ReservationToken, now: u64) -> Result<State, TokenRejection> {
        self.pass(now);
        let (now, late_window) = (self.now, self.late_window());
        let found = self.find(token);
        let is_kept = found.expires + late_window > now;
        if is_kept { Ok(found.state) } else { Err(TokenRejection::TooOld) }
    }

    /// Returns whether it is late.
    pub fn claim(&mut self, token: &ReservationToken, now: u64) -> Result<bool, TokenRejection> {
        let was = match self.look(token, now)? {
            State::Claimed { .. } => return Err(TokenRejection::Pending),
            State::Won => return Err(TokenRejection::AlreadyWon),
            State::Open => Was::Open,
            State::Released => Was::Released,
            State::Expired => Was::Expired,
        };
        self.find(token).state = State::Claimed { was };
        Ok(was != Was::Open)
    }

    pub fn release(&mut self, token: &ReservationToken, now: u64) -> Result<Nanos, TokenRejection> {
        match self.look(token, now)? {
            State::Open => (),
            State::Claimed { .. } => return Err(TokenRejection::Pending),
            State::Won => return Err(TokenRejection::AlreadyWon),
            State::Released => return Err(TokenRejection::AlreadyReleased),
            State::Expired => return Err(TokenRejection::Expired),
        }
        self.find(token).state = State::Released;
        self.freed(token.slot().0, token.period().0, token.amount().get());
        Ok(token.amount())
    }

    pub fn settle(&mut self, token: &ReservationToken, price: u64) {
        let State::Claimed { was } = self.find(token).state else {
            panic!("only what is claimed is settled");
        };
        self.find(token).state = State::Won;
        let (slot, period) = (token.slot().0, token.period().0);
        let rights = self.rights.get_mut(&(slot, period)).expect("known");
        rights.won_count += 1;
        if was == Was::Open {
            let amount = token.amount().get();
            rights.settled += price.min(amount);
            rights.over += price.saturating_sub(amount);
            self.freed(slot, period, amount.saturating_sub(price));
        } else {
            rights.late += price;
        }
    }

    pub fn unclaim(&mut self, token: &ReservationToken) {
        let now = self.now;
        let found = self.find(token);
        let State::Claimed { was } = found.state else {
            panic!("only what is claimed is given up");
        };
        let is_over = was == Was::Open && found.expires <= now;
        found.state = match was {
            Was::Open if !is_over => State::Open,
            Was::Open | Was::Expired => State::Expired,
            Was::Released => State::Released,
        };
        if is_over {
            self.freed(token.slot().0, token.period().0, token.amount().get());
        }
    }

    pub fn holding(&self, slot: u32, period: u32) -> Option<PeriodHolding> {
        let rights = self.rights.get(&(slot, period))?;
        Some(PeriodHolding {
            period: Period(period),
            granted: Nanos::new(rights.granted),
            free: Nanos::new(self.free(slot, period)),
            reserved: Nanos::new(self.reserved(slot, period)),
            settled: Nanos::new(rights.settled),
            returned: Nanos::new(rights.returned),
            late: Nanos::new(rights.late),
            over: Nanos::new(rights.over),
        })
    }

    /// The reports that the ledger must have.
    pub fn reports(&self) -> impl Iterator<Item = SpendReport> {
        self.rights.iter().map(|((slot, period), rights)| SpendReport {
            slot: CampaignIndex(*slot),
            period: Period(*period),
            returned: Nanos::new(rights.returned),
            settled: Nanos::new(rights.settled),
            late: Nanos::new(rights.late),
            over: Nanos::new(rights.over),
            reserved: Nanos::new(rights.reserved),
            reserved_count: rights.reserved_count,
            won_count: rights.won_count,
        })
    }
}
