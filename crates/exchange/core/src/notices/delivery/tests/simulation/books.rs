//! The ledger of settlements: in memory, and saved now and then with its progress. A start replays
//! what was not saved.

use std::collections::BTreeSet;

use crate::notices::reservation::Reservation;

#[derive(Clone, Debug, Default)]
struct Book {
    settled: BTreeSet<u8>,
    /// All settlements up to here are applied.
    applied_sequence: u64,
}

#[derive(Debug, Default)]
pub struct Books {
    saved: Book,
    open: Book,
}

impl Books {
    /// All settlements up to this sequence survive the process.
    pub fn applied_sequence(&self) -> u64 {
        self.saved.applied_sequence
    }

    /// Ends the process: unsaved settlements are forgotten.
    pub fn restart(&mut self) {
        self.open = self.saved.clone();
    }

    pub fn save(&mut self) {
        self.saved = self.open.clone();
    }

    /// A settlement found in the log at a start, applied or not.
    pub fn replayed(&mut self, sequence: u64, reservation: Reservation) -> Result<(), String> {
        if sequence <= self.open.applied_sequence {
            return Ok(());
        }
        self.settled(sequence, reservation)
    }

    /// Called once per token, in order.
    pub fn settled(&mut self, sequence: u64, reservation: Reservation) -> Result<(), String> {
        let number = reservation.token.to_bytes()[0];
        if sequence <= self.open.applied_sequence {
            let applied = self.open.applied_sequence;
            return Err(format!("{number} is settled at {sequence}, behind {applied}"));
        }
        self.open.applied_sequence = sequence;
        if !self.open.settled.insert(number) {
            return Err(format!("{number} is settled twice"));
        }
        Ok(())
    }

    /// No further settlements come up to this sequence.
    pub fn reached(&mut self, sequence: u64) -> Result<(), String> {
        let applied = std::mem::replace(&mut self.open.applied_sequence, sequence);
        if applied <= sequence { Ok(()) } else { Err(format!("{sequence} is behind {applied}")) }
    }

    pub fn numbers(&self) -> &BTreeSet<u8> {
        &self.open.settled
    }
}
