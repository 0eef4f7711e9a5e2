//! Applies logged events. A log that the rules did not write breaks an assertion.

use super::{Lot, LotHold, LotPhase};
use crate::lots::event::{LotBid, LotEvent, LotEventKind};
use crate::lots::outcome::{
    EndedHold, HoldFate, LotChange, LotNews, LotResult, LotSale, LotStatus,
};
use crate::lots::standing::WinningBid;
use crate::lots::terms::LotPayment;

impl Lot {
    /// Applies an event that [`Lot::decide`] or [`Lot::due`] returned in this state.
    ///
    /// # Panics
    ///
    /// If they would not return this event in this state: see [`Lot::contradiction`].
    pub fn apply(&mut self, event: LotEvent) -> LotChange {
        assert_eq!(self.contradiction(&event), None, "the rules made this event");
        let LotEvent { at_ms, kind } = event;
        let change = match kind {
            LotEventKind::Opened => {
                self.phase = LotPhase::Open;
                LotChange { news: vec![LotNews::Status(LotStatus::Open)], ..LotChange::default() }
            }
            LotEventKind::Bid { bid, .. } => self.apply_bid(bid, at_ms),
            LotEventKind::Extended { closes_ms } => {
                self.end.extend(closes_ms);
                LotChange { news: vec![LotNews::Ends(closes_ms)], ..LotChange::default() }
            }
            LotEventKind::Closed => self.close(),
            LotEventKind::Cancelled { reason } => self.finish(LotResult::Cancelled { reason }),
        };
        self.last_ms = at_ms;
        change
    }

    /// Why an event of the log cannot be the next one of this lot: the log is not of this lot,
    /// damaged, or written by other rules. None if it can be applied.
    pub fn contradiction(&self, event: &LotEvent) -> Option<&'static str> {
        let LotEvent { at_ms, kind } = event;
        let status = self.status_at(*at_ms);
        let (is_possible, rule) = match kind {
            _ if *at_ms < self.last_ms => (false, "the time of a lot never goes back"),
            _ if self.is_over() => (false, "nothing happens to a lot that is over"),
            LotEventKind::Opened => (status == LotStatus::Scheduled, "a lot opens once"),
            LotEventKind::Bid { number, .. } if *number != self.bids.next_number() => {
                (false, "bids are numbered in order")
            }
            LotEventKind::Bid { bid, .. } => {
                (self.judge(status, bid).is_ok(), "the rules accept a logged bid")
            }
            LotEventKind::Extended { closes_ms } => (
                *at_ms < self.ends_ms() && self.ends_ms() < *closes_ms,
                "an extension postpones an end that has not come",
            ),
            LotEventKind::Closed => {
                (status != LotStatus::Scheduled, "a lot opens before it is closed early")
            }
            LotEventKind::Cancelled { .. } => {
                (*at_ms < self.ends_ms(), "a lot that has ended is not cancelled")
            }
        };
        (!is_possible).then_some(rule)
    }

    fn apply_bid(&mut self, bid: LotBid, at_ms: u64) -> LotChange {
        let (before, bidders, ends_ms) =
            (self.auction.standing(false), self.bids.bidders(), self.ends_ms());
        let bid = self.bids.push(bid, at_ms);
        let beaten = self.auction.place(bid);
        let after = self.auction.standing(false);
        self.bids.price_last(after.price);
        if before.leader != Some(bid.bidder) {
            self.end.bid_received(at_ms);
        }
        let news = [
            Some(self.bids.bidders()).filter(|now| *now > bidders).map(LotNews::Bidders),
            self.bids_public().map(LotNews::Bids),
            after.price.filter(|_| before.price != after.price).map(LotNews::Price),
            after.leader.filter(|_| before.leader != after.leader).map(LotNews::Leader),
            (before.reserve_met != after.reserve_met).then_some(LotNews::ReserveMet),
            Some(self.ends_ms()).filter(|now| *now > ends_ms).map(LotNews::Ends),
        ];
        let ended = |number| EndedHold { number, fate: HoldFate::Released };
        LotChange {
            ended_holds: beaten.map(ended).into_iter().collect(),
            news: news.into_iter().flatten().collect(),
        }
    }

    fn close(&mut self) -> LotChange {
        let result = match self.auction.winner() {
            Ok(WinningBid { bid, price }) => {
                let lowest = self.terms.reserve.unwrap_or(self.terms.start_price);
                assert!(lowest <= price && price <= bid.maximum, "the price is within its bounds");
                LotResult::Sold(LotSale {
                    number: bid.number,
                    winner: self.bids.name(bid.bidder).to_owned(),
                    account: self.bids.account(bid.bidder).to_owned(),
                    price,
                    maximum: bid.maximum,
                })
            }
            Err(reason) => LotResult::Unsold(reason),
        };
        self.finish(result)
    }

    /// Ends the lot, and every hold.
    fn finish(&mut self, result: LotResult) -> LotChange {
        let fate = |number| match (&result, self.terms.payment) {
            (LotResult::Sold(sale), LotPayment::AtClose) if sale.number == number => {
                HoldFate::Charged { cost: self.cost(sale.price) }
            }
            _ => HoldFate::Released,
        };
        let ended = |hold: LotHold<'_>| EndedHold { number: hold.number, fate: fate(hold.number) };
        let ended_holds = self.holds().map(ended).collect();
        self.phase = LotPhase::Over(result);
        LotChange { ended_holds, news: vec![LotNews::Status(self.status())] }
    }
}
