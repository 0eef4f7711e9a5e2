//! What tells a change of the store that is asked for again from another one.
//!
//! Owns the digest. What is done with a change that came before is not known here.

use std::hash::{Hash as _, Hasher as _};

use pacer_core::store::DefinitionChange;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// A digest of all that a change says, but its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) u128);

impl Digest {
    /// Of a change that may be as large as the store takes them: whoever asks makes it, not the ledger's
    /// thread.
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
mod tests {
    use pacer_core::store::{
        AuditEntry, DefinitionKey, DefinitionPut, StoredDefinition, StoredKind,
    };

    use super::*;

    #[test]
    fn only_a_change_s_number_is_not_in_it() {
        let put = |id: &str, expected, version, body: &str| DefinitionPut {
            key: DefinitionKey { kind: StoredKind::Campaign, id: id.to_owned() },
            expected,
            definition: StoredDefinition { version, body: body.into() },
        };
        let audit = |at_unix_ms, body: &str| AuditEntry { at_unix_ms, body: body.into() };
        let change = |puts, audit| DefinitionChange { number: 0, puts, audit };
        let first = change(vec![put("a", Some(1), 2, "x")], vec![audit(1, "y")]);
        assert_eq!(
            Digest::of(&first),
            Digest::of(&DefinitionChange { number: 7, ..first.clone() })
        );
        let account = DefinitionKey { kind: StoredKind::Account, id: "a".to_owned() };
        let others = [
            change(
                vec![DefinitionPut { key: account, ..first.puts[0].clone() }],
                first.audit.clone(),
            ),
            change(vec![put("b", Some(1), 2, "x")], first.audit.clone()),
            change(vec![put("a", None, 2, "x")], first.audit.clone()),
            change(vec![put("a", Some(1), 3, "x")], first.audit.clone()),
            change(vec![put("a", Some(1), 2, "z")], first.audit.clone()),
            change(first.puts.clone(), vec![audit(2, "y")]),
            change(first.puts.clone(), vec![audit(1, "z")]),
            change(first.puts.clone(), Vec::new()),
            change(Vec::new(), first.audit.clone()),
        ];
        for other in others {
            assert_ne!(Digest::of(&first), Digest::of(&other), "{other:?}");
        }
    }
}
