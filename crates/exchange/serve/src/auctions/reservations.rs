//! Money of one auction: direct campaigns' bids, and what winners' accounts reserve and release.
//!
//! `exchange-core` and `pacer-core` make all decisions about money.

use std::time::Duration;

use exchange_core::campaigns::{DirectAnswer, DirectCall};
use exchange_core::record::{BudgetRefusal, BudgetRefusals, CallOutcome, RecordedCall};
use exchange_core::{
    Auction, BidderCall, Clearing, DspAnswer, Fate, Judgement, Lifetimes, Reservation, Win, clear,
    offer_others, win_cost,
};
use pacer_core::funnel::FunnelStep;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::token::{ReservationToken, TOKEN_BYTES, TokenText};
use tokio::time::Instant;
use units::{Cpm, Currency};

use crate::budgets::campaigns::{Payer, Payers};
use crate::budgets::remote::ShardPacer;
use crate::budgets::shard::ShardBudget;
use crate::config::PacedSeat;
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
///
/// Budgets of this process answer at once. Those of a remote pacer take a round trip: an auction
/// clears as if the pacer authorised every winner, asks for all that are new, and clears again with
/// its decisions.
#[derive(Debug)]
pub(crate) struct AuctionReservations<'t> {
    /// None without budgets, and for tests, which move no money.
    budget: Option<&'t ShardBudget>,
    /// None without a remote pacer, and for tests.
    pacer: Option<&'t ShardPacer>,
    metrics: &'t BudgetMetrics,
    payers: Payers<'t>,
    auction: &'t Auction<'t>,
    direct: Option<&'t DirectBids<'t>>,
    lifetimes: Lifetimes,
    refusals: BudgetRefusals,
    /// At most one per entry; of a remote pacer, at most one per entry and price.
    reservations: Vec<WinReservation>,
    /// Longest wait of a clearing for the remote pacer.
    pacer_patience: Duration,
    /// Wins that the remote pacer must decide.
    wanted: Vec<Win>,
    /// Entries and prices that it refused.
    refused: Vec<(usize, Cpm)>,
}

#[derive(Clone, Copy, Debug)]
struct WinReservation {
    entry: usize,
    price: Cpm,
    /// Position of the bid in the judgement.
    bid: usize,
    token: HeldToken,
    currency: Currency,
}

#[derive(Clone, Copy, Debug)]
enum HeldToken {
    Own(ReservationToken),
    Remote([u8; TOKEN_BYTES]),
}

