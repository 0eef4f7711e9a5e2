//! Ids that tables of one kind must not share.

use std::cell::RefCell;
use std::collections::HashSet;

use runtime::config::Section;

/// Ids of one kind of table, each used once.
#[derive(Default)]
pub(super) struct UniqueIds(RefCell<HashSet<String>>);

impl UniqueIds {
    /// `key` is that of the id.
    pub(super) fn check(&self, s: &mut Section<'_>, key: &str, id: &str) {
        if !self.0.borrow_mut().insert(id.to_owned()) {
            s.problem(key, format!("\"{id}\""), format!("is used twice; choose another {key}"));
        }
    }
}
