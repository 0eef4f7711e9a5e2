//! Settlements without a result: those to send, and those on their way. A lost connection puts the
//! latter back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pacer_wire::{SettlementCode, SettlementEntry};
use tokio::sync::oneshot;

/// Wait before a settlement that another frame settles is sent again.
const PENDING_WAIT: Duration = Duration::from_millis(100);

/// A settlement, and who waits for its result.
#[derive(Debug)]
pub(crate) struct UnsettledToken {
    pub entry: SettlementEntry,
    /// None for a decision that came too late.
    pub reply: Option<oneshot::Sender<SettlementCode>>,
}

/// All settlements without a result.
#[derive(Debug, Default)]
pub(crate) struct SettlementQueue {
    waiting: VecDeque<UnsettledToken>,
    /// Sent again at these times.
    pending: VecDeque<(Instant, UnsettledToken)>,
    sent: VecDeque<(u64, Vec<UnsettledToken>)>,
}

impl SettlementQueue {
    /// Adds a settlement.
    pub fn push(&mut self, settlement: UnsettledToken) {
        self.waiting.push_back(settlement);
    }

    /// Settlements without a result.
    pub fn len(&self) -> usize {
        let sent: usize = self.sent.iter().map(|(_, frame)| frame.len()).sum();
        self.waiting.len() + self.pending.len() + sent
    }

    /// Frames without a result.
    pub fn frames(&self) -> usize {
        self.sent.len()
    }

    /// Whether any may be sent now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        while self.pending.front().is_some_and(|(at, _)| *at <= now) {
            let (_, settlement) = self.pending.pop_front().expect("there is one");
            self.waiting.push_back(settlement);
        }
        !self.waiting.is_empty()
    }

    /// When the next one that waits may be sent again.
    pub fn due_at(&self) -> Option<Instant> {
        self.pending.front().map(|(at, _)| *at)
    }

    /// Takes at most `max` for the frame of this sequence.
    pub fn send(&mut self, sequence: u64, max: usize) -> Vec<SettlementEntry> {
        let count = self.waiting.len().min(max);
        let frame: Vec<_> = self.waiting.drain(..count).collect();
        let entries = frame.iter().map(|settlement| settlement.entry).collect();
        self.sent.push_back((sequence, frame));
        entries
    }

    /// Applies the results of a frame. None if there is no such frame, or they are not as many.
    pub fn settled(
        &mut self,
        sequence: u64,
        codes: impl ExactSizeIterator<Item = Option<SettlementCode>>,
    ) -> Option<()> {
        let at = self.sent.iter().position(|(sent, _)| *sent == sequence)?;
        let (_, frame) = self.sent.remove(at)?;
        if frame.len() != codes.len() {
            self.waiting.extend(frame);
            return None;
        }
        let again = Instant::now() + PENDING_WAIT;
        for (settlement, code) in frame.into_iter().zip(codes) {
            match code {
                Some(SettlementCode::Pending) => self.pending.push_back((again, settlement)),
                code => {
                    if let (Some(reply), Some(code)) = (settlement.reply, code) {
                        // Nobody may be waiting.
                        let _unheard = reply.send(code);
                    }
                }
            }
        }
        Some(())
    }

    /// Puts back what was sent on a connection that was lost.
    pub fn disconnected(&mut self) {
        for (_, frame) in self.sent.drain(..).rev() {
            frame.into_iter().rev().for_each(|settlement| self.waiting.push_front(settlement));
        }
    }
}

#[cfg(test)]
mod tests {
    use pacer_wire::{SettlementOutcome, TOKEN_BYTES};
    use units::Nanos;

    use super::*;

    fn settlement(token: u8) -> (UnsettledToken, oneshot::Receiver<SettlementCode>) {
        let (reply, result) = oneshot::channel();
        let entry =
            SettlementEntry::new([token; TOKEN_BYTES], SettlementOutcome::Won, Nanos::new(1));
        (UnsettledToken { entry, reply: Some(reply) }, result)
    }

    fn tokens(entries: &[SettlementEntry]) -> Vec<u8> {
        entries.iter().map(|entry| entry.token[0]).collect()
    }

    #[test]
    fn what_a_lost_connection_had_is_sent_again_in_order() {
        let mut queue = SettlementQueue::default();
        (1..=5).for_each(|token| queue.push(settlement(token).0));
        assert_eq!(tokens(&queue.send(2, 2)), [1, 2]);
        assert_eq!(tokens(&queue.send(3, 2)), [3, 4]);
        queue.disconnected();
        assert_eq!((queue.len(), queue.frames()), (5, 0));
        assert_eq!(tokens(&queue.send(2, 9)), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn pending_ones_wait_and_others_have_their_result() {
        let mut queue = SettlementQueue::default();
        let (first, mut result) = settlement(1);
        queue.push(first);
        queue.push(settlement(2).0);
        queue.send(2, 9);
        let codes = [SettlementCode::Booked, SettlementCode::Pending].map(Some);
        queue.settled(2, codes.into_iter()).unwrap();
        assert_eq!(result.try_recv(), Ok(SettlementCode::Booked));
        assert!(!queue.is_due(Instant::now()));
        assert!(queue.is_due(Instant::now() + PENDING_WAIT));
        assert_eq!(tokens(&queue.send(3, 9)), [2]);
        assert_eq!(queue.settled(9, codes.into_iter()), None, "no such frame");
        assert_eq!(queue.settled(3, codes.into_iter()), None, "as many results as settlements");
        assert_eq!(queue.len(), 1, "and nothing is forgotten");
    }
}
