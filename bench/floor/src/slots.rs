//! Slots for connections: each has a stable index, which is reused once free.
//!
//! A pending event may name a slot whose connection is gone. To keep it from naming another
//! connection, a slot is free only once all pending events are handled.

/// Indexed storage with a free list.
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
    /// Empty, but not free yet.
    left: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), left: Vec::new() }
    }

    /// How many slots are taken.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len() - self.left.len()
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
        self.left.push(index);
        Some(entry)
    }

    /// Frees the removed slots: no pending event can name them any more.
    pub(crate) fn free_removed(&mut self) {
        self.free.append(&mut self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn indexes_are_used_again_only_once_they_are_free() {
        let mut slots = Slots::new();
        assert_eq!((slots.insert('a'), slots.insert('b')), (0, 1));
        assert_eq!((slots.remove(0), slots.remove(0)), (Some('a'), None));
        assert_eq!((slots.len(), slots.next()), (1, 2));
        assert_eq!((slots.insert('c'), slots.at(0)), (2, None));
        slots.free_removed();
        assert_eq!((slots.len(), slots.next()), (2, 0));
        assert_eq!((slots.insert('d'), slots.next()), (0, 3));
        assert_eq!((slots.at(0).copied(), slots.at(3).copied()), (Some('d'), None));
    }
}
