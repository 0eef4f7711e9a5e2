//! A shard's side of budgets: spends slices of the ledger's leases without asking the ledger.
//!
//! Each reservation is settled, released or expired exactly once. The shard knows neither the
//! durable log nor who gets which budget, and has no clock: callers pass the time.
//!
//! **The life of a reservation.** Repeated, late or reordered events end the same:
//!
//! ```text
//! Open ── claim ──> Claimed ── settle ──> Won
//!   │                  └────── unclaim ──> as before, or returned if its time is over
//!   ├── release ─────> Released ─┐
//!   └── expiry ──────> Expired ──┴── claim, settle ──> Won, late
//! ```
//!
//! A win after release or expiry is real, since the seller bills it: the shard books all of it as
//! late, in the period of its reservation. Settling waits for the durable log:
//! [`ShardLedger::claim`] locks a token for its caller, who writes the record and then settles or
//! gives up.
//!
//! **No record per reservation.** The [`token`] carries the details. The shard keeps two bits per
//! reservation and one sum per campaign, period and time bucket. It keeps the bits for a late
//! window after expiry, to distinguish a late win from a repeated one. After that it refuses the
//! token as too old, and the durable log must decide.
//!
//! **Memory is bounded**: allocated at the start, it never grows (see [`ShardOptions`]). The shard
//! refuses what does not fit.

mod accounts;
mod authorise;
mod book;
mod earlier;
mod funnel;
mod lane;
mod options;
mod outcome;
mod paced;
#[cfg(test)]
mod tests;
pub mod token;

use std::hint::black_box;

use units::{Nanos, Tick};

use self::accounts::ShardCampaigns;
use self::lane::{ExpiryClass, TokenPlace};
use self::outcome::ReservationState;
use crate::messages::{
    BudgetGrant, CampaignIndex, Receipt, RefillRequest, SpendReport, SpendingGate, index,
};
use token::{ReservationToken, TokenOrigin, TtlClass};

pub use self::authorise::{Authorisation, AuthorisationRequest, PricedBatch, SpendCandidate};
pub use self::book::PeriodHolding;
pub use self::earlier::EarlierWins;
pub use self::funnel::ShardFunnel;
pub use self::options::{BUCKETS_MAX, ShardOptions, ShardOptionsError, TTLS_MAX};
pub use self::outcome::{
    Denial, GrantRejected, SettledWin, ShardCounts, Shortage, TokenClaim, TokenRejection,
};
pub use self::paced::{PacedShard, TurnLimits};

/// The current time. Neither part goes back: a shard uses the latest value that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTime {
    /// Clock of expiries and period ends.
    pub tick: Tick,
    /// Quarter-hours since 1970: decides which period has begun.
    pub quarter: u32,
}

/// The budget slices and the reservations of one shard.
#[derive(Debug)]
pub struct ShardLedger {
    origin: TokenOrigin,
    now: Tick,
    quarter: u32,
    accounts: ShardCampaigns,
    lanes: Vec<ExpiryClass>,
    due: Tick,
    counts: ShardCounts,
}

impl ShardLedger {
    /// Allocates all memory that the shard will ever use.
    ///
    /// # Errors
    /// Refuses options out of range.
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

    /// The origin in this shard's tokens.
    pub const fn origin(&self) -> TokenOrigin {
        self.origin
    }

    /// Takes a grant. A repeated or older grant changes nothing.
    ///
    /// # Errors
    /// See [`GrantRejected`]; a rejected grant cannot be spent, here or elsewhere.
    pub fn take(&mut self, grant: &BudgetGrant) -> Result<(), GrantRejected> {
        let taken = self.accounts.take(grant);
        self.counts.untaken += u64::from(taken.is_err());
        taken
    }

    /// Takes a gate. A repeated or older gate changes nothing. A recall returns all that is free,
    /// and all that becomes free until it is lifted.
    ///
    /// # Errors
    /// Only [`GrantRejected::SlotsMax`]: the campaign stays unknown.
    pub fn take_gate(&mut self, gate: &SpendingGate) -> Result<(), GrantRejected> {
        let taken = self.accounts.take_gate(gate);
        self.counts.untaken += u64::from(taken.is_err());
        taken
    }

