//! Campaigns whose rows in the catalogue changed, in order, so that each connection can be sent
//! those that it has not seen.

use std::collections::VecDeque;

/// Most changes that are kept; a connection that has missed more receives all rows.
const CHANGES_MAX: usize = 65_536;

/// Handles of changed campaigns. Positions count from the start of the process.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// Position of the first kept change.
    first: u64,
    handles: VecDeque<u32>,
}

impl ChangeLog {
    /// Adds a change.
    pub fn push(&mut self, handle: u32) {
        if self.handles.back() == Some(&handle) {
            return;
        }
        if self.handles.len() == CHANGES_MAX {
            self.handles.pop_front();
            self.first += 1;
        }
        self.handles.push_back(handle);
    }

    /// Makes every connection receive all rows.
    pub fn reset(&mut self) {
        self.first += self.handles.len() as u64 + 1;
        self.handles.clear();
    }

    /// The position behind the last change.
    pub fn end(&self) -> u64 {
        self.first + self.handles.len() as u64
    }

    /// The distinct handles from a position on. None if some are no longer kept.
    pub fn since(&self, seen: u64) -> Option<Vec<u32>> {
        let skip = usize::try_from(seen.checked_sub(self.first)?).ok()?;
        let mut handles: Vec<u32> = self.handles.iter().skip(skip).copied().collect();
        handles.sort_unstable();
        handles.dedup();
        Some(handles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_what_it_has_not_seen() {
        let mut log = ChangeLog::default();
        [5, 5, 3, 5].into_iter().for_each(|handle| log.push(handle));
        assert_eq!(log.since(0), Some(vec![3, 5]));
        assert_eq!(log.since(2), Some(vec![5]));
        assert_eq!(log.since(log.end()), Some(vec![]));
        log.reset();
        assert_eq!(log.since(2), None, "all rows are due");
        assert_eq!(log.since(log.end()), Some(vec![]));
    }

    #[test]
    fn old_changes_are_dropped() {
        let mut log = ChangeLog::default();
        (0..=u32::try_from(CHANGES_MAX).unwrap()).for_each(|handle| log.push(handle));
        assert_eq!(log.since(0), None);
        assert_eq!(log.since(1).map(|handles| handles.len()), Some(CHANGES_MAX));
    }
}
