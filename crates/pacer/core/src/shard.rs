//! A shard's side of budgets: it spends slices of what the ledger has leased, without asking anybody.
//! It reserves, and settles, releases or lets expire each reservation once. What is durable, and who
//! may have how much, is not known here; nor is there a clock: time is given.
//!
//! **The life of a reservation.** Whatever comes twice, late, or in another order ends the same:
//!
//! ```text
//! Open ── claim ──> Claimed ── settle ──> Won
//!   │                  └────── unclaim ──> as before, or given back when its time is over
//!   ├── release ─────> Released ─┐
//!   └── its time ────> Expired ──┴── claim, settle ──> Won, late
//! ```
//!
//! A win that comes after the release or the expiry is real all the same, since the seller bills it: it
//! is booked as late, whole, and to the period of its reservation. Settling waits for the durable log:
//! [`ShardLedger::claim`] keeps a token for its caller, who writes, and then settles, or gives up.
//!
//! **No record of each reservation is kept.** What must be known comes back with its token
//! ([`token`]); here are two bits for each and one sum for each campaign, period and bucket of
//! time. Bits are kept for a late window after the expiry, so that a late win is told from one that is
//! repeated; after it a token is refused as too old, and the durable log must know.
//!
//! **Memory is bounded**, allocated at the start, and never grows: see [`ShardOptions`]. What has no room
//! is refused.

mod accounts;
mod book;
#[cfg(not(feature = "testing"))]
pub(crate) mod bug;
#[cfg(feature = "testing")]
pub mod bug;
mod lane;
mod options;
mod outcome;
#[cfg(test)]
mod tests;
pub mod token;

use units::{Nanos, Tick};

use self::accounts::ShardCampaigns;
use self::bug::{ShardBug, planted};
use self::lane::ExpiryClass;
use self::outcome::ReservationState;
use crate::messages::{
    BudgetGrant, CampaignIndex, Receipt, RefillRequest, SpendReport, SpendingGate, index,
};
use token::{ReservationToken, TokenOrigin, TtlClass};

pub use self::book::PeriodHolding;
pub use self::options::{BUCKETS_MAX, ShardOptions, ShardOptionsError, TTLS_MAX};
pub use self::outcome::{
    Denial, GrantRejected, SettledWin, ShardCounts, Shortage, TokenClaim, TokenRejection,
};

/// When something happens. Neither part goes back: a shard goes by the latest that it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTime {
    /// By which reservations expire and periods end.
    pub tick: Tick,
    /// The quarter of an hour, counted from 1970, by which it is known which period has begun.
    pub quarter: u32,
}

/// What one shard may spend, and what it has reserved.
#[derive(Debug)]
pub struct ShardLedger {
    origin: TokenOrigin,
    now: Tick,
    quarter: u32,
    accounts: ShardCampaigns,
    /// By class of time to live.
    lanes: Vec<ExpiryClass>,
    /// When a reservation expires next, or is forgotten.
    due: Tick,
    counts: ShardCounts,
}

impl ShardLedger {
    /// With all the memory that it will ever have.
    ///
    /// # Errors
    /// Each option out of its range is refused.
    pub fn new(options: &ShardOptions) -> Result<Self, ShardOptionsError> {
        let rooms = options.rooms()?;
        let lanes = options.ttls.iter().zip(rooms);
        let lanes = lanes.map(|(ttl, room)| ExpiryClass::new(*ttl, options.late_window, &room));
        let sizes = [options.slots_max, options.books_max].map(index);
        Ok(Self {
            origin: options.origin,
            now: Tick::ZERO,
            quarter: 0,
            accounts: ShardCampaigns::new(sizes[0], sizes[1], options.horizon()),
            lanes: lanes.collect(),
            due: NEVER,
            counts: ShardCounts::default(),
        })
    }

    /// Who makes its tokens.
    pub const fn origin(&self) -> TokenOrigin {
        self.origin
    }

    /// Takes rights. The same grant again, or an older one, changes nothing.
    ///
    /// # Errors
    /// See [`GrantRejected`]; what is granted and not taken cannot be spent, here or elsewhere.
    pub fn take(&mut self, grant: &BudgetGrant) -> Result<(), GrantRejected> {
        let taken = self.accounts.take(grant);
        self.counts.untaken += u64::from(taken.is_err());
        taken
    }

    /// Takes what is to be answered besides money. The same gate again, or an older one, changes
    /// nothing. A recall sends back all that is free, and all that becomes free until it is lifted.
    ///
    /// # Errors
    /// Only [`GrantRejected::SlotsMax`]: such a campaign stays unknown.
    pub fn take_gate(&mut self, gate: &SpendingGate) -> Result<(), GrantRejected> {
        let taken = self.accounts.take_gate(gate);
        self.counts.untaken += u64::from(taken.is_err());
        taken
    }

