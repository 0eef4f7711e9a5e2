//! What the store keeps of a definition: what was defined, where, under which number, and what holds
//! over a file.
//!
//! Owns the form, which is JSON. What a definition means is not known here.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use pacer_core::definitions::held::{FileOverrides, merge};
use pacer_core::messages::CampaignIndex;
use serde_json::{Map, Value};

use crate::registry::text::packed::{Packed, Packer};

/// Where a definition is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOrigin {
    /// Through the API.
    Api,
    /// In this file.
    File(Arc<Path>),
}

/// What is kept of an account or a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRecord {
    /// Its number, for ever; an account has one once it has seats.
    pub slot: Option<CampaignIndex>,
    /// Where it is changed.
    pub origin: RecordOrigin,
    /// Whether it is gone. Its number stays its own.
    pub is_removed: bool,
    /// What its origin says, an object as JSON text, defaults left out.
    pub given: Packed,
    /// What the API says over a file.
    pub held: FileOverrides,
}

impl DefinitionRecord {
    /// What its origin says.
    pub fn given(&self) -> Map<String, Value> {
        serde_json::from_str(&self.given.text()).expect("it was written as an object")
    }

    /// What is in force: what its origin says, and what is held over that.
    pub fn in_force(&self) -> Map<String, Value> {
        let mut given = self.given();
        merge(&mut given, &self.held.patch());
        given
    }

    /// What is in force, as JSON text: `given` is what its origin says.
    pub(in crate::registry) fn in_force_text<'g>(&self, given: &'g str) -> Cow<'g, str> {
        if self.held.is_empty() {
            return given.into();
        }
        Value::from(self.in_force()).to_string().into()
    }

    /// As the store keeps it: `given` is what its origin says.
    pub(in crate::registry) fn to_bytes(&self, given: &str) -> Vec<u8> {
        let file = match &self.origin {
            RecordOrigin::Api => None,
            RecordOrigin::File(path) => Some(path.display().to_string()),
        };
        let (slot, file) = (Value::from(self.slot.map(|slot| slot.0)), Value::from(file));
        let (is_removed, held) = (self.is_removed, Value::from(self.held.members()));
        let record = format!(
            r#"{{"slot":{slot},"file":{file},"removed":{is_removed},"held":{held},"definition":{given}}}"#
        );
        record.into_bytes()
    }

    /// What [`to_bytes`](Self::to_bytes) wrote; nothing for anything else.
    pub(in crate::registry) fn from_bytes(bytes: &[u8], packer: &mut Packer) -> Option<Self> {
        let mut record: Value = serde_json::from_slice(bytes).ok()?;
        let mut object = |key: &str| match record[key].take() {
            Value::Object(object) => Some(object),
            _ => None,
        };
        let given = packer.pack(&Value::from(object("definition")?).to_string());
        let held = FileOverrides::of(object("held")?);
        let slot = match &record["slot"] {
            Value::Null => None,
            slot => Some(CampaignIndex(u32::try_from(slot.as_u64()?).ok()?)),
        };
        let origin = match &record["file"] {
            Value::Null => RecordOrigin::Api,
            file => RecordOrigin::File(Path::new(file.as_str()?).into()),
        };
        Some(Self { slot, origin, is_removed: record["removed"].as_bool()?, given, held })
    }
}
