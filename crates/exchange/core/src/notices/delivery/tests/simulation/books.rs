//! Who books settlements: in memory, and saved now and then with how far they go. What was not saved is
//! told again after a start.

use std::collections::BTreeSet;

use crate::notices::reservation::Reservation;

/// What is booked, and how far.
#[derive(Clone, Debug, Default)]
struct Book {
    /// Numbers of beacons.
    settled: BTreeSet<u8>,
    /// All that settles up to here is in it.
    applied_sequence: u64,
}

/// The books of all lives.
#[derive(Debug, Default)]
pub struct Books {
    saved: Book,
    open: Book,
}

impl Books {
    /// All that settles up to this sequence is booked, whatever happens to the process.
    pub fn applied_sequence(&self) -> u64 {
        self.saved.applied_sequence
    }

    /// The process ends: what was not saved is forgotten.
    pub fn restart(&mut self) {
        self.open = self.saved.clone();
    }

    pub fn save(&mut self) {
        self.saved = self.open.clone();
    }

    /// What a start finds in the log, booked or not.
    pub fn replayed(&mut self, sequence: u64, reservation: Reservation) -> Result<(), String> {
        if sequence <= self.open.applied_sequence {
            return Ok(());
        }
        self.settled(sequence, reservation)
    }

    /// Comes once for each token, and in order.
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

    /// Nothing more comes up to this sequence.
    pub fn reached(&mut self, sequence: u64) -> Result<(), String> {
        let applied = std::mem::replace(&mut self.open.applied_sequence, sequence);
        if applied <= sequence { Ok(()) } else { Err(format!("{sequence} is behind {applied}")) }
    }

    /// Numbers of all that is settled.
    pub fn numbers(&self) -> &BTreeSet<u8> {
        &self.open.settled
    }
}
