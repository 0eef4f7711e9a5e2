//! Bounded rings between threads of a process: in order, without loss, with delays.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct SimRing<M> {
    capacity: usize,
    /// Each with the step of its arrival.
    messages: VecDeque<(u64, M)>,
}

impl<M> SimRing<M> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, messages: VecDeque::new() }
    }

    pub(super) fn has_room(&self) -> bool {
        self.messages.len() < self.capacity
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Sends a message that arrives in `step`, but not before its predecessors.
    pub(super) fn push(&mut self, step: u64, message: M) {
        assert!(self.has_room(), "who sends looks for room first");
        let last = self.messages.back().map_or(0, |(at, _)| *at);
        self.messages.push_back((step.max(last), message));
    }

    /// The next message that has arrived.
    pub(super) fn pop(&mut self, step: u64) -> Option<M> {
        self.messages.pop_front_if(|(at, _)| *at <= step).map(|(_, message)| message)
    }
}
