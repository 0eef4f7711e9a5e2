//! Equal changes have equal digests, and others do not.

use pacer_core::store::{AuditEntry, DefinitionKey, DefinitionPut, StoredDefinition, StoredKind};

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
    assert_eq!(Digest::of(&first), Digest::of(&DefinitionChange { number: 7, ..first.clone() }));
    let account = DefinitionKey { kind: StoredKind::Account, id: "a".to_owned() };
    let others = [
        change(vec![DefinitionPut { key: account, ..first.puts[0].clone() }], first.audit.clone()),
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
