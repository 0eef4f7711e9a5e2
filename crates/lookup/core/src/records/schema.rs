//! Where the fields of queries are in the records of a call.

use crate::map::{ProviderCall, ProviderMap, RecordForm};

/// The members of a call's records that become fields.
#[derive(Clone, Debug)]
pub struct RecordSchema {
    /// The fields that are known beforehand.
    pub(super) fields: Vec<String>,
    /// The record.
    pub(super) root: SchemaNode,
    /// The key that other members become attributes of.
    pub(super) others: Option<String>,
}

/// What becomes of a part of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct SchemaNode {
    /// The index of the field that it becomes.
    pub field: Option<usize>,
    /// Its members, by name.
    pub members: Vec<(String, SchemaNode)>,
}

impl RecordSchema {
    /// Of a call.
    pub fn of(call: &ProviderCall) -> Self {
        let RecordForm { fields, keeps_others, .. } = &call.form;
        let mut schema = Self { fields: Vec::new(), root: SchemaNode::default(), others: None };
        for (path, field) in fields {
            let at = schema.fields.len();
            schema.fields.push(field.clone());
            let mut node = &mut schema.root;
            for name in path.split('.').filter(|name| !name.is_empty()) {
                node = node.member_or_new(name);
            }
            node.field = Some(at);
        }
        schema.others = call.gives.first().filter(|_| *keeps_others).cloned();
        schema
    }
}

impl SchemaNode {
    fn member_or_new(&mut self, name: &str) -> &mut Self {
        let at = self.members.iter().position(|(of, _)| of == name).unwrap_or_else(|| {
            self.members.push((name.to_owned(), Self::default()));
            self.members.len() - 1
        });
        &mut self.members[at].1
    }

    /// A member that becomes a field, or has members that do.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.members.iter().find(|(of, _)| of == name).map(|(_, node)| node)
    }
}

/// The fields that tell the records of a query apart: the primary attribute of each key that is asked
/// for.
pub fn primary_fields(map: &ProviderMap, keys: &[String]) -> Vec<String> {
    keys.iter().filter_map(|key| primary_field(map, key)).collect()
}

/// The primary attribute of a key, as a field.
pub(crate) fn primary_field(map: &ProviderMap, key: &str) -> Option<String> {
    map.key(key).map(|of| format!("{key}.{}", of.primary))
}
