//! Weeks shared by campaigns: each takes more than a kilobyte.

use std::collections::HashSet;

use crate::strategy::Week;

/// Below this number unused weeks are not dropped.
const WEEKS_MIN: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Weeks {
    known: HashSet<Week>,
    /// Number of weeks after the last cleanup.
    used: usize,
}

impl Weeks {
    pub(super) fn share(&mut self, week: Week) -> Week {
        if let Some(known) = self.known.get(&week) {
            return known.clone();
        }
        if self.known.len() >= (2 * self.used).max(WEEKS_MIN) {
            self.known.retain(Week::is_shared);
            self.used = self.known.len();
        }
        self.known.insert(week.clone());
        week
    }
}

#[cfg(test)]
mod tests;
