//! The sequencer of one lot: one command after the other, in the order of their receipt.
//!
//! A bid waits here for its money, and the commands behind it wait for the bid. The lot's schedule
//! waits too: a bid that was received before the end counts, whenever the money is on hold.

use std::collections::{BTreeMap, VecDeque};

use super::answer::{AcceptedBid, FloorAnswer, FloorRefusal, HISTORY_MAX, LotPage, OfferState};
use super::outlet::FloorOutlet;
use super::record::{LotRecord, LotRecordBody, event_news};
use super::state::{DurableEffect, FloorState, RecordNumber};
use crate::lots::{
    EndedHold, HoldFate, Lot, LotBid, LotChange, LotCommand, LotDecision, LotEvent, LotEventKind,
    LotHold, LotResult, LotTerms,
};
use crate::ports::{
    HoldAttempt, HoldKey, HoldMessage, HoldRefusal, HoldRequest, SoldLot, SoldLotReply,
};

/// What a lot is asked.
pub(super) enum DeskCommand {
    Lot(LotCommand),
    Show {
        bidder: Option<String>,
    },
    /// Creates the lot, which there is by now.
    Create(Box<LotTerms>),
}

/// A command that waits for its turn.
pub(super) struct WaitingCommand<R> {
    pub received_ms: u64,
    pub to: R,
    pub command: DeskCommand,
}

/// A bid that waits for its money.
struct HoldingBid<R> {
    to: R,
    received_ms: u64,
    number: u32,
    bid: LotBid,
    attempt: HoldAttempt,
}

/// A lot and those who wait for it.
pub(super) struct LotDesk<R> {
    pub lot: Lot,
    /// Of its first record in the log. None until that is durable.
    pub first_sequence: Option<u64>,
    pub waiting: VecDeque<WaitingCommand<R>>,
    holding: Option<HoldingBid<R>>,
    /// By which attempts the ledger holds money, by number of the bid.
    attempts: BTreeMap<u32, HoldAttempt>,
    /// What the winner pays at the close. None if the log says that it is paid, the winner pays on
    /// delivery, or there is none.
    charge: Option<HoldMessage>,
    /// Its last record.
    last: RecordNumber,
    offer: Option<OfferState>,
}

impl<R> LotDesk<R> {
    pub fn new(lot: Lot, last: RecordNumber) -> Self {
        Self {
            lot,
            first_sequence: None,
            waiting: VecDeque::new(),
            holding: None,
            attempts: BTreeMap::new(),
            charge: None,
            last,
            offer: None,
        }
    }

    fn key(&self, bid: u32) -> HoldKey {
        HoldKey { lot: self.lot.terms().id.clone(), bid }
    }

    /// Does what can be done by now.
    pub fn advance(
        &mut self,
        now_ms: u64,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        while self.holding.is_none() {
            let Some(next) = self.waiting.pop_front() else { break };
            self.catch_up(next.received_ms, floor, outlet);
            self.obey(next, floor, outlet);
        }
        if self.holding.is_none() {
            self.catch_up(now_ms, floor, outlet);
        }
    }

    /// Logs what the schedule demands by a time, unless lots are paused.
    fn catch_up(
        &mut self,
        at_ms: u64,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        while floor.paused(outlet).is_none()
            && let Some(event) = self.lot.due(at_ms)
        {
            self.log(event, None, floor, outlet);
        }
    }

    fn obey(
        &mut self,
        next: WaitingCommand<R>,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let WaitingCommand { received_ms, to, command } = next;
        let command = match command {
            DeskCommand::Show { bidder } => {
                if let Some(refusal) = floor.untold(self.last, outlet) {
                    return outlet.answer(to, Err(refusal));
                }
                let page = self.page(bidder.as_deref());
                return self.answer(to, Ok(FloorAnswer::Lot(Box::new(page))), floor, outlet);
            }
            DeskCommand::Create(terms) => {
                let is_same = self.lot.terms() == &*terms;
                let page = is_same.then(|| FloorAnswer::Lot(Box::new(self.page(None))));
                return self.answer(to, page.ok_or(FloorRefusal::LotExists), floor, outlet);
            }
            DeskCommand::Lot(command) => command,
        };
        if let Some(reason) = floor.paused(outlet) {
            return self.answer(to, Err(FloorRefusal::Paused(reason)), floor, outlet);
        }
        let bidder = match &command {
            LotCommand::Bid(bid) => Some(bid.bidder.clone()),
            _ => None,
        };
        match self.lot.decide(received_ms, command) {
            Err(refusal) => self.answer(to, Err(FloorRefusal::Lot(refusal)), floor, outlet),
            Ok(LotDecision::Repeated { number }) => {
                let answer = self.accepted(number, true, bidder.as_deref());
                self.answer(to, Ok(answer), floor, outlet);
            }
            Ok(LotDecision::Event(LotEvent {
                kind: LotEventKind::Bid { number, bid }, ..
            })) => {
                self.ask_for_money(HoldingWanted { to, received_ms, number, bid }, floor, outlet);
            }
            Ok(LotDecision::Event(event)) => {
                self.log(event, None, floor, outlet);
                let page = self.page(None);
                self.answer(to, Ok(FloorAnswer::Lot(Box::new(page))), floor, outlet);
            }
        }
    }

