//! The stored record of a definition, as JSON: its text, origin, number and overrides.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use pacer_core::definitions::overrides::{FileOverrides, merge};
use pacer_core::messages::CampaignIndex;
use serde_json::{Map, Value};

use crate::registry::text::packed::{Packed, Packer};

/// Where a definition is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordOrigin {
    Api,
    File(Arc<Path>),
    /// A lot that was sold: nobody changes it.
    Lot,
}

/// The stored record of an account or a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRecord {
    /// Its permanent number. None for an account that never had seats.
    pub slot: Option<CampaignIndex>,
    /// Where it is changed.
    pub origin: RecordOrigin,
    /// Whether it is removed. Its number stays reserved.
    pub is_removed: bool,
    /// The origin's definition, as the JSON text of an object without defaults.
    pub given: Packed,
    /// The API's overrides of the file.
    pub overrides: FileOverrides,
}

impl RecordOrigin {
    /// The file. None for the API and for lots.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Api | Self::Lot => None,
            Self::File(path) => Some(path),
        }
    }
}

impl DefinitionRecord {
    /// The origin's definition.
    pub fn given(&self) -> Map<String, Value> {
        serde_json::from_str(&self.given.text()).expect("it was written as an object")
    }

    /// The definition in force: the origin's, with overrides.
    pub fn in_force(&self) -> Map<String, Value> {
        let mut given = self.given();
        merge(&mut given, &self.overrides.patch());
        given
    }

    /// The JSON text in force; `given` is the origin's.
    pub(in crate::registry) fn in_force_text<'g>(&self, given: &'g str) -> Cow<'g, str> {
        if self.overrides.is_empty() {
            return given.into();
        }
        Value::from(self.in_force()).to_string().into()
    }

    /// The record as stored; `given` is the origin's text.
    pub(in crate::registry) fn to_bytes(&self, given: &str) -> Vec<u8> {
        let file = Value::from(self.origin.file().map(|path| path.display().to_string()));
        let slot = Value::from(self.slot.map(|slot| slot.0));
        let (is_removed, held) = (self.is_removed, Value::from(self.overrides.members()));
        let lot = if self.origin == RecordOrigin::Lot { r#""lot":true,"# } else { "" };
        let record = format!(
            r#"{{"slot":{slot},"file":{file},{lot}"removed":{is_removed},"held":{held},"definition":{given}}}"#
        );
        record.into_bytes()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. None for anything else.
    pub(in crate::registry) fn from_bytes(bytes: &[u8], packer: &mut Packer) -> Option<Self> {
        let mut record: Value = serde_json::from_slice(bytes).ok()?;
        let mut object = |key: &str| match record[key].take() {
            Value::Object(object) => Some(object),
            _ => None,
        };
        let given = packer.pack(&Value::from(object("definition")?).to_string());
        let overrides = FileOverrides::of(object("held")?);
        let slot = match &record["slot"] {
            Value::Null => None,
            slot => Some(CampaignIndex(u32::try_from(slot.as_u64()?).ok()?)),
        };
        let origin = match &record["file"] {
            Value::Null if record["lot"] == true => RecordOrigin::Lot,
            Value::Null => RecordOrigin::Api,
            file => RecordOrigin::File(Path::new(file.as_str()?).into()),
        };
        Some(Self { slot, origin, is_removed: record["removed"].as_bool()?, given, overrides })
    }
}
