//! The open streams of a client, whose ids are odd and rise (RFC 9113, section 5.1.1).

use std::collections::VecDeque;

use crate::frame::WINDOW_MAX;

/// Ids between the oldest open stream and the newest, beyond which no stream is opened: a stream
/// that never ends must not let the table grow.
const SPAN_MAX: usize = 16_384;

/// By position: stream `first + 2 * n` is the nth. The first is never empty.
#[derive(Debug)]
pub(super) struct Streams<S> {
    first: u32,
    slots: VecDeque<Option<S>>,
    len: usize,
}

impl<S> Default for Streams<S> {
    fn default() -> Self {
        Self { first: 1, slots: VecDeque::new(), len: 0 }
    }
}

impl<S> Streams<S> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether an old stream keeps new ones from being opened.
    pub(super) fn is_scattered(&self) -> bool {
        self.slots.len() >= SPAN_MAX
    }

    /// The lowest id that was never opened.
    pub(super) fn opened_to(&self) -> u32 {
        let slots = u32::try_from(self.slots.len()).expect("the span is limited");
        self.first.saturating_add(2 * slots)
    }

    /// The next id. None if they are used up.
    pub(super) fn next_id(&self) -> Option<u32> {
        Some(self.opened_to()).filter(|id| *id <= WINDOW_MAX)
    }

    /// Opens the stream with the next id.
    pub(super) fn open(&mut self, stream: S) {
        self.slots.push_back(Some(stream));
        self.len += 1;
    }

    fn place(&self, id: u32) -> Option<usize> {
        let above = id.checked_sub(self.first)?;
        (above % 2 == 0).then_some((above / 2) as usize)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut S> {
        let place = self.place(id)?;
        self.slots.get_mut(place)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<S> {
        let place = self.place(id)?;
        let stream = self.slots.get_mut(place)?.take()?;
        self.len -= 1;
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first = self.first.saturating_add(2);
        }
        Some(stream)
    }

    /// Removes the oldest stream.
    pub(super) fn pop(&mut self) -> Option<(u32, S)> {
        self.pop_after(0)
    }

    /// Removes the oldest stream whose id is above `last`.
    pub(super) fn pop_after(&mut self, last: u32) -> Option<(u32, S)> {
        let id = self.iter().map(|(id, _)| id).find(|id| *id > last)?;
        Some((id, self.remove(id)?))
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &S)> {
        let ids = (self.first..=u32::MAX).step_by(2);
        ids.zip(&self.slots).filter_map(|(id, stream)| Some((id, stream.as_ref()?)))
    }
}