    /// Reserves `amount` of the current period's budget, for the class's time to live and up to a
    /// sixteenth more.
    ///
    /// # Errors
    /// The first that holds: the campaign is unknown; its gate is closed (paused, out of flight,
    /// ...); too little is free; the shard is full. If too little is free, the error is the gate's
    /// reason when that is a lack of budget, otherwise that a refill is on its way. A gate that is
    /// closed for lack of budget does not stop granted budget from being spent: the ledger recalls
    /// what must not be.
    ///
    /// # Panics
    /// If the class of time to live does not exist.
    pub fn reserve(
        &mut self,
        slot: CampaignIndex,
        amount: Nanos,
        ttl: TtlClass,
        at: ShardTime,
    ) -> Result<ReservationToken, Denial> {
        self.quarter = self.quarter.max(at.quarter);
        self.pass(at.tick);
        let spendable = self.accounts.spendable(slot, amount.get(), self.quarter, self.now);
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

    /// Reads a campaign's book, and where its sum is. The result means nothing.
    #[inline]
    pub(crate) fn warm_book(&self, slot: CampaignIndex) -> u64 {
        self.accounts.warm(slot)
    }

    /// Reads a campaign's sum. The result means nothing.
    #[inline]
    pub(crate) fn warm_sum(&self, slot: CampaignIndex, ttl: TtlClass) -> u64 {
        self.lanes[usize::from(ttl.0)].warm(self.accounts.newest(slot))
    }

    /// Whether `amount` could be reserved now. If not, the shard requests a refill, as after a
    /// refused reservation.
    ///
    /// # Errors
    /// As [`Self::reserve`] except for a full shard, plus how much could be reserved.
    pub fn may_reserve(
        &mut self,
        slot: CampaignIndex,
        amount: Nanos,
        at: ShardTime,
    ) -> Result<(), Shortage> {
        self.quarter = self.quarter.max(at.quarter);
        let (quarter, now) = (self.quarter, self.now.max(at.tick));
        self.accounts.spendable(slot, amount.get(), quarter, now).map(drop).map_err(|refusal| {
            self.accounts.lack(slot, amount.get());
            Shortage { refusal, left: Nanos::new(self.accounts.last_of(slot, quarter, now)) }
        })
    }

    /// Reads what claims or settlements of these tokens will need, in steps that depend on each
    /// other, and in each for all tokens at once: the processor waits for memory once, and not for
    /// each of them. Some dozens of tokens are a good number.
    pub fn warm_tokens<'t>(&self, tokens: impl Iterator<Item = &'t ReservationToken> + Clone) {
        let read = tokens.clone().fold(0, |read, token| {
            let lane = self.lanes.get(usize::from(token.ttl.0));
            read ^ lane.map_or(0, |lane| lane.warm_token(token))
                ^ u64::from(self.accounts.newest(token.slot))
        });
        black_box(tokens.fold(read, |read, token| read ^ self.accounts.warm(token.slot)));
    }

    /// Locks a won token until it is settled or given up. Meanwhile nobody else can claim it, and
    /// it does not expire.
    ///
    /// # Errors
    /// See [`TokenRejection`]; never [`TokenRejection::AlreadyReleased`] or
    /// [`TokenRejection::Expired`].
    pub fn claim(
        &mut self,
        token: &ReservationToken,
        now: Tick,
    ) -> Result<TokenClaim, TokenRejection> {
        self.pass(now);
        let found = self.find(token)?;
        let place = found.place;
        match found.was {
            ReservationState::Claimed => Err(self.reject(TokenRejection::Pending)),
            ReservationState::Won => Err(self.reject(TokenRejection::AlreadyWon)),
            ReservationState::Open => {
                self.lane(token).take_out(&place, token.amount.get(), ReservationState::Claimed);
                Ok(self.claimed(token, &found))
            }
            ReservationState::Released | ReservationState::Expired => {
                self.lane(token).mark(place.sequence, ReservationState::Claimed);
                Ok(self.claimed(token, &found))
            }
        }
    }

    /// Books a win whose record is durable. If the price is below the reservation, the remainder
    /// can be spent until the period ends and is then returned; the excess of a higher price is
    /// booked as over.
    ///
    /// # Panics
    /// If the claim is another shard's.
    pub fn settle(&mut self, claim: TokenClaim, price: Nanos) -> SettledWin {
        let TokenClaim { token, book, was, sequence } = self.end(claim);
        self.lane(&token).mark(sequence, ReservationState::Won);
        let amount = token.amount.get();
        let settlement = if was == ReservationState::Open {
            self.counts.won += 1;
            self.accounts.settle(book, amount, price.get(), self.now)
        } else {
            self.counts.won_late += 1;
            self.accounts.settle_late(book, price.get())
        };
        self.counts.over += u64::from(settlement.over > Nanos::ZERO);
        settlement
    }

