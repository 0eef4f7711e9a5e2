//! The rings between the ledger's thread and each shard, and the messages that wait while one is
//! full. Figures are cumulative, so the latest message of a subject replaces earlier ones.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, FromShard, ToShard};
use pacer_core::shard::token::TokenOrigin;

pub(crate) const RING_MESSAGES_MAX: usize = 4_096;

/// A shard's end of its two rings.
#[derive(Debug)]
pub struct ShardRings {
    /// Origin of the shard's tokens.
    pub origin: TokenOrigin,
    /// Grants, gates and paces; those of a campaign in order.
    pub from_ledger: rtrb::Consumer<ToShard>,
    /// Reports, refill requests and observations. None may be lost: if it is full, retry later.
    pub to_ledger: rtrb::Producer<FromShard>,
    /// Whether nothing more may be authorised.
    pub halted: HaltFlag,
}

/// Set once the books do not add up: nothing more is authorised. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct HaltFlag(Arc<AtomicBool>);

impl HaltFlag {
    /// Whether it is set. Check it before every reservation.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A later message of the same subject replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum MessageSubject {
    Grant(CampaignIndex, Period),
    Gate(CampaignIndex),
    Pace(CampaignIndex),
}

impl MessageSubject {
    const fn of(message: &ToShard) -> Self {
        match message {
            ToShard::Grant(grant) => Self::Grant(grant.slot, grant.period),
            ToShard::Gate(gate) => Self::Gate(gate.slot),
            ToShard::Pace(slot, _) => Self::Pace(*slot),
        }
    }
}

#[derive(Debug)]
pub(crate) struct LedgerRings {
    pub from_shard: rtrb::Consumer<FromShard>,
    to_shard: rtrb::Producer<ToShard>,
    /// Subjects that wait for room, in order, each once.
    order: VecDeque<MessageSubject>,
    latest: HashMap<MessageSubject, ToShard>,
}

impl LedgerRings {
    pub(crate) fn new(
        origin: TokenOrigin,
        halted: HaltFlag,
        messages_max: usize,
    ) -> (Self, ShardRings) {
        let (to_shard, from_ledger) = rtrb::RingBuffer::new(messages_max);
        let (to_ledger, from_shard) = rtrb::RingBuffer::new(messages_max);
        let (order, latest) = (VecDeque::new(), HashMap::new());
        let own = Self { from_shard, to_shard, order, latest };
        (own, ShardRings { origin, from_ledger, to_ledger, halted })
    }

    pub(crate) fn send(&mut self, message: ToShard) {
        let message = if self.order.is_empty() {
            match self.to_shard.push(message) {
                Ok(()) => return,
                Err(rtrb::PushError::Full(message)) => message,
            }
        } else {
            message
        };
        let subject = MessageSubject::of(&message);
        if self.latest.insert(subject, message).is_none() {
            self.order.push_back(subject);
        }
    }

    pub(crate) fn flush(&mut self) {
        if self.to_shard.is_abandoned() {
            self.order.clear();
            self.latest.clear();
        }
        while let Some(subject) = self.order.front() {
            let message = self.latest[subject];
            if self.to_shard.push(message).is_err() {
                return;
            }
            self.latest.remove(subject);
            self.order.pop_front();
        }
        // Mostly at a start all campaigns wait: release the memory.
        if self.order.len() <= RING_MESSAGES_MAX {
            self.order.shrink_to(RING_MESSAGES_MAX);
            self.latest.shrink_to(RING_MESSAGES_MAX);
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.from_shard.is_empty()
    }
}

#[cfg(test)]
mod tests;
