//! Records appended to the log that are not known to be durable. Knows neither ring nor record.

use std::collections::VecDeque;

use super::event::JournalTicket;

/// Pending records, in log order.
#[derive(Debug, Default)]
pub struct TicketQueue(VecDeque<(u64, JournalTicket)>);

impl TicketQueue {
    /// Adds an accepted record, at a higher position than all before.
    pub fn push(&mut self, position: u64, ticket: JournalTicket) {
        self.0.push_back((position, ticket));
    }

    /// Handles that records up to position `through` are durable, the last of them at `sequence`.
    /// Those newly durable are consecutive in the log. Returns their sequences.
    pub fn durable(&mut self, through: u64, sequence: u64) -> Vec<(JournalTicket, u64)> {
        let count = self.0.partition_point(|(position, _)| *position <= through);
        let stands = |(position, ticket)| (ticket, sequence - (through - position));
        self.0.drain(..count).map(stands).collect()
    }
}
