//! Weeks that campaigns have in common, kept once for all of them: one takes more than a kilobyte.

use std::collections::HashSet;

use crate::strategy::Week;

/// So many weeks are known before those that no campaign has any more are looked for.
const WEEKS_MIN: usize = 64;

/// Weeks that campaigns have.
#[derive(Debug, Default)]
pub(super) struct Weeks {
    known: HashSet<Week>,
    /// As many as there were when those that nobody has were dropped.
    used: usize,
}

impl Weeks {
    /// The same week, shared with the campaigns that have it too.
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
