//! What was billed: the beacons in the durable lane, each once, beside the auctions that they are of.
//!
//! Knows which auctions are not in the record though somebody billed them: of these the report falls
//! short.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use eventlog::ReadError;
use eventlog::lane::LaneKind;
use events::Kind;
use exchange_core::TokenId;
use exchange_core::delivery::JournalRecord;
use units::Currency;

use crate::filter::Window;
use crate::log::directory::Directory;
use crate::log::place::Place;
use crate::report::{BILLED_MAX, ReportError, UnrecordedBilling};
use crate::row::SettlementRow;

/// How much later than its auction's a record's time may be.
const SLACK_MS: u64 = 60_000;

/// A beacon that was billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Where its record stands.
    pub place: Place,
    /// The beacon.
    pub id: TokenId,
    /// When it was called, in milliseconds of Unix time.
    pub accepted_ms: u64,
    /// When it would have expired.
    pub expires_ms: u64,
    /// Which DSP is told. None if nobody is.
    pub dsp: Option<String>,
    /// What an account is billed, in nanos of its currency. None if no account pays for it.
    pub amount: Option<(u64, Currency)>,
}

impl Settlement {
    /// What a record of the durable lane bills. None if it bills nothing.
    pub fn of(place: &Place, kind: u8, payload: &[u8]) -> Option<Self> {
        if Kind::from_code(kind) != Some(Kind::Notice) {
            return None;
        }
        let JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation } =
            JournalRecord::decode(payload).ok()?
        else {
            return None;
        };
        let amount = reservation.and_then(|reservation| {
            Some((reservation.token.amount_unchecked()?.get(), reservation.currency))
        });
        let dsp = notice.map(|notice| notice.dsp().to_string());
        Some(Self { place: *place, id, accepted_ms, expires_ms, dsp, amount })
    }

    /// As a row. None if no account pays: then it settles nothing.
    pub fn row(&self) -> Option<SettlementRow> {
        let (nanos, currency) = self.amount?;
        Some(SettlementRow {
            time_us: self.accepted_ms.saturating_mul(1000),
            node: self.place.node.into(),
            epoch: self.place.epoch,
            sequence: self.place.sequence,
            id: format!("{:?}", self.id),
            auction: format!("{:032x}", self.id.auction_id()),
            bid: self.id.bid().into(),
            imp: self.id.imp().into(),
            dsp: self.dsp.clone(),
            amount_nanos: nanos,
            currency: currency.to_string(),
            expires_us: self.expires_ms.saturating_mul(1000),
        })
    }
}

/// A billed beacon whose auction is looked for.
#[derive(Debug)]
struct BilledSale {
    bid: u32,
    imp: u8,
    amount: Option<(u64, Currency)>,
    expires_ms: u64,
    is_found: AtomicBool,
}

/// All that was billed of some time.
#[derive(Debug, Default)]
pub(crate) struct Billing {
    by_auction: HashMap<u128, Vec<BilledSale>>,
    /// The longest that a beacon lasts, from its auction on, in milliseconds.
    lasts_ms: AtomicU64,
}

impl Billing {
    /// What was billed from the beginning of a window on.
    pub fn find(directory: &Directory, window: Window) -> Result<Self, ReportError> {
        let lane = directory.lane(LaneKind::Durable)?;
        let window = Window { since_ms: window.since_ms, until_ms: u64::MAX };
        let visit = |found: &mut Vec<Settlement>, place: &Place, kind: u8, payload: &[u8]| {
            found.extend(Settlement::of(place, kind, payload));
        };
        let (mut all, mut count) = (Self::default(), 0);
        let mut each = |found: Vec<Settlement>| {
            for settlement in found {
                count += usize::from(all.add(&settlement));
            }
            if count > BILLED_MAX { Err(ReportError::Billed) } else { Ok(()) }
        };
        let mut failed = Ok(());
        let swept: Result<(), ReadError> =
            lane.sweep(&lane.within(window), Vec::new, visit, |part| {
                failed = each(part.made);
                if failed.is_err() {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            });
        swept?;
        failed.map(|()| all)
    }

    /// Whether it was not there. One that was written anew, so that old segments can go, is without
    /// its amount.
    fn add(&mut self, settlement: &Settlement) -> bool {
        let Settlement { id, expires_ms, amount, .. } = *settlement;
        let of_auction = self.by_auction.entry(id.auction_id()).or_default();
        let known = of_auction.iter_mut().find(|it| (it.bid, it.imp) == (id.bid(), id.imp()));
        if let Some(known) = known {
            known.amount = known.amount.or(amount);
            return false;
        }
        let is_found = AtomicBool::new(false);
        of_auction.push(BilledSale { bid: id.bid(), imp: id.imp(), amount, expires_ms, is_found });
        true
    }

    /// Notes that an auction is in the record, and tells which of its bids were billed: by position,
    /// or where its record is cut by their impression.
    pub fn of_auction(&self, id: &str, arrival_ms: u64) -> Vec<(u32, u8)> {
        let of_auction = u128::from_str_radix(id, 16).ok().and_then(|id| self.by_auction.get(&id));
        let mut bids = Vec::new();
        for billed in of_auction.into_iter().flatten() {
            billed.is_found.store(true, Ordering::Relaxed);
            let lasts_ms = billed.expires_ms.saturating_sub(arrival_ms);
            self.lasts_ms.fetch_max(lasts_ms, Ordering::Relaxed);
            bids.push((billed.bid, billed.imp));
        }
        bids
    }

    /// What is of no auction that was found, and of a time of which auctions were looked at: from
    /// `since_ms` on, where the record does not reach back to its beginning, up to the window's end.
    pub fn unrecorded(
        &self,
        since_ms: Option<u64>,
        until_ms: u64,
    ) -> Result<UnrecordedBilling, ReportError> {
        let lasts_ms = self.lasts_ms.load(Ordering::Relaxed);
        let mut unrecorded = UnrecordedBilling::default();
        for billed in self.by_auction.values().flatten() {
            let held_ms = billed.expires_ms.saturating_sub(lasts_ms);
            let is_after = since_ms.is_none_or(|since_ms| held_ms >= since_ms + SLACK_MS);
            let is_before = held_ms <= until_ms.saturating_sub(SLACK_MS) || until_ms == u64::MAX;
            if billed.is_found.load(Ordering::Relaxed) || !is_after || !is_before {
                continue;
            }
            unrecorded.beacons += 1;
            if let Some((nanos, currency)) = billed.amount {
                let sum = unrecorded.amounts.entry(currency.to_string()).or_default();
                *sum = sum.checked_add(nanos).ok_or(ReportError::Sum)?;
            }
        }
        Ok(unrecorded)
    }
}