/// Who pays for a seat or campaign.
#[derive(Clone, Copy, Debug)]
enum WinPayer<'t> {
    Own(Payer),
    Remote(&'t ShardPacer, &'t PacedSeat),
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
        let moves_money = !auction.request.is_test();
        let budget = shard.budget().filter(|_| moves_money);
        let pacer = shard.parts.pacer.as_ref().filter(|_| moves_money);
        let lifetimes = snapshot
            .generation
            .sealer
            .as_ref()
            .map(|sealer| sealer.notices.lifetimes)
            .unwrap_or_default();
        Self {
            budget,
            pacer,
            metrics: &shard.metrics.budget,
            payers: snapshot.generation.payers(),
            auction,
            direct,
            lifetimes,
            refusals: BudgetRefusals::default(),
            reservations: Vec::new(),
            pacer_patience: snapshot.config().limits.answer_reserve,
            wanted: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Clears the judged entries anew, and reserves each winner's price. Decisions of a remote pacer
    /// stay. It is asked for others, and refuses what it does not answer within `answer_reserve`, and
    /// by `deadline`.
    pub async fn clear(&mut self, judgement: &Judgement<'_>, deadline: Instant) -> Clearing {
        let until = self.decided_by(deadline);
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let (imps, increment) = (self.auction.imps_len(), self.auction.increment);
        loop {
            self.release_unless(|held| matches!(held.token, HeldToken::Remote(_)));
            self.refusals.restart();
            let clearing =
                clear(entries, groups, imps, increment, |win| self.authorise(judgement, win));
            if !self.decide(judgement, until).await {
                return clearing;
            }
        }
    }

    /// Returns losing bids too, as [`offer_others`] does, with their prices reserved.
    pub async fn offer_others(
        &mut self,
        judgement: &Judgement<'_>,
        clearing: &mut Clearing,
        deadline: Instant,
    ) {
        let until = self.decided_by(deadline);
        let cleared = self.pacer.map(|_| (clearing.clone(), self.refusals.clone()));
        loop {
            let auction = self.auction;
            offer_others(auction, judgement, clearing, |win| self.authorise(judgement, win));
            if !self.decide(judgement, until).await {
                return;
            }
            let before = cleared.clone().expect("only a remote pacer decides later");
            (*clearing, self.refusals) = before;
        }
    }

    /// When a clearing that begins now stops waiting for the remote pacer.
    fn decided_by(&self, deadline: Instant) -> Instant {
        match self.pacer {
            Some(_) => deadline.min(Instant::now() + self.pacer_patience),
            None => deadline,
        }
    }

    /// Reserves the win's price, in place of an earlier price of the same bid.
    fn authorise(&mut self, judgement: &Judgement<'_>, win: &Win) -> Result<(), Fate> {
        if self.budget.is_none() && self.pacer.is_none() {
            return Ok(());
        }
        let answer = match self.payer(judgement, win) {
            None => Ok(()),
            Some(WinPayer::Own(payer)) => {
                self.release_unless(|held| held.entry != win.entry);
                let reserved = self.reserve(judgement, win, payer);
                reserved.map(|held| self.reservations.push(held)).map_err(|refusal| {
                    self.metrics.refused[refusal as usize].increment();
                    Fate::BudgetExhausted
                })
            }
            Some(WinPayer::Remote(..)) => self.remember_decision(win),
        };
        self.refusals.note(win, answer)
    }

    /// What the remote pacer decided on this win. Without a decision, it is wanted, and taken as
    /// authorised until the auction clears again.
    fn remember_decision(&mut self, win: &Win) -> Result<(), Fate> {
        if self.refused.contains(&(win.entry, win.price)) {
            return Err(Fate::BudgetExhausted);
        }
        if !self.reservations.iter().any(|held| held.pays(win)) {
            self.wanted.retain(|wanted| wanted.entry != win.entry);
            self.wanted.push(*win);
        }
        Ok(())
    }

    /// Has the remote pacer decide what is wanted. Returns whether anything was: the auction must
    /// clear again.
    async fn decide(&mut self, judgement: &Judgement<'_>, until: Instant) -> bool {
        let wanted = std::mem::take(&mut self.wanted);
        // All are asked before the first decision is awaited, so that they share a batch.
        let ask = |win: &Win| match self.payer(judgement, win) {
            Some(WinPayer::Remote(pacer, seat)) => {
                let lifetimes = &self.lifetimes;
                let cost_in =
                    |currency| win_cost(self.auction, judgement, win, currency, lifetimes);
                (pacer, pacer.ask(seat, cost_in, until))
            }
            _ => unreachable!("only a remote pacer's wins are wanted"),
        };
        let asked: Vec<_> = wanted.iter().map(ask).collect();
        let asked_at = Instant::now();
        for (win, (pacer, asked)) in wanted.iter().zip(asked) {
            let decided = match asked {
                Err(refusal) => Err(refusal),
                Ok(asked) => {
                    let (bid, currency) = (asked.bid, asked.currency);
                    pacer.decided(asked).await.map(|token| WinReservation {
                        entry: win.entry,
                        price: win.price,
                        bid,
                        token: HeldToken::Remote(token),
                        currency,
                    })
                }
            };
            match decided {
                Ok(held) => self.reservations.push(held),
                Err(refusal) => {
                    self.metrics.refused[refusal as usize].increment();
                    self.refused.push((win.entry, win.price));
                }
            }
        }
        if !wanted.is_empty() {
            self.metrics.round_trip.record(asked_at.elapsed());
        }
        !wanted.is_empty()
    }

    fn reserve(
        &self,
        judgement: &Judgement<'_>,
        win: &Win,
        payer: Payer,
    ) -> Result<WinReservation, SpendRefusal> {
        let budget = self.budget.ok_or(SpendRefusal::LedgerUnavailable)?;
        let Payer { slot, currency } = payer;
        let owed = win_cost(self.auction, judgement, win, currency, &self.lifetimes);
        // The account's currency is no longer configured.
        let owed = owed.ok_or(SpendRefusal::Unknown)?;
        let token = HeldToken::Own(budget.reserve(slot, owed.amount, owed.billable_s)?);
        Ok(WinReservation { entry: win.entry, price: win.price, bid: owed.bid, token, currency })
    }

    /// The sold deal of the winner's bid, whose own account pays whatever its seat has.
    fn sold_deal(&self, judgement: &Judgement<'_>, win: &Win) -> Option<usize> {
        if self.payers.sold.is_empty() {
            return None;
        }
        judgement.bids[judgement.bid_of(win.entry)].sold_deal(self.auction)
    }

    /// The account that pays. None for a seat without one.
    fn payer(&self, judgement: &Judgement<'_>, win: &Win) -> Option<WinPayer<'t>> {
        if let Some(sold) = self.sold_deal(judgement, win) {
            return Some(WinPayer::Own(self.payers.sold[sold]));
        }
        let seat = judgement.entries[win.entry].seat;
        if let Some(direct) = self.direct.filter(|direct| direct.ask.dsp == seat.dsp) {
            let bid = judgement.bid_of(win.entry);
            let answer = judgement.bids[bid].answer;
            let before = judgement.bids[..bid].iter().rev();
            let nth = before.take_while(|before| before.answer == answer).count();
            let campaign = &self.payers.campaigns[direct.answer.bids[nth].campaign];
            let payer = Payer { slot: campaign.slot, currency: campaign.currency };
            return Some(WinPayer::Own(payer));
        }
        match self.pacer {
            Some(pacer) => Some(WinPayer::Remote(pacer, self.payers.remote.get(&seat)?)),
            None => Some(WinPayer::Own(*self.payers.seats.get(&seat)?)),
        }
    }

    /// Releases all reservations except those of returned bids, whose price is owed from here on.
    pub fn release_all_but_returned(&mut self, judgement: &Judgement<'_>, clearing: &Clearing) {
        let returned = || clearing.wins.iter().flatten().chain(&clearing.also_returned);
        self.release_unless(|held| returned().any(|win| held.pays(win)));
        for win in returned().filter(|_| self.budget.is_some() || self.pacer.is_some()) {
            let is_held = self.reservations.iter().any(|held| held.pays(win));
            assert!(
                is_held || self.payer(judgement, win).is_none(),
                "nothing is sold that an account pays for and does not hold the price of"
            );
        }
    }

    pub fn sealed(&self) -> Vec<SealedReservation> {
        let seal = |held: &WinReservation| {
            let token = match &held.token {
                HeldToken::Own(token) => self.budget.expect("it made the reservation").seal(token),
                HeldToken::Remote(token) => TokenText::from_bytes(token),
            };
            (held.bid, Reservation { token, currency: held.currency })
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
        for released in self.reservations.extract_if(.., |held| !is_kept(held)) {
            match (released.token, self.budget, self.pacer) {
                (HeldToken::Own(token), Some(budget), _) => budget.release_token(&token),
                (HeldToken::Remote(token), _, Some(pacer)) => pacer.release(token),
                _ => unreachable!("who reserved it is still there"),
            }
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
