//! The rings between the ledger's thread and each shard, and what waits where one is full.
//!
//! Knows nothing of money but that it is told in cumulative figures: of those that wait for room, the
//! latest stands for all before it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, FromShard, ToShard};
use pacer_core::shard::token::TokenOrigin;

/// Messages that a ring holds, either way.
pub(crate) const LINE_MESSAGES_MAX: usize = 4_096;

/// A shard's end of its two rings.
#[derive(Debug)]
pub struct ShardRings {
    /// Who makes its tokens.
    pub origin: TokenOrigin,
    /// Grants, gates and paces, those of a campaign in their order.
    pub from_ledger: rtrb::Consumer<ToShard>,
    /// Reports, of which none may be lost, wants and what was seen. Full: to be tried again later.
    pub to_ledger: rtrb::Producer<FromShard>,
    /// Whether nothing may be authorised any more.
    pub halted: HaltFlag,
}

/// Whether nothing may be authorised any more, for the books do not add up. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct HaltFlag(Arc<AtomicBool>);

impl HaltFlag {
    /// Whether it is so. To be asked before every reservation.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For ever.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a message is about: a later one of the same says all that an earlier one did.
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

/// The ledger's end of the rings of one shard.
#[derive(Debug)]
pub(crate) struct LedgerRings {
    pub from_shard: rtrb::Consumer<FromShard>,
    to_shard: rtrb::Producer<ToShard>,
    /// What waits for room, in order, each subject once.
    order: VecDeque<MessageSubject>,
    latest: HashMap<MessageSubject, ToShard>,
}

impl LedgerRings {
    /// Both ends of a shard's rings, each of so many messages.
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

    /// Sends a message, or has it wait for its turn.
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

    /// Sends what waits, as far as there is room.
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
        // At a start all campaigns wait, and seldom any later: the room for them is not kept.
        if self.order.len() <= LINE_MESSAGES_MAX {
            self.order.shrink_to(LINE_MESSAGES_MAX);
            self.latest.shrink_to(LINE_MESSAGES_MAX);
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    /// Whether all that the shard said was taken.
    pub(crate) fn is_quiet(&self) -> bool {
        self.from_shard.is_empty()
    }
}

#[cfg(test)]
mod tests;