    /// Gives up a claim whose record could not be made durable. The token returns to its former
    /// state, or expires if its time has passed.
    ///
    /// # Panics
    /// If the claim is another shard's.
    pub fn unclaim(&mut self, claim: TokenClaim) {
        let TokenClaim { token, book, was, sequence } = self.end(claim);
        if was != ReservationState::Open {
            self.lane(&token).mark(sequence, was);
        } else if !self.lane(&token).put_back(&token) {
            self.accounts.give_back(book, token.amount.get(), self.now);
        }
    }

    /// Releases an open reservation (lost or unused) and returns its amount.
    ///
    /// # Errors
    /// See [`TokenRejection`]; then nothing has changed.
    pub fn release(
        &mut self,
        token: &ReservationToken,
        now: Tick,
    ) -> Result<Nanos, TokenRejection> {
        self.pass(now);
        let FoundToken { book, was, place } = self.find(token)?;
        let rejection = match was {
            ReservationState::Open => None,
            ReservationState::Claimed => Some(TokenRejection::Pending),
            ReservationState::Won => Some(TokenRejection::AlreadyWon),
            ReservationState::Released => Some(TokenRejection::AlreadyReleased),
            ReservationState::Expired => Some(TokenRejection::Expired),
        };
        if let Some(rejection) = rejection {
            return Err(self.reject(rejection));
        }
        self.lane(token).take_out(&place, token.amount.get(), ReservationState::Released);
        self.accounts.give_back(book, token.amount.get(), self.now);
        self.counts.released += 1;
        Ok(token.amount)
    }

    /// Expires reservations and ended periods. Call it a few times a second, before
    /// [`Self::report`].
    pub fn advance(&mut self, now: Tick) {
        self.pass(now);
        self.accounts.sweep(self.now);
    }

    /// Ends all reserving: what is free, or becomes free, is returned. Open reservations keep their
    /// money. Call it after the last grant; then call [`Self::report`]. Returns how much was taken
    /// of each period.
    pub fn close(&mut self, now: Tick) -> Vec<Receipt> {
        self.pass(now);
        self.accounts.close_all()
    }

    /// Reports that changed since the previous call. Reports left in the iterator come again.
    /// Reports taken must arrive, since the last one of a period has no successor.
    pub fn report(&mut self) -> impl Iterator<Item = SpendReport> {
        std::iter::from_fn(|| self.accounts.next_report())
    }

    /// Campaigns below half of their last slice, or refused for lack of budget, since the previous
    /// call. Requests left in the iterator come again.
    pub fn want(&mut self) -> impl Iterator<Item = RefillRequest> {
        std::iter::from_fn(|| self.accounts.next_want(self.quarter))
    }

    /// A campaign's balances, newest period first.
    pub fn holdings(&self, slot: CampaignIndex) -> impl Iterator<Item = PeriodHolding> {
        self.accounts.holdings(slot)
    }

    /// Counters since the start.
    pub const fn counts(&self) -> &ShardCounts {
        &self.counts
    }

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

    /// The state of a token, and its book. Refuses a token whose fields are inconsistent.
    fn find(&mut self, token: &ReservationToken) -> Result<FoundToken, TokenRejection> {
        let found = self.look(token);
        found.map_err(|rejection| self.reject(rejection))
    }

    fn look(&self, token: &ReservationToken) -> Result<FoundToken, TokenRejection> {
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
        let place = lane.find(token)?;
        let was = lane.standing(&place);
        let book = self.accounts.find(token.slot, token.period).ok_or(TokenRejection::NeverMade)?;
        if was == ReservationState::Open && !lane.covers(&place, token.amount.get(), book) {
            return Err(TokenRejection::NeverMade);
        }
        Ok(FoundToken { book, was, place })
    }

    fn reject(&mut self, rejection: TokenRejection) -> TokenRejection {
        self.counts.note(rejection);
        rejection
    }

    fn claimed(&mut self, token: &ReservationToken, found: &FoundToken) -> TokenClaim {
        let FoundToken { book, was, place } = *found;
        self.accounts.claim(book);
        self.counts.pending += 1;
        TokenClaim { token: *token, book, was, sequence: place.sequence }
    }

    fn end(&mut self, claim: TokenClaim) -> TokenClaim {
        assert_eq!(claim.token.origin, self.origin, "a claim ends at the shard that gave it");
        self.accounts.end_claim(claim.book);
        self.counts.pending -= 1;
        claim
    }

    fn lane(&mut self, token: &ReservationToken) -> &mut ExpiryClass {
        &mut self.lanes[usize::from(token.ttl.0)]
    }
}

/// A token that this shard made: its book, its state, and where that is.
struct FoundToken {
    book: u32,
    was: ReservationState,
    place: TokenPlace,
}

const NEVER: Tick = Tick::from_nanos(u64::MAX);
