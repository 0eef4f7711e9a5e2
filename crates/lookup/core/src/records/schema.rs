//! Where the fields of queries are in the records of a call.

use crate::map::{ProviderCall, ProviderMap, RecordForm};
use crate::query::is_name;

/// The members of a call's records that become fields.
#[derive(Clone, Debug)]
pub struct RecordSchema {
    /// The fields that are known beforehand.
    pub(super) fields: Vec<String>,
    /// The record.
    pub(super) root: SchemaNode,
    /// The key that other members become attributes of.
    pub(super) others: Option<String>,
    /// The primary attributes of its keys.
    pub(super) primary: Vec<String>,
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
    /// Of a call of a map.
    pub fn of(map: &ProviderMap, call: &ProviderCall) -> Self {
        let RecordForm { fields, keeps_others, .. } = &call.form;
        let primary = primary_fields(map, &call.gives);
        let (fields_known, root) = (Vec::new(), SchemaNode::default());
        let mut schema = Self { fields: fields_known, root, others: None, primary };
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

    /// Whether a member that the map does not name can become this field: it has a name that queries can
    /// write, and no field that the map names is the same or a part of it.
    pub(super) fn may_keep(&self, field: &str, name: &str) -> bool {
        let is_within = |known: &String| {
            known.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        is_name(name) && !self.fields.iter().any(is_within)
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
