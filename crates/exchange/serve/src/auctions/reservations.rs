//! Money of one auction: direct campaigns' bids, and what winners' accounts reserve and release.
//!
//! `exchange-core` and `pacer-core` make all decisions about money.

use exchange_core::campaigns::{DirectAnswer, DirectCall};
use exchange_core::record::{BudgetRefusal, BudgetRefusals, CallOutcome, RecordedCall};
use exchange_core::{
    Auction, BidderCall, Clearing, DspAnswer, Fate, Judgement, Lifetimes, Reservation, Win, clear,
    win_cost,
};
use pacer_core::funnel::FunnelStep;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::ReservationToken;
use units::{Cpm, Currency};

use crate::budgets::campaigns::{Payer, Payers};
use crate::budgets::shard::ShardBudget;
use crate::metrics::BudgetMetrics;
use crate::shard::{ExchangeShard, ShardSnapshot};

/// Direct campaigns' bids in the form of a DSP's answer. They reserve nothing, and may be dropped
/// at any time; the drop keeps the buffer for reuse.
#[derive(Debug)]
pub(crate) struct DirectBids<'p> {
    budget: &'p ShardBudget,
    ask: BidderCall,
    answer: DirectAnswer,
}

impl<'p> DirectBids<'p> {
    /// None if no direct campaign bids. May copy `body`, the request's, to explain campaigns later.
    pub fn bid(
        shard: &'p ExchangeShard,
        snapshot: &ShardSnapshot,
        auction: &Auction<'_>,
        body: &[u8],
        ask: Option<BidderCall>,
    ) -> Option<Self> {
        let (ask, budget) = (ask?, shard.budget()?);
        let call = DirectCall { auction, ask: &ask, limits: &snapshot.config().direct };
        let answer = budget.bid(&snapshot.generation.campaigns.catalogue, &call);
        shard.metrics.direct_left_out.add(answer.left_out);
        let request = auction.request;
        if !request.is_test() && !request.is_coppa() {
            budget.copy_request(body);
        }
        Some(Self { budget, ask, answer }).filter(|direct| !direct.answer.bids.is_empty())
    }

    pub fn answer(&self) -> DspAnswer<'_> {
        DspAnswer { ask: self.ask, body: self.answer.body.as_bytes() }
    }

    /// Counts the bids' outcomes, except for tests. Theirs must be the last answer judged.
    pub fn count(&self, judgement: &Judgement<'_>, clearing: &Clearing) {
        let last = judgement.responses.len() - 1;
        let judged = judgement.bids.iter().filter(|bid| bid.answer == last);
        for (bid, judged) in self.answer.bids.iter().zip(judged) {
            let fate = clearing.fate(judged.entry);
            self.budget.count(bid.slot, step_of(fate));
        }
    }

    /// The record of a call that answered; nothing was sent.
    pub fn call(&self) -> RecordedCall {
        let (outcome, sent, latency) = (CallOutcome::Answered, None, None);
        RecordedCall { ask: self.ask, tmax_ms: 0, outcome, sent, latency }
    }
}

const fn step_of(fate: Fate) -> FunnelStep {
    match fate {
        Fate::Won => FunnelStep::Won,
        Fate::Offered => FunnelStep::Returned,
        Fate::BudgetExhausted => FunnelStep::Refused,
        Fate::LostToHigherBid | Fate::LostToDeal | Fate::GroupIncomplete => FunnelStep::Outbid,
        Fate::WrongAuction
        | Fate::CurrencyNotAccepted
        | Fate::Malformed
        | Fate::NoPrice
        | Fate::BadPrice
        | Fate::NoMarkup
        | Fate::NoCreativeId
        | Fate::UnknownImp
        | Fate::DuplicateBid
        | Fate::SeatUndeclared
        | Fate::SeatNotAllowed
        | Fate::SeatBlocked
        | Fate::DealUnknown
        | Fate::DealNotOffered
        | Fate::DealSeat
        | Fate::DealAdvertiser
        | Fate::PrivateAuction
        | Fate::Size
        | Fate::Format
        | Fate::Protocol
        | Fate::Api
        | Fate::Duration
        | Fate::Insecure
        | Fate::Language
        | Fate::Advertiser
        | Fate::Category
        | Fate::Attribute
        | Fate::AdType
        | Fate::AppBundle
        | Fate::BelowFloor
        | Fate::BelowDealFloor => FunnelStep::Rejected,
    }
}

impl Drop for DirectBids<'_> {
    fn drop(&mut self) {
        self.budget.keep_answer(std::mem::take(&mut self.answer));
    }
}

/// Reservations for the winners of one auction. Releases them if the auction is abandoned.
#[derive(Debug)]
pub(crate) struct AuctionReservations<'t> {
    /// None without budgets, and for tests, which move no money.
    budget: Option<&'t ShardBudget>,
    metrics: &'t BudgetMetrics,
    payers: Payers<'t>,
    auction: &'t Auction<'t>,
    direct: Option<&'t DirectBids<'t>>,
    lifetimes: Lifetimes,
    refusals: BudgetRefusals,
    /// At most one per entry.
    reservations: Vec<WinReservation>,
}

#[derive(Clone, Copy, Debug)]
struct WinReservation {
    entry: usize,
    price: Cpm,
    /// Position of the bid in the judgement.
    bid: usize,
    token: ReservationToken,
    currency: Currency,
}

impl WinReservation {
    /// Whether it covers this win; other bids do not change the price.
    fn pays(&self, win: &Win) -> bool {
        (self.entry, self.price) == (win.entry, win.price)
    }
}