    /// Reserves `amount` out of the rights of the period that has begun. It stays reserved for the
    /// class's time to live, and up to a sixteenth more.
    ///
    /// # Errors
    /// The first that holds: the campaign is unknown; its gate is closed (paused, out of flight, ...);
    /// it has not so much free, and then the gate's reason is told if that is a want of money
    /// (exhausted, ...), else that rights are on their way; the shard is full. A gate that is closed for
    /// want of money lets what is granted be spent: the ledger recalls what must not be.
    ///
    /// # Panics
    /// There must be such a class of time to live.
    pub fn reserve(
        &mut self,
        slot: CampaignIndex,
        amount: Nanos,
        ttl: TtlClass,
        at: ShardTime,
    ) -> Result<ReservationToken, Denial> {
        self.quarter = self.quarter.max(at.quarter);
        self.pass(at.tick);
        let spendable = self.accounts.spendable(slot, amount.get(), (self.quarter, self.now));
        let book = spendable.map_err(|refusal| {
            self.accounts.lack(slot, amount.get());
            Denial::Refused(refusal)
        })?;
        let lane = &mut self.lanes[usize::from(ttl.0)];
        let place = lane.place(book, amount.get(), self.now).ok_or(Denial::Full);
        let place = place.inspect_err(|_| self.counts.full += 1)?;
        self.due = self.due.min(place.expires);
        self.counts.reserved += 1;
        Ok(ReservationToken {
            origin: self.origin,
            ttl,
            bucket: place.bucket,
            sequence: place.sequence,
            line: place.line,
            slot,
            period: self.accounts.reserve(book, amount.get()),
            amount,
        })
    }

    /// Whether so much could be reserved now. Where it could not, more is wanted, as after a reservation
    /// that was refused.
    ///
    /// # Errors
    /// As [`Self::reserve`], but for the room of the shard; and how much could be.
    pub fn may_reserve(
        &mut self,
        slot: CampaignIndex,
        amount: Nanos,
        at: ShardTime,
    ) -> Result<(), Shortage> {
        self.quarter = self.quarter.max(at.quarter);
        let when = (self.quarter, self.now.max(at.tick));
        self.accounts.spendable(slot, amount.get(), when).map(drop).map_err(|refusal| {
            self.accounts.lack(slot, amount.get());
            Shortage { refusal, left: Nanos::new(self.accounts.last_of(slot, when)) }
        })
    }

    /// Keeps a token that was won, until it is settled or given up: nobody else gets it meanwhile, and
    /// it does not expire.
    ///
    /// # Errors
    /// See [`TokenRejection`]; never [`TokenRejection::AlreadyReleased`] or [`TokenRejection::Expired`].
    pub fn claim(
        &mut self,
        token: &ReservationToken,
        now: Tick,
    ) -> Result<TokenClaim, TokenRejection> {
        self.pass(now);
        let (book, was) = self.find(token)?;
        match was {
            ReservationState::Claimed => Err(self.reject(TokenRejection::Pending)),
            ReservationState::Won => Err(self.reject(TokenRejection::AlreadyWon)),
            ReservationState::Open => {
                self.lane(token).take_out(token, ReservationState::Claimed);
                Ok(self.claimed(token, book, was))
            }
            ReservationState::Released | ReservationState::Expired => {
                self.lane(token).mark(token, ReservationState::Claimed);
                Ok(self.claimed(token, book, was))
            }
        }
    }

    /// Books a win whose record is durable. Below the reserved amount the remainder may be spent again
    /// while its period lasts, and goes back after; above it, what is more is booked as over.
    ///
    /// # Panics
    /// The claim must be this shard's.
    pub fn settle(&mut self, claim: TokenClaim, price: Nanos) -> SettledWin {
        let TokenClaim { token, book, was } = self.end(claim);
        self.lane(&token).mark(&token, ReservationState::Won);
        let amount = token.amount.get();
        let settlement = if was == ReservationState::Open || planted(ShardBug::SettleLateAsOpen) {
            self.counts.won += 1;
            self.accounts.settle(book, (amount, price.get()), self.now)
        } else {
            self.counts.won_late += 1;
            self.accounts.settle_late(book, price.get())
        };
        self.counts.over += u64::from(settlement.over > Nanos::ZERO);
        settlement
    }

    /// Gives up a claim whose record could not be made durable: the token stands as before, and what
    /// would have expired meanwhile has.
    ///
    /// # Panics
    /// The claim must be this shard's.
    pub fn unclaim(&mut self, claim: TokenClaim) {
        let TokenClaim { token, book, was } = self.end(claim);
        if was != ReservationState::Open {
            self.lane(&token).mark(&token, was);
        } else if !self.lane(&token).put_back(&token) && !planted(ShardBug::StrandUnclaimed) {
            self.accounts.give_back(book, token.amount.get(), self.now);
        }
    }

