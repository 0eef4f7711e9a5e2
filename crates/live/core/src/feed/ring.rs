//! The feed as a shard keeps it: chunks of messages, limited by bytes and age, and the views of them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::batch::{BatchEntry, FeedBatch, OpenedView, ViewId};
use super::cursor::{CursorState, FeedCursor};
use super::position::{FeedLane, FeedPosition, LANES};

/// Limits on what a shard keeps of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Most bytes of messages.
    pub bytes_max: usize,
    /// Longest time that a message is kept.
    pub age_max: Duration,
}

/// Messages that came at the same time.
#[derive(Debug)]
struct FeedChunk {
    bytes: Vec<u8>,
    at: Duration,
}

#[derive(Debug)]
struct ViewEntry {
    chunk: u64,
    range: Range<u32>,
    position: FeedPosition,
    key: u64,
}

#[derive(Debug)]
struct FeedView {
    lane: FeedLane,
    entries: VecDeque<ViewEntry>,
    /// Number of the first entry.
    first: u64,
    /// The entries are complete behind this place. None until the view is opened.
    horizon: Option<FeedPosition>,
    restarts: u32,
}

#[derive(Debug, Default)]
struct ViewSlot {
    generation: u32,
    view: Option<FeedView>,
}

/// What a conflating subscriber gets instead of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflation {
    /// Number of messages that others replace.
    pub skipped: u64,
    /// Number of messages that are here.
    pub messages: u64,
    /// The latest message of each key, one behind the other.
    pub bytes: Vec<u8>,
}

/// What a subscriber took from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenMessages<'r> {
    /// How many messages, the last of them perhaps only in part.
    pub count: u64,
    /// The rest of the last one, for the subscriber to keep.
    pub rest: &'r [u8],
}

/// What a shard keeps of the feed.
#[derive(Debug)]
pub struct FeedRing {
    limits: RingLimits,
    chunks: VecDeque<FeedChunk>,
    /// Number of the first chunk.
    first: u64,
    bytes: usize,
    slots: Vec<ViewSlot>,
    vacant: Vec<u32>,
    reached: [FeedPosition; LANES],
}

impl FeedRing {
    /// An empty ring.
    pub fn new(limits: RingLimits) -> Self {
        Self {
            limits,
            chunks: VecDeque::new(),
            first: 0,
            bytes: 0,
            slots: Vec::new(),
            vacant: Vec::new(),
            reached: [FeedPosition::default(); LANES],
        }
    }

