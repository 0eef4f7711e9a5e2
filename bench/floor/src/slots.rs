//! Slots that connections live in: a stable index for each, reused once free.
//!
//! An event may name a slot whose owner has gone or changed since the kernel queued it. No
//! generation guards against that: an event is only a hint, and what is true of a socket is what
//! its next system call says.

/// Indexed storage with a free list.
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// How many slots are taken.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The index that the next [`Slots::insert`] will use.
    pub(crate) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.entries.len())
    }

    pub(crate) fn insert(&mut self, entry: T) -> usize {
        let Some(index) = self.free.pop() else {
            self.entries.push(Some(entry));
            return self.entries.len() - 1;
        };
        self.entries[index] = Some(entry);
        index
    }

    pub(crate) fn at(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let entry = self.entries.get_mut(index)?.take()?;
        self.free.push(index);
        Some(entry)
    }
}
