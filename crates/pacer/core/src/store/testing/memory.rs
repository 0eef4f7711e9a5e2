//! A store in memory with seeded faults: it answers late, refuses, loses track of outcomes, and
//! loses at a crash what was not yet durable.
//!
//! Owns only the order of events; `contents` applies them. The same seed and the same calls give
//! the same answers.

use std::collections::VecDeque;

use faults::Chance;

use super::contents::Contents;
use crate::store::{CommitOutcome, LeaseStore, StoreAnswer, StoreDenial, StoreFault, StoreRequest};

/// Kinds and frequency of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFaults {
    /// Maximum delay of an answer in polls.
    pub late_polls_max: u64,
    /// One request in this many is refused by a failing disk; 0 for none.
    pub refused_once_in: u64,
    /// One write in this many ends unknown (applied, never applied, or, if a batch, applied later);
    /// 0 for none.
    pub unknown_once_in: u64,
}

/// The store.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    contents: Contents,
    faults: MemoryFaults,
    chance: Chance,
    polls: u64,
    /// Requests, with the earliest poll that answers them.
    waiting: VecDeque<(u64, StoreRequest)>,
    /// Requests with an unknown outcome, applied at that poll.
    astray: Vec<(u64, StoreRequest)>,
}

impl MemoryStore {
    /// An empty store without faults, with a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            contents: Contents::default(),
            faults: MemoryFaults::default(),
            chance: Chance::new(seed),
            polls: 0,
            waiting: VecDeque::new(),
            astray: Vec::new(),
        }
    }

    /// Sets the faults from now on; [`MemoryFaults::default`] ends them.
    pub const fn set_faults(&mut self, faults: MemoryFaults) {
        self.faults = faults;
    }

    /// Ends the client's process. Applies a prefix of the pending requests, and drops the rest.
    pub fn crash(&mut self) {
        let done = self.chance.below(self.waiting.len() as u64 + 1);
        for (index, (_, request)) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if (index as u64) < done {
                self.apply(&request);
            }
        }
        let mut astray = std::mem::take(&mut self.astray);
        astray.retain(|_| self.chance.once_in(2));
        self.astray = astray;
    }

    /// Number of pending requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn apply(&mut self, request: &StoreRequest) -> StoreAnswer {
        match request {
            StoreRequest::Begin(node, least) => {
                StoreAnswer::Begun { node: *node, begun: Ok(self.contents.begin(*node, *least)) }
            }
            StoreRequest::Submit(writer, batch) => {
                ended(request, self.contents.submit(*writer, batch))
            }
            StoreRequest::Change(writer, change) => {
                ended(request, self.contents.change(*writer, change))
            }
            StoreRequest::Read(query) => StoreAnswer::Read(Ok(self.contents.read(query))),
        }
    }

    fn answer(&mut self, request: StoreRequest) -> StoreAnswer {
        if self.chance.once_in(self.faults.refused_once_in) {
            return request
                .answer(CommitOutcome::Refused, Some(StoreDenial::Failing(StoreFault::Disk)));
        }
        let is_batch = matches!(request, StoreRequest::Submit(..));
        if !is_batch && !matches!(request, StoreRequest::Change(..)) {
            return self.apply(&request);
        }
        if !self.chance.once_in(self.faults.unknown_once_in) {
            return self.apply(&request);
        }
        // Later requests depend on a change's versions, so it is decided before their answers.
        let ends = if is_batch { 3 } else { 2 };
        let unknown = request.answer(CommitOutcome::Unknown, None);
        match self.chance.below(ends) {
            0 => (),
            1 => drop(self.apply(&request)),
            _ => {
                let at = self.polls + 1 + self.chance.below(20);
                self.astray.push((at, request));
            }
        }
        unknown
    }
}

fn ended(request: &StoreRequest, done: Result<(), StoreDenial>) -> StoreAnswer {
    let ended = if done.is_ok() { CommitOutcome::Committed } else { CommitOutcome::Refused };
    request.answer(ended, done.err())
}

impl LeaseStore for MemoryStore {
    fn ask(&mut self, request: StoreRequest) {
        let late = self.chance.below(self.faults.late_polls_max + 1);
        // Answers keep their order: a late one delays those after it.
        self.waiting.push_back((self.polls + late, request));
    }

    fn poll(&mut self) -> Option<StoreAnswer> {
        self.polls += 1;
        let polls = self.polls;
        let due: Vec<_> = self.astray.extract_if(.., |(at, _)| *at <= polls).collect();
        for (_, request) in due {
            self.apply(&request);
        }
        let (_, request) = self.waiting.pop_front_if(|(ready, _)| *ready <= polls)?;
        Some(self.answer(request))
    }
}