    /// Gives back what an open reservation holds: it was lost, or never used. How much that is.
    ///
    /// # Errors
    /// See [`TokenRejection`]; nothing has changed then.
    pub fn release(
        &mut self,
        token: &ReservationToken,
        now: Tick,
    ) -> Result<Nanos, TokenRejection> {
        self.pass(now);
        let (book, was) = self.find(token)?;
        let rejection = match was {
            ReservationState::Open => None,
            ReservationState::Claimed => Some(TokenRejection::Pending),
            ReservationState::Won if planted(ShardBug::ReleaseWon) => None,
            ReservationState::Won => Some(TokenRejection::AlreadyWon),
            ReservationState::Released => Some(TokenRejection::AlreadyReleased),
            ReservationState::Expired => Some(TokenRejection::Expired),
        };
        if let Some(rejection) = rejection {
            return Err(self.reject(rejection));
        }
        self.lane(token).take_out(token, ReservationState::Released);
        self.accounts.give_back(book, token.amount.get(), self.now);
        self.counts.released += 1;
        Ok(token.amount)
    }

    /// Ends what ends by `now`: reservations expire, and what is free of periods that are over goes
    /// back. To be called a few times a second, before [`Self::report`]; reservations expire without it
    /// too.
    pub fn advance(&mut self, now: Tick) {
        self.pass(now);
        self.accounts.sweep(self.now);
    }

    /// Ends all spending: nothing is reserved any more, and what is free goes back, now and whenever it
    /// becomes free. What reservations hold stays theirs. To be called once no grant is taken any more;
    /// then [`Self::report`], and how much was taken of each period.
    pub fn close(&mut self, now: Tick) -> Vec<Receipt> {
        self.pass(now);
        self.accounts.close_all()
    }

    /// What has changed since it was reported last. What is not taken from here stays to be reported;
    /// what is taken must arrive, since the last report of a period is not followed by another.
    pub fn report(&mut self) -> impl Iterator<Item = SpendReport> {
        std::iter::from_fn(|| self.accounts.next_report())
    }

    /// Who has less than half of its last slice left, or was refused for want of money, since it was
    /// told last. What is not taken from here stays to be told.
    pub fn want(&mut self) -> impl Iterator<Item = RefillRequest> {
        std::iter::from_fn(|| self.accounts.next_want(self.quarter))
    }

    /// What stands where, the newest period first.
    pub fn holdings(&self, slot: CampaignIndex) -> impl Iterator<Item = PeriodHolding> {
        self.accounts.holdings(slot)
    }

    /// What it has seen.
    pub const fn counts(&self) -> &ShardCounts {
        &self.counts
    }

    /// Lets time pass: all that follows sees what has ended.
    fn pass(&mut self, now: Tick) {
        self.now = self.now.max(now);
        if self.now < self.due {
            return;
        }
        let accounts = &mut self.accounts;
        for lane in &mut self.lanes {
            lane.pass(self.now, |book, amount| accounts.give_back(book, amount, self.now));
        }
        self.due = self.lanes.iter().filter_map(ExpiryClass::due).min().unwrap_or(NEVER);
    }

    /// Where a token stands, and in which book. What it says holds together, or it was never made.
    fn find(
        &mut self,
        token: &ReservationToken,
    ) -> Result<(u32, ReservationState), TokenRejection> {
        let found = self.look(token);
        found.map_err(|rejection| self.reject(rejection))
    }

    fn look(&self, token: &ReservationToken) -> Result<(u32, ReservationState), TokenRejection> {
        let (own, origin) = (self.origin, token.origin);
        if origin.node != own.node {
            return Err(TokenRejection::OtherNode);
        }
        if origin.epoch < own.epoch {
            return Err(TokenRejection::DeadEpoch);
        }
        if origin.epoch > own.epoch {
            return Err(TokenRejection::FutureEpoch);
        }
        if origin.shard != own.shard {
            return Err(TokenRejection::OtherShard);
        }
        let lane = self.lanes.get(usize::from(token.ttl.0)).ok_or(TokenRejection::NeverMade)?;
        let standing = lane.standing(token)?;
        let book = self.accounts.find(token.slot, token.period).ok_or(TokenRejection::NeverMade)?;
        if standing == ReservationState::Open && !lane.covers(token, book) {
            return Err(TokenRejection::NeverMade);
        }
        Ok((book, standing))
    }

    fn reject(&mut self, rejection: TokenRejection) -> TokenRejection {
        self.counts.note(rejection);
        rejection
    }

    fn claimed(
        &mut self,
        token: &ReservationToken,
        book: u32,
        was: ReservationState,
    ) -> TokenClaim {
        self.accounts.claim(book);
        self.counts.pending += 1;
        TokenClaim { token: *token, book, was }
    }

    fn end(&mut self, claim: TokenClaim) -> TokenClaim {
        assert_eq!(claim.token.origin, self.origin, "a claim ends at the shard that gave it");
        self.accounts.end_claim(claim.book);
        self.counts.pending -= 1;
        claim
    }

    /// Of a token that is this shard's.
    fn lane(&mut self, token: &ReservationToken) -> &mut ExpiryClass {
        &mut self.lanes[usize::from(token.ttl.0)]
    }
}

/// The end of time.
const NEVER: Tick = Tick::from_nanos(u64::MAX);