/// A bid's position in the judgement, and its reservation as beacons carry it.
pub(crate) type SealedReservation = (usize, Reservation);

impl<'t> AuctionReservations<'t> {
    pub fn new(
        shard: &'t ExchangeShard,
        snapshot: &'t ShardSnapshot,
        auction: &'t Auction<'t>,
        direct: Option<&'t DirectBids<'t>>,
    ) -> Self {
        let budget = shard.budget().filter(|_| !auction.request.is_test());
        let lifetimes = snapshot
            .generation
            .sealer
            .as_ref()
            .map(|sealer| sealer.notices.lifetimes)
            .unwrap_or_default();
        Self {
            budget,
            metrics: &shard.metrics.budget,
            payers: snapshot.generation.payers(),
            auction,
            direct,
            lifetimes,
            refusals: BudgetRefusals::default(),
            reservations: Vec::new(),
        }
    }

    /// Clears the judged entries anew: releases all reservations, then reserves each winner's price
    /// through [`Self::authorise`].
    pub fn clear(&mut self, judgement: &Judgement<'_>) -> Clearing {
        self.release_unless(|_| false);
        self.refusals.restart();
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let (imps, increment) = (self.auction.imps_len(), self.auction.increment);
        clear(entries, groups, imps, increment, |win| self.authorise(judgement, win))
    }

    /// Reserves the win's price, in place of an earlier price of the same bid.
    pub fn authorise(&mut self, judgement: &Judgement<'_>, win: &Win) -> Result<(), Fate> {
        let Some(budget) = self.budget else { return Ok(()) };
        let Some(payer) = self.payer(judgement, win) else {
            return self.refusals.note(win, Ok(()));
        };
        self.release_unless(|held| held.entry != win.entry);
        let reserved = self.reserve(budget, judgement, win, payer);
        let answer = reserved.map(|held| self.reservations.push(held)).map_err(|refusal| {
            self.metrics.refused[refusal as usize].increment();
            Fate::BudgetExhausted
        });
        self.refusals.note(win, answer)
    }

    fn reserve(
        &self,
        budget: &ShardBudget,
        judgement: &Judgement<'_>,
        win: &Win,
        payer: Payer,
    ) -> Result<WinReservation, SpendRefusal> {
        let Payer { slot, currency } = payer;
        let owed = win_cost(self.auction, judgement, win, currency, &self.lifetimes);
        // The account's currency is no longer configured.
        let owed = owed.ok_or(SpendRefusal::Unknown)?;
        let token = budget.reserve(slot, owed.amount, owed.billable_s)?;
        Ok(WinReservation { entry: win.entry, price: win.price, bid: owed.bid, token, currency })
    }

    /// The account that pays. None for a seat without one.
    fn payer(&self, judgement: &Judgement<'_>, win: &Win) -> Option<Payer> {
        let seat = judgement.entries[win.entry].seat;
        if let Some(direct) = self.direct.filter(|direct| direct.ask.dsp == seat.dsp) {
            let bid = judgement.bid_of(win.entry);
            let answer = judgement.bids[bid].answer;
            let before = judgement.bids[..bid].iter().rev();
            let nth = before.take_while(|before| before.answer == answer).count();
            let campaign = &self.payers.campaigns[direct.answer.bids[nth].campaign];
            return Some(Payer { slot: campaign.slot, currency: campaign.currency });
        }
        self.payers.seats.get(&seat).copied()
    }

    /// Releases all reservations except those of returned bids, whose price is owed from here on.
    pub fn release_all_but_returned(&mut self, judgement: &Judgement<'_>, clearing: &Clearing) {
        let returned = || clearing.wins.iter().flatten().chain(&clearing.also_returned);
        self.release_unless(|held| returned().any(|win| held.pays(win)));
        for win in returned().filter(|_| self.budget.is_some()) {
            let is_held = self.reservations.iter().any(|held| held.pays(win));
            assert!(
                is_held || self.payer(judgement, win).is_none(),
                "nothing is sold that an account pays for and does not hold the price of"
            );
        }
    }

    pub fn sealed(&self) -> Vec<SealedReservation> {
        let Some(budget) = self.budget else { return Vec::new() };
        let seal = |held: &WinReservation| {
            let (token, currency) = (budget.seal(&held.token), held.currency);
            (held.bid, Reservation { token, currency })
        };
        self.reservations.iter().map(seal).collect()
    }

    /// Hands over the reservations of an answered auction: beacons settle those of `billable` bids,
    /// or they expire. Returns the others, which get no beacon.
    pub fn hand_over(
        mut self,
        sealed: Vec<SealedReservation>,
        billable: &[usize],
    ) -> Vec<SealedReservation> {
        assert_eq!(sealed.len(), self.reservations.len(), "all that is held is handed over");
        self.reservations.clear();
        sealed.into_iter().filter(|(bid, _)| !billable.contains(bid)).collect()
    }

    pub fn refusals(&self) -> &[BudgetRefusal] {
        self.refusals.refused()
    }

    fn release_unless(&mut self, is_kept: impl Fn(&WinReservation) -> bool) {
        let Some(budget) = self.budget else { return };
        for released in self.reservations.extract_if(.., |held| !is_kept(held)) {
            budget.release_token(&released.token);
        }
    }
}

impl Drop for AuctionReservations<'_> {
    fn drop(&mut self) {
        self.release_unless(|_| false);
    }
}

#[cfg(test)]
mod tests;
