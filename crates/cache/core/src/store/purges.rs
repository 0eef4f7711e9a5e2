//! Purges: what an operator wants to be served no more, or only after the origin has validated it.
//!
//! A purge takes effect when it is listed, before any entry has been changed. Until a sweep has applied
//! it to every entry, each look-up checks it. A response is checked once more when it is stored,
//! against all purges that were listed after its request was sent.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fields::dates::UnixSeconds;
use crate::fields::surrogate::SurrogateKeys;
use crate::key::CacheKey;

/// Purges that are not applied yet, at most so many: each look-up compares itself with all of them.
pub const PENDING_MAX: usize = 256;

/// The latest purges that are remembered for responses on their way. A response whose request is
/// older than all of them is not stored.
const RECENT_MAX: usize = 1_024;

/// The number of a purge: they count up from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeNumber(pub u64);

/// A purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// The responses that it is of.
    pub scope: PurgeScope,
    /// What becomes of them.
    pub effect: PurgeEffect,
}

impl Purge {
    /// Whether it removes all responses of one key.
    pub fn is_hard_of_key(&self) -> bool {
        matches!((&self.scope, self.effect), (PurgeScope::Key(_), PurgeEffect::Gone))
    }
}

/// Which responses a purge is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeScope {
    /// All of one key.
    Key(CacheKey),
    /// Those whose keys begin so. An empty text: all.
    Prefix(Box<str>),
    /// Those to which the origin gave this name.
    SurrogateKey(Box<str>),
}

/// What a purge makes of a response. Of two, the greater counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeEffect {
    /// Soft: it is stale from this time on.
    Stale(UnixSeconds),
    /// Hard: it is gone.
    Gone,
}

impl PurgeEffect {
    /// Both.
    pub(super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Stale(one), Self::Stale(other)) => Self::Stale(one.min(other)),
            _ => Self::Gone,
        }
    }
}

/// Too many purges are not applied yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{PENDING_MAX} purges are being applied: try again in a second")]
pub struct TooManyPurges;

/// The purges that still matter.
#[derive(Clone, Debug, Default)]
pub struct Purges {
    newest: PurgeNumber,
    /// The latest, up to the newest.
    recent: VecDeque<Arc<Purge>>,
    /// Purges that no sweep has applied yet. A purge of one key is applied when it is listed, so it is
    /// never here.
    pending: Vec<(PurgeNumber, Arc<Purge>)>,
}

impl Purges {
    /// No purges: the next has the number after this one.
    pub fn after(newest: PurgeNumber) -> Self {
        Self { newest, ..Self::default() }
    }

    /// The number of the newest. A response whose request is sent now has been through all so far.
    pub const fn newest(&self) -> PurgeNumber {
        self.newest
    }

    /// How many are not applied yet.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Lists a purge.
    ///
    /// # Errors
    /// If too many are not applied yet. Never for a purge of one key.
    pub fn list(&mut self, purge: Purge) -> Result<(), TooManyPurges> {
        let is_of_one_key = matches!(purge.scope, PurgeScope::Key(_));
        if !is_of_one_key && self.pending.len() >= PENDING_MAX {
            return Err(TooManyPurges);
        }
        self.newest.0 += 1;
        let purge = Arc::new(purge);
        if !is_of_one_key {
            self.pending.push((self.newest, Arc::clone(&purge)));
        }
        self.recent.push_back(purge);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        Ok(())
    }

    /// Those up to this number have been applied to every entry.
    pub fn applied(&mut self, up_to: PurgeNumber) {
        self.pending.retain(|(number, _)| *number > up_to);
    }

    /// As they concern one key.
    pub const fn of<'p>(&'p self, key: &'p str) -> KeyPurges<'p> {
        KeyPurges { purges: self, key }
    }
}

/// Purges, as they concern one key.
#[derive(Clone, Copy, Debug)]
pub struct KeyPurges<'p> {
    purges: &'p Purges,
    key: &'p str,
}

impl KeyPurges<'_> {
    /// The number of the newest.
    pub const fn newest(&self) -> PurgeNumber {
        self.purges.newest
    }

    /// What becomes of an entry of the store that has been through the purges up to a number. None if
    /// it stays as it is.
    #[inline]
    pub fn effect_on(&self, names: &SurrogateKeys, through: PurgeNumber) -> Option<PurgeEffect> {
        if self.purges.pending.is_empty() {
            return None;
        }
        let pending = self.purges.pending.iter().filter(|(number, _)| *number > through);
        self.together(pending.map(|(_, purge)| &**purge), Some(names))
    }

    /// What becomes of a response on its way whose request has been through the purges up to a number.
    /// Without its names, surrogate keys do not count.
    pub fn effect_since(
        &self,
        names: Option<&SurrogateKeys>,
        through: PurgeNumber,
    ) -> Option<PurgeEffect> {
        // A fetch of another thread may know purges that these do not have yet.
        let missed = self.purges.newest.0.saturating_sub(through.0);
        let missed = usize::try_from(missed).unwrap_or(usize::MAX);
        let recent = &self.purges.recent;
        match recent.len().checked_sub(missed) {
            Some(seen) => self.together(recent.range(seen..).map(|purge| &**purge), names),
            // Which those were is forgotten.
            None => Some(PurgeEffect::Gone),
        }
    }

    fn together<'a>(
        &self,
        purges: impl Iterator<Item = &'a Purge>,
        names: Option<&SurrogateKeys>,
    ) -> Option<PurgeEffect> {
        let is_met = |purge: &&Purge| match &purge.scope {
            PurgeScope::Key(key) => key.as_str() == self.key,
            PurgeScope::Prefix(prefix) => self.key.starts_with(&**prefix),
            PurgeScope::SurrogateKey(name) => names.is_some_and(|names| names.contains(name)),
        };
        purges.filter(is_met).map(|purge| purge.effect).reduce(PurgeEffect::with)
    }
}

#[cfg(test)]
mod tests;
