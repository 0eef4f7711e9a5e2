//! Rebuilds the state of delivery from the journal at a start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::beacons::BeaconState;
use super::event::DeliveryTime;
use super::journal::{JournalDecodeError, JournalRecord, NoticeEnd};
use super::notice::Notice;
use super::policy::DeliveryPolicy;
use super::scheduler::{Delivery, QueuedNotice};
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;
use openrtb::NoticeKind;

#[derive(Debug)]
enum LastRecord {
    Owed { accepted_ms: u64, notice: Arc<Notice> },
    Settled(NoticeEnd),
}

/// Reads the journal's records in order, from [`Self::begins_at`] or earlier.
#[derive(Debug)]
pub struct JournalReplay {
    policy: DeliveryPolicy,
    unix_ms: u64,
    beacons: BTreeMap<TokenId, (u64, u64, LastRecord)>,
    durable: u64,
    checkpointed: u64,
}

impl JournalReplay {
    /// An empty state at time `unix_ms`.
    pub fn new(policy: DeliveryPolicy, unix_ms: u64) -> Self {
        Self { policy, unix_ms, beacons: BTreeMap::new(), durable: 0, checkpointed: 0 }
    }

    /// Where a start must begin to read: at the last checkpoint's
    /// [`needed_from`](JournalRecord::Checkpoint), or earlier after the last applied settlement.
    pub fn begins_at(needed_from: u64, applied_sequence: u64) -> u64 {
        needed_from.min(applied_sequence.saturating_add(1))
    }

    /// Reads the next record, and returns the reservation that it settles.
    ///
    /// # Errors
    /// If it cannot be decoded. A start without it may lose or repeat a notice or a settlement.
    pub fn record(
        &mut self,
        sequence: u64,
        bytes: &[u8],
    ) -> Result<Option<Reservation>, JournalDecodeError> {
        self.durable = sequence;
        match JournalRecord::decode(bytes)? {
            JournalRecord::Accepted { id, accepted_ms, expires_ms, notice, reservation } => {
                match notice {
                    Some(notice) => {
                        let last = LastRecord::Owed { accepted_ms, notice };
                        self.beacons.insert(id, (sequence, expires_ms, last));
                    }
                    None => self.settled(id, sequence, expires_ms, NoticeEnd::Untold),
                }
                return Ok(reservation);
            }
            JournalRecord::Settled { id, expires_ms, outcome } => {
                self.settled(id, sequence, expires_ms, outcome);
            }
            JournalRecord::Checkpoint { .. } => self.checkpointed = sequence,
        }
        Ok(None)
    }

    fn settled(&mut self, id: TokenId, sequence: u64, expires_ms: u64, outcome: NoticeEnd) {
        // Its calls are refused from now on, remembered or not.
        if expires_ms <= self.unix_ms {
            self.beacons.remove(&id);
        } else {
            self.beacons.insert(id, (sequence, expires_ms, LastRecord::Settled(outcome)));
        }
    }

    /// Delivery as of the last record. Tries owed notices at once and for at least the standard's
    /// minute, regardless of limits.
    pub fn finish(self, now: DeliveryTime) -> Delivery {
        let policy = self.policy;
        let mut delivery = Delivery::new(policy, self.durable, self.checkpointed);
        for (id, (sequence, expires_ms, last)) in self.beacons {
            match last {
                LastRecord::Settled(outcome) => {
                    let state = BeaconState::Settled { outcome, recorded: true };
                    delivery.tokens.insert(id, expires_ms, state);
                    delivery.tokens.expire(id, now);
                }
                LastRecord::Owed { accepted_ms, notice } => {
                    let past = Duration::from_millis(now.unix_ms.saturating_sub(accepted_ms));
                    let left = policy.billing_horizon.saturating_sub(past);
                    let lane = delivery.lanes.lane(notice.dsp());
                    let job = delivery.hold(QueuedNotice {
                        kind: NoticeKind::Billing,
                        id: Some(id),
                        accepted_ms,
                        lane,
                        notice,
                        failed: 0,
                        deadline: now.tick.after(left.max(policy.retry_steady)),
                        waits_for: None,
                    });
                    delivery.tokens.insert(id, expires_ms, BeaconState::Owed { job });
                    delivery.wait(job, now.tick);
                }
            }
            delivery.tokens.pin(id, sequence);
        }
        delivery
    }
}
