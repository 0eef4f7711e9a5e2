//! Digests that recognise a repeated change of the store.

use std::hash::{Hash as _, Hasher as _};

use pacer_core::store::DefinitionChange;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// Excludes the change's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) u128);

impl Digest {
    /// Computed by the caller, not the ledger's thread: a change may be large.
    pub(crate) fn of(change: &DefinitionChange) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write_usize(change.puts.len());
        for put in &change.puts {
            hasher.write_u8(put.key.kind as u8);
            part(&mut hasher, put.key.id.as_bytes());
            put.expected.hash(&mut hasher);
            hasher.write_u64(put.definition.version);
            part(&mut hasher, &put.definition.body);
        }
        for entry in &change.audit {
            hasher.write_u64(entry.at_unix_ms);
            part(&mut hasher, &entry.body);
        }
        Self(hasher.finish128().as_u128())
    }
}

fn part(hasher: &mut SipHasher13, bytes: &[u8]) {
    hasher.write_usize(bytes.len());
    hasher.write(bytes);
}

#[cfg(test)]
mod tests;
