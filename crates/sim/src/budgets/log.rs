//! The durable log of settlements: records in order, the last of which may not be durable yet, and
//! an index from reservation to record.

use std::collections::BTreeMap;

use pacer_core::ledger::SettlementRecord;
use pacer_core::shard::token::{ReservationToken, TokenOrigin, TtlClass};

use faults::Chance;

/// Identifies a reservation across shards and epochs.
pub(super) type SimTokenId = (TokenOrigin, (TtlClass, u32, u32));

pub(super) fn id_of(token: &ReservationToken) -> SimTokenId {
    (token.origin(), token.number())
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SimRecord {
    /// Settles a won reservation.
    Win(SimTokenId, SettlementRecord),
    /// A record without a settlement.
    Other,
}

/// The log. Records are numbered from 1.
#[derive(Debug, Default)]
pub(super) struct SimLog {
    records: Vec<SimRecord>,
    durable: usize,
    index: BTreeMap<SimTokenId, u64>,
}

impl SimLog {
    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// The number of the last durable record, or 0.
    pub(super) fn durable(&self) -> u64 {
        self.durable as u64
    }

    pub(super) fn record(&self, seq: u64) -> &SimRecord {
        &self.records[at(seq)]
    }

    /// The record that settles a reservation. None if the log has none.
    pub(super) fn find(&self, id: SimTokenId) -> Option<u64> {
        self.index.get(&id).copied()
    }

    pub(super) fn append(&mut self, record: SimRecord) -> u64 {
        let seq = self.next();
        self.records.push(record);
        if let SimRecord::Win(id, _) = record {
            self.index.insert(id, seq);
        }
        seq
    }

    /// Makes all records durable. Returns those that were not durable before.
    pub(super) fn sync(&mut self) -> std::ops::Range<u64> {
        let from = self.durable() + 1;
        self.durable = self.records.len();
        from..self.next()
    }

    /// Loses the records that are not durable, and returns their numbers.
    pub(super) fn lose(&mut self) -> std::ops::Range<u64> {
        let lost = self.durable() + 1..self.next();
        for record in self.records.drain(self.durable..) {
            if let SimRecord::Win(id, _) = record {
                self.index.remove(&id);
            }
        }
        lost
    }

    /// Ends the process. Returns the unsynced records that nevertheless are durable.
    pub(super) fn crash(&mut self, chance: &mut Chance) -> std::ops::Range<u64> {
        let from = self.durable() + 1;
        let more = chance.within(0..=(self.records.len() - self.durable) as u64);
        self.durable += usize::try_from(more).expect("a part of a length");
        self.lose();
        from..self.next()
    }
}

fn at(seq: u64) -> usize {
    usize::try_from(seq - 1).expect("an index")
}