    fn ask_for_money(
        &mut self,
        wanted: HoldingWanted<R>,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let HoldingWanted { to, received_ms, number, bid } = wanted;
        let (attempt, key) = (floor.next_attempt(), self.key(number));
        let (amount, replaces) = self.lot.needed_hold(&bid);
        let request = HoldRequest {
            key,
            attempt,
            account: bid.account.clone(),
            currency: bid.currency,
            amount,
            replaces,
        };
        if !floor.place(HoldMessage::Place(request), outlet) {
            return self.answer(to, Err(FloorRefusal::Busy), floor, outlet);
        }
        self.holding = Some(HoldingBid { to, received_ms, number, bid, attempt });
    }

    /// Whose money is asked for now.
    pub fn asked(&self) -> Option<(HoldKey, HoldAttempt)> {
        self.holding.as_ref().map(|holding| (self.key(holding.number), holding.attempt))
    }

    /// The money of the bid is on hold, or why not: the bid is logged, or refused.
    pub fn held(
        &mut self,
        attempt: HoldAttempt,
        refusal: Option<HoldRefusal>,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        // It was given up, and its end is told.
        let Some(holding) = self.holding.take_if(|holding| holding.attempt == attempt) else {
            return;
        };
        let HoldingBid { to, received_ms, number, bid, attempt } = holding;
        let refusal = match refusal {
            Some(refusal) => Some(FloorRefusal::Hold(refusal)),
            None => floor.paused(outlet).map(|reason| {
                self.release(number, attempt, floor, outlet);
                FloorRefusal::Paused(reason)
            }),
        };
        if let Some(refusal) = refusal {
            return self.answer(to, Err(refusal), floor, outlet);
        }
        let at_ms = self.lot.last_ms().max(received_ms);
        let bidder = bid.bidder.clone();
        let event = LotEvent { at_ms, kind: LotEventKind::Bid { number, bid } };
        self.log(event, Some(attempt), floor, outlet);
        let answer = self.accepted(number, false, Some(&bidder));
        self.answer(to, Ok(answer), floor, outlet);
    }

    /// Gives up waiting for the money of the attempt. Its number is used again.
    pub fn give_up(
        &mut self,
        attempt: HoldAttempt,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let Some(holding) = self.holding.take_if(|holding| holding.attempt == attempt) else {
            return;
        };
        self.release(holding.number, attempt, floor, outlet);
        let refusal = HoldRefusal::Unavailable("it did not answer in time".to_owned());
        self.answer(holding.to, Err(FloorRefusal::Hold(refusal)), floor, outlet);
    }

    fn release(
        &self,
        number: u32,
        attempt: HoldAttempt,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let (key, fate) = (self.key(number), HoldFate::Released);
        floor.send(HoldMessage::End { key, attempt, fate }, outlet);
    }

    /// Applies an event and logs it; what follows from it happens once it is durable.
    fn log(
        &mut self,
        event: LotEvent,
        attempt: Option<HoldAttempt>,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let (at_ms, kind) = (event.at_ms, event.kind.clone());
        let due_before = self.lot.due_ms();
        let (ended, news) = self.apply(event, attempt);
        let id = self.lot.terms().id.clone();
        let record = LotRecord {
            lot: id.clone(),
            at_ms,
            body: LotRecordBody::Event { kind, attempt },
            news,
        };
        self.last = floor.log(record, outlet);
        for message in ended {
            floor.after(self.last, DurableEffect::Hold(message), outlet);
        }
        if let Some(sold) = self.sold() {
            self.offer = Some(OfferState::Pending);
            floor.after(self.last, DurableEffect::Offer(sold), outlet);
        }
        if due_before != self.lot.due_ms() {
            floor.reschedule(id, due_before, self.lot.due_ms());
        }
    }

