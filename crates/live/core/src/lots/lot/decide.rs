//! Decides commands: returns the event to log, or the refusal.

use super::Lot;
use crate::lots::event::{LotBid, LotCommand, LotDecision, LotEvent, LotEventKind};
use crate::lots::outcome::LotStatus;
use crate::lots::refusal::LotRefusal;

impl Lot {
    /// Decides a command that the server received now. The event must be logged, and applied before
    /// the next command is decided. Events that are due come first ([`Lot::due`]).
    pub fn decide(&self, now_ms: u64, command: LotCommand) -> Result<LotDecision, LotRefusal> {
        // The clock may go back; the lot's time does not.
        let at_ms = self.last_ms.max(now_ms);
        let status = self.status_at(at_ms);
        let kind = match command {
            LotCommand::Bid(bid) => match self.repeated(&bid) {
                Some(number) => return Ok(LotDecision::Repeated { number }),
                None => {
                    self.judge(status, &bid)?;
                    LotEventKind::Bid { number: self.bids.next_number(), bid }
                }
            },
            LotCommand::Open => match status {
                LotStatus::Scheduled => LotEventKind::Opened,
                LotStatus::Open => return Err(LotRefusal::AlreadyOpen),
                _ => return Err(LotRefusal::NotOpen { status }),
            },
            LotCommand::Extend { closes_ms } => {
                must_run(status)?;
                if closes_ms <= self.ends_ms() {
                    return Err(LotRefusal::NotLater { ends_ms: self.ends_ms() });
                }
                LotEventKind::Extended { closes_ms }
            }
            LotCommand::Close => match status {
                LotStatus::Open => LotEventKind::Closed,
                _ => return Err(LotRefusal::NotOpen { status }),
            },
            LotCommand::Cancel { reason } => {
                must_run(status)?;
                LotEventKind::Cancelled { reason }
            }
        };
        Ok(LotDecision::Event(LotEvent { at_ms, kind }))
    }

    /// Number of the accepted bid that this one repeats.
    fn repeated(&self, bid: &LotBid) -> Option<u32> {
        let alias = self.bids.alias(&bid.bidder)?;
        let earlier = self.bids.keyed(alias, &bid.key)?;
        let is_equal = earlier.maximum == bid.maximum && bid.currency == self.terms.currency;
        is_equal.then_some(earlier.number)
    }

    /// Why a bid that repeats none is refused in a status.
    pub(super) fn judge(&self, status: LotStatus, bid: &LotBid) -> Result<(), LotRefusal> {
        let terms = &self.terms;
        if status != LotStatus::Open {
            return Err(LotRefusal::NotOpen { status });
        }
        if !terms.invited.is_empty() && !terms.invited.contains(&bid.bidder) {
            return Err(LotRefusal::NotInvited);
        }
        if bid.currency != terms.currency {
            return Err(LotRefusal::WrongCurrency { expected: terms.currency });
        }
        let alias = self.bids.alias(&bid.bidder);
        if let Some(earlier) = alias.and_then(|alias| self.bids.keyed(alias, &bid.key)) {
            return Err(LotRefusal::KeyReused { number: earlier.number });
        }
        if self.bids.count() >= terms.bids_max {
            return Err(LotRefusal::TooManyBids { limit: terms.bids_max });
        }
        if terms.price_max() < bid.maximum {
            return Err(LotRefusal::TooHigh { maximum: terms.price_max() });
        }
        if bid.maximum < terms.start_price {
            return Err(LotRefusal::BelowStart { minimum: terms.start_price });
        }
        self.auction.judge(alias, bid.maximum)
    }
}

/// Whether the lot is neither closed nor cancelled.
fn must_run(status: LotStatus) -> Result<(), LotRefusal> {
    match status {
        LotStatus::Scheduled | LotStatus::Open => Ok(()),
        LotStatus::Closed | LotStatus::Cancelled => Err(LotRefusal::NotOpen { status }),
    }
}
