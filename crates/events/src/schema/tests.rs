//! The schema never changes, except by additions.

/// A new field of the schema adds a line here. A changed line breaks every reader of records that
/// were written before.
#[test]
fn numbers_and_types_are_never_changed() {
    let now: Vec<_> = include_str!(concat!(env!("OUT_DIR"), "/schema.txt")).lines().collect();
    let known: Vec<_> = include_str!("../../golden/v1/schema.txt").lines().collect();
    let changed: Vec<_> = known.iter().filter(|line| !now.contains(line)).collect();
    assert!(changed.is_empty(), "changed or removed: {changed:#?}");
    let added: Vec<_> = now.iter().filter(|line| !known.contains(line)).collect();
    assert!(added.is_empty(), "not yet in golden/v1/schema.txt: {added:#?}");
}