    /// Applies an event. Returns the ends of holds, and the news.
    pub fn apply(
        &mut self,
        event: LotEvent,
        attempt: Option<HoldAttempt>,
    ) -> (Vec<HoldMessage>, Option<String>) {
        let name = event.kind.name();
        if let LotEventKind::Bid { number, .. } = &event.kind {
            let attempt = attempt.expect("a bid is logged once its money is on hold");
            self.attempts.insert(*number, attempt);
        }
        let LotChange { ended_holds, news } = self.lot.apply(event);
        let mut ended = Vec::new();
        for EndedHold { number, fate } in ended_holds {
            let attempt = self.attempts.remove(&number).expect("a hold that ends has begun");
            let message = HoldMessage::End { key: self.key(number), attempt, fate };
            if matches!(fate, HoldFate::Charged { .. }) {
                self.charge = Some(message.clone());
            }
            ended.push(message);
        }
        assert!(
            self.lot.holds().all(|hold| self.attempts.contains_key(&hold.number))
                && self.lot.holds().count() == self.attempts.len(),
            "the ledger holds the money of the bids that stand, and of no other"
        );
        (ended, (!news.is_empty()).then(|| event_news(&self.lot, name)))
    }

    /// What the ledger must know of it after a start: standing bids, and what the winner paid at the
    /// close, which it may not have learnt before.
    pub fn money(&self) -> Vec<HoldMessage> {
        let request = |hold: LotHold<'_>| {
            HoldMessage::Standing(HoldRequest {
                key: self.key(hold.number),
                attempt: self.attempts[&hold.number],
                account: hold.account.to_owned(),
                currency: self.lot.terms().currency,
                amount: hold.amount,
                replaces: None,
            })
        };
        self.lot.holds().map(request).chain(self.charge.clone()).collect()
    }

    /// The ledger has ended a hold: if the winner has paid by it, that is logged.
    pub fn ended(
        &mut self,
        now_ms: u64,
        attempt: HoldAttempt,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        let is_charge = |message: &mut HoldMessage| matches!(message, HoldMessage::End { attempt: own, .. } if *own == attempt);
        if self.charge.take_if(is_charge).is_some() {
            let (lot, body) = (self.lot.terms().id.clone(), LotRecordBody::Paid);
            self.last = floor.log(LotRecord { lot, at_ms: now_ms, body, news: None }, outlet);
        }
    }

    /// The log says that the winner has paid.
    pub fn paid(&mut self) {
        self.charge = None;
    }

    /// What the exchange is to deliver. None unless it is sold.
    pub fn sold(&self) -> Option<SoldLot> {
        let Some(LotResult::Sold(sale)) = self.lot.result() else { return None };
        let terms = self.lot.terms();
        Some(SoldLot {
            lot: terms.id.clone(),
            deal: terms.deal.clone(),
            winner: sale.winner.clone(),
            account: sale.account.clone(),
            price: sale.price,
            currency: terms.currency,
            impressions: terms.impressions,
            payment: terms.payment,
        })
    }

    /// What became of its deal.
    pub fn offered(&mut self, reply: SoldLotReply) {
        // It may be of a lot that was forgotten, whose id is taken again.
        if let Some(offer) = &mut self.offer {
            *offer = match reply.offered {
                Ok(()) => OfferState::Offered,
                Err(reason) => OfferState::Failed { reason },
            };
        }
    }

    /// Its deal is to be offered.
    pub fn offer_pending(&mut self) {
        self.offer = Some(OfferState::Pending);
    }

    /// Until when it is needed, in Unix milliseconds. None before its end is durable and paid.
    pub fn needed_until_ms(&self, durable: RecordNumber) -> Option<u64> {
        let last_ms = self.lot.result().map(|_| self.lot.last_ms())?;
        let delivered = self.sold().map(|sold| sold.deal.ends_ms);
        let is_idle = self.holding.is_none() && self.waiting.is_empty();
        let is_settled = self.last <= durable && self.charge.is_none();
        (is_idle && is_settled).then(|| delivered.map_or(last_ms, |ends_ms| ends_ms.max(last_ms)))
    }

    fn accepted(&self, number: u32, repeated: bool, bidder: Option<&str>) -> FloorAnswer {
        let own = bidder.and_then(|bidder| self.lot.bidder_view(bidder));
        FloorAnswer::Accepted(Box::new(AcceptedBid { number, repeated, lot: self.lot.view(), own }))
    }

    fn page(&self, bidder: Option<&str>) -> LotPage {
        let mut history: Vec<_> = self.lot.history().rev().take(HISTORY_MAX).collect();
        history.reverse();
        let own = bidder.and_then(|bidder| self.lot.bidder_view(bidder));
        LotPage { lot: self.lot.view(), own, history, offer: self.offer.clone() }
    }

    /// Answers once all that the answer may show is durable.
    fn answer(
        &self,
        to: R,
        answer: Result<FloorAnswer, FloorRefusal>,
        floor: &mut FloorState<R>,
        outlet: &mut impl FloorOutlet<R>,
    ) {
        floor.after(self.last, DurableEffect::Answer(to, answer), outlet);
    }
}

/// A bid that the rules accept.
struct HoldingWanted<R> {
    to: R,
    received_ms: u64,
    number: u32,
    bid: LotBid,
}
