//! Billed beacons of the durable lane, matched with the recorded auctions they belong to. Those of
//! unrecorded auctions are what a report lacks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use eventlog::LogReadError;
use eventlog::lane::LaneKind;
use events::RecordKind;
use exchange_core::TokenId;
use exchange_core::delivery::JournalRecord;
use units::Currency;

use crate::filter::TimeWindow;
use crate::log::directory::RecordDirectory;
use crate::log::position::RecordPosition;
use crate::report::{BILLED_MAX, ReportError, UnrecordedBilling};
use crate::row::SettlementRow;

/// Most that a record's time may be later than its auction's.
const SLACK_MS: u64 = 60_000;

/// A beacon that was billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledBeacon {
    /// Position of its record.
    pub place: RecordPosition,
    /// Id of the beacon.
    pub id: TokenId,
    /// When it was called, in Unix milliseconds.
    pub accepted_ms: u64,
    /// When it would have expired.
    pub expires_ms: u64,
    /// The DSP that is notified. None if no DSP is notified.
    pub dsp: Option<String>,
    /// Amount billed to an account, in nanos of its currency. None if no account pays.
    pub amount: Option<(u64, Currency)>,
}

impl BilledBeacon {
    /// Decodes a record of the durable lane. None if it bills nothing.
    pub fn of(place: &RecordPosition, kind: u8, payload: &[u8]) -> Option<Self> {
        if RecordKind::from_code(kind) != Some(RecordKind::Notice) {
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

    /// As a row. None if no account pays.
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

/// A billed beacon whose auction has not been matched yet.
#[derive(Debug)]
struct UnmatchedBeacon {
    bid: u32,
    imp: u8,
    amount: Option<(u64, Currency)>,
    expires_ms: u64,
    is_found: AtomicBool,
}

/// Billed beacons by auction.
#[derive(Debug, Default)]
pub(crate) struct BillingIndex {
    by_auction: HashMap<u128, Vec<UnmatchedBeacon>>,
    /// The longest life of a beacon after its auction, in milliseconds.
    lasts_ms: AtomicU64,
}

impl BillingIndex {
    /// Finds what was billed since the start of a window.
    pub fn find(directory: &RecordDirectory, window: TimeWindow) -> Result<Self, ReportError> {
        let lane = directory.lane(LaneKind::Durable)?;
        let window = TimeWindow { since_ms: window.since_ms, until_ms: u64::MAX };
        let visit =
            |found: &mut Vec<BilledBeacon>, place: &RecordPosition, kind: u8, payload: &[u8]| {
                found.extend(BilledBeacon::of(place, kind, payload));
            };
        let (mut all, mut count) = (Self::default(), 0);
        let mut each = |found: Vec<BilledBeacon>| {
            for settlement in found {
                count += usize::from(all.add(&settlement));
            }
            if count > BILLED_MAX { Err(ReportError::Billed) } else { Ok(()) }
        };
        let mut failed = Ok(());
        let swept: Result<(), LogReadError> =
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

    /// Returns whether it is new. A record that was rewritten to free old segments has no amount.
    fn add(&mut self, settlement: &BilledBeacon) -> bool {
        let BilledBeacon { id, expires_ms, amount, .. } = *settlement;
        let of_auction = self.by_auction.entry(id.auction_id()).or_default();
        let known = of_auction.iter_mut().find(|it| (it.bid, it.imp) == (id.bid(), id.imp()));
        if let Some(known) = known {
            known.amount = known.amount.or(amount);
            return false;
        }
        let is_found = AtomicBool::new(false);
        of_auction.push(UnmatchedBeacon {
            bid: id.bid(),
            imp: id.imp(),
            amount,
            expires_ms,
            is_found,
        });
        true
    }

    /// Marks an auction as recorded; returns which of its bids were billed, by position, and their
    /// impressions.
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

    /// Beacons of no recorded auction within the time examined: from `since_ms`, unless the record
    /// is complete from its beginning, to the end of the window.
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
