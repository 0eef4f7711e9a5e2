//! Purges of a store that outlives the process and is not swept: each entry compares itself, when it
//! is read, with all purges since it was written.

use std::collections::HashMap;

use super::purges::{Purge, PurgeEffect, PurgeNumber, PurgeScope};
use crate::fields::surrogate::SurrogateKeys;

/// Keys and names that are remembered. One more, and every older entry counts as purged.
const EXACT_MAX: usize = 1 << 18;

/// Prefixes that are remembered, likewise: each entry that is read is compared with all of them.
const PREFIXES_MAX: usize = 1_024;

/// Purges of one scope that are told apart. The oldest two become one.
const OF_SCOPE_MAX: usize = 16;

/// Purges of one scope, the newest last.
type ScopePurges = Vec<(PurgeNumber, PurgeEffect)>;

/// The purges that may concern an entry.
#[derive(Debug, Default)]
pub struct PurgeHistory {
    newest: PurgeNumber,
    /// Entries that have been through no later one are gone.
    forgotten: PurgeNumber,
    keys: HashMap<Box<str>, ScopePurges>,
    names: HashMap<Box<str>, ScopePurges>,
    prefixes: HashMap<Box<str>, ScopePurges>,
}

impl PurgeHistory {
    /// The number of the newest.
    pub const fn newest(&self) -> PurgeNumber {
        self.newest
    }

    /// Purges up to this one were listed, though they need not be remembered.
    pub fn reached(&mut self, number: PurgeNumber) {
        self.newest = self.newest.max(number);
    }

    /// How many keys, names and prefixes are remembered.
    pub fn scopes(&self) -> usize {
        self.keys.len() + self.names.len() + self.prefixes.len()
    }

    /// Remembers a purge, which is newer than all others.
    pub fn list(&mut self, number: PurgeNumber, purge: &Purge) {
        self.reached(number);
        let (scopes, scope) = match &purge.scope {
            PurgeScope::Key(key) => (&mut self.keys, key.as_str()),
            PurgeScope::SurrogateKey(name) => (&mut self.names, &**name),
            PurgeScope::Prefix(prefix) => (&mut self.prefixes, &**prefix),
        };
        let purges = scopes.entry(scope.into()).or_default();
        if purge.effect == PurgeEffect::Gone {
            // It does what the earlier ones do, and more.
            purges.clear();
        }
        purges.push((number, purge.effect));
        if purges.len() > OF_SCOPE_MAX {
            let (_, oldest) = purges.remove(0);
            // Entries between the two are taken for older than they are.
            purges[0].1 = purges[0].1.with(oldest);
        }
        let is_all = purge.scope == PurgeScope::Prefix("".into());
        let is_full =
            self.keys.len() + self.names.len() > EXACT_MAX || self.prefixes.len() > PREFIXES_MAX;
        if is_full || is_all && purge.effect == PurgeEffect::Gone {
            self.forget();
        }
    }

    fn forget(&mut self) {
        *self = Self { newest: self.newest, forgotten: self.newest, ..Self::default() };
    }

    /// Forgets purges that every entry has been through.
    pub fn applied(&mut self, up_to: PurgeNumber) {
        for scopes in [&mut self.keys, &mut self.names, &mut self.prefixes] {
            scopes.retain(|_, purges| {
                purges.retain(|(number, _)| *number > up_to);
                !purges.is_empty()
            });
        }
    }

    /// What becomes of an entry that has been through the purges up to a number. None if it stays as
    /// it is.
    pub fn effect_on(
        &self,
        key: &str,
        names: &SurrogateKeys,
        through: PurgeNumber,
    ) -> Option<PurgeEffect> {
        if through < self.forgotten {
            return Some(PurgeEffect::Gone);
        }
        let named = names.iter().filter_map(|name| self.names.get(str::from_utf8(name).ok()?));
        let prefixes = self.prefixes.iter().filter(|(prefix, _)| key.starts_with(&***prefix));
        let scopes =
            self.keys.get(key).into_iter().chain(named).chain(prefixes.map(|(_, purges)| purges));
        let purges = scopes.flatten().filter(|(number, _)| *number > through);
        purges.map(|(_, effect)| *effect).reduce(PurgeEffect::with)
    }
}

#[cfg(test)]
mod tests;