    /// Bytes of the messages that it holds.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of views.
    pub fn views(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// How far the lane has been read.
    pub const fn reached(&self, lane: FeedLane) -> FeedPosition {
        self.reached[lane.index()]
    }

    /// Adds a view. It has no cursors until a batch opens it.
    pub fn add_view(&mut self, lane: FeedLane) -> ViewId {
        let view =
            FeedView { lane, entries: VecDeque::new(), first: 0, horizon: None, restarts: 0 };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(ViewSlot::default());
            u32::try_from(self.slots.len() - 1).expect("views are counted by 32 bits")
        });
        let place = &mut self.slots[slot as usize];
        place.generation += 1;
        place.view = Some(view);
        ViewId { slot, generation: place.generation }
    }

    /// Removes a view; later entries for it are ignored.
    pub fn remove_view(&mut self, id: ViewId) {
        if self.view(id).is_some() {
            self.slots[id.slot as usize].view = None;
            self.vacant.push(id.slot);
        }
    }

    fn view(&self, id: ViewId) -> Option<&FeedView> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.view.as_ref().filter(|_| slot.generation == id.generation)
    }

    fn view_mut(&mut self, id: ViewId) -> Option<&mut FeedView> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.view.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Takes a batch that arrives at `now`, and lets go of what exceeds the limits.
    pub fn push(&mut self, batch: FeedBatch, now: Duration) {
        let FeedBatch { bytes, entries, opened, from, reached, is_restart } = batch;
        if is_restart {
            self.restart(from);
        }
        self.reached = reached;
        for OpenedView { view, since } in opened {
            if let Some(view) = self.view_mut(view) {
                // A view may have been opened by a batch that was dropped.
                view.horizon = Some(since.max(from[view.lane.index()]));
            }
        }
        let chunk = self.first + self.chunks.len() as u64;
        for BatchEntry { view, range, position, key } in entries {
            if let Some(view) = self.view_mut(view) {
                view.entries.push_back(ViewEntry { chunk, range, position, key });
            }
        }
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.chunks.push_back(FeedChunk { bytes, at: now });
        }
        self.expire(now);
    }

    /// Forgets everything: what came before `from` is no longer complete.
    fn restart(&mut self, from: [FeedPosition; LANES]) {
        self.first += self.chunks.len() as u64;
        self.chunks.clear();
        self.bytes = 0;
        for view in self.slots.iter_mut().filter_map(|slot| slot.view.as_mut()) {
            view.first += view.entries.len() as u64;
            view.entries.clear();
            view.restarts += 1;
            view.horizon = view.horizon.map(|_| from[view.lane.index()]);
        }
    }

    /// Lets go of chunks that exceed the limits at `now`.
    pub fn expire(&mut self, now: Duration) {
        let before = self.first;
        while let Some(oldest) = self.chunks.front()
            && (self.bytes > self.limits.bytes_max
                || now.saturating_sub(oldest.at) > self.limits.age_max)
        {
            self.bytes -= oldest.bytes.len();
            self.chunks.pop_front();
            self.first += 1;
        }
        if self.first == before {
            return;
        }
        let first = self.first;
        for view in self.slots.iter_mut().filter_map(|slot| slot.view.as_mut()) {
            while let Some(gone) = view.entries.pop_front_if(|entry| entry.chunk < first) {
                view.horizon = Some(gone.position);
                view.first += 1;
            }
        }
    }

    /// A cursor behind everything that the view has. None until the view is opened.
    pub fn cursor_at_end(&self, id: ViewId) -> Option<FeedCursor> {
        let view = self.view(id)?;
        view.horizon?;
        let next = view.first + view.entries.len() as u64;
        Some(FeedCursor { next, restarts: view.restarts, after: self.reached(view.lane) })
    }

    /// A cursor behind `position`. None if the view does not reach back so far, or is not opened.
    pub fn cursor_after(&self, id: ViewId, position: FeedPosition) -> Option<FeedCursor> {
        let view = self.view(id)?;
        view.horizon.filter(|horizon| *horizon <= position)?;
        let read = view.entries.partition_point(|entry| entry.position <= position);
        let next = view.first + read as u64;
        Some(FeedCursor { next, restarts: view.restarts, after: position })
    }

    /// Where the view begins: it has every message behind this place. None until it is opened.
    pub fn horizon(&self, id: ViewId) -> Option<FeedPosition> {
        self.view(id)?.horizon
    }

    /// Whether the cursor can go on.
    pub fn state(&self, id: ViewId, cursor: &FeedCursor) -> CursorState {
        let Some(view) = self.view(id) else { return CursorState::Restarted };
        if view.restarts != cursor.restarts {
            CursorState::Restarted
        } else if cursor.next < view.first {
            CursorState::FellBehind { missed: view.first - cursor.next }
        } else if cursor.next == view.first + view.entries.len() as u64 {
            CursorState::AtEnd
        } else {
            CursorState::Behind
        }
    }

    /// The messages that follow the cursor, neighbours joined, if it is [`CursorState::Behind`].
    pub fn unread(&self, id: ViewId, cursor: &FeedCursor) -> impl Iterator<Item = &[u8]> {
        let entries = self.entries_from(id, cursor.next);
        let mut ahead = entries.peekable();
        std::iter::from_fn(move || {
            let ViewEntry { chunk, range, .. } = ahead.next()?;
            let mut end = range.end;
            while let Some(joined) =
                ahead.next_if(|next| next.chunk == *chunk && next.range.start == end)
            {
                end = joined.range.end;
            }
            Some(self.bytes_of(*chunk, &(range.start..end)))
        })
    }

    fn entries_from(&self, id: ViewId, next: u64) -> impl Iterator<Item = &ViewEntry> {
        let view = self.view(id).filter(|view| view.first <= next);
        view.into_iter().flat_map(move |view| {
            let skipped = usize::try_from(next - view.first).unwrap_or(usize::MAX);
            view.entries.range(skipped.min(view.entries.len())..)
        })
    }

    fn bytes_of(&self, chunk: u64, range: &Range<u32>) -> &[u8] {
        let at =
            usize::try_from(chunk - self.first).expect("a view has no entry of a dropped chunk");
        &self.chunks[at].bytes[range.start as usize..range.end as usize]
    }

    /// Moves the cursor past `bytes` of what [`Self::unread`] yields. A message of which only a part
    /// was taken counts as taken.
    pub fn advance(
        &self,
        id: ViewId,
        cursor: &mut FeedCursor,
        mut bytes: usize,
    ) -> TakenMessages<'_> {
        let mut moved = *cursor;
        let mut rest: &[u8] = &[];
        for entry in self.entries_from(id, cursor.next) {
            if bytes == 0 {
                break;
            }
            let message = self.bytes_of(entry.chunk, &entry.range);
            let taken = bytes.min(message.len());
            (bytes, rest) = (bytes - taken, &message[taken..]);
            (moved.next, moved.after) = (moved.next + 1, entry.position);
        }
        let count = moved.next - cursor.next;
        *cursor = moved;
        TakenMessages { count, rest }
    }

    /// Moves a cursor to the end of its view, to be called when it is at the end of what it can read:
    /// nothing up to [`Self::reached`] is missing.
    pub fn cover(&self, id: ViewId, cursor: &mut FeedCursor) {
        if let Some(view) = self.view(id)
            && self.state(id, cursor) == CursorState::AtEnd
        {
            cursor.after = cursor.after.max(self.reached(view.lane));
        }
    }

    /// Takes the latest message of each key behind the cursor, at most `bytes_max` of them, or one.
    /// What the ring no longer has counts as skipped.
    pub fn conflate(&self, id: ViewId, cursor: &mut FeedCursor, bytes_max: usize) -> Conflation {
        let mut taken = Conflation::default();
        let Some(view) = self.view(id) else { return taken };
        let begun = cursor.next;
        let next = begun.max(view.first);
        let mut latest = HashMap::new();
        for (number, entry) in (next..).zip(self.entries_from(id, next)) {
            latest.insert(entry.key, number);
        }
        let mut count = 0;
        cursor.next = next;
        for (number, entry) in (next..).zip(self.entries_from(id, next)) {
            if latest.get(&entry.key) == Some(&number) {
                let message = self.bytes_of(entry.chunk, &entry.range);
                if count > 0 && taken.bytes.len() + message.len() > bytes_max {
                    break;
                }
                taken.bytes.extend_from_slice(message);
                count += 1;
            }
            (cursor.next, cursor.after) = (number + 1, entry.position);
        }
        (taken.messages, taken.skipped) = (count, cursor.next - begun - count);
        taken
    }
}

#[cfg(test)]
mod tests;
