//! Schemas of definitions and their patches, from the declarations that read them.

use pacer_core::definitions::amounts::LIMIT_KEYS;
use runtime::config::{Section, describe, json_schema};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::registry::{AccountFacts, CampaignRules, DefinedAccount, DefinedCampaign};

const ACCOUNT: &str = "AccountDefinition";
const CAMPAIGN: &str = "CampaignDefinition";

pub(super) fn account(generator: &mut SchemaGenerator) -> Schema {
    named(generator, ACCOUNT, declared_account)
}

pub(super) fn campaign<R: CampaignRules>(generator: &mut SchemaGenerator) -> Schema {
    named(generator, CAMPAIGN, declared_campaign::<R>)
}

/// A reference to the schema, which another route defines.
pub(super) fn account_reference(_: &mut SchemaGenerator) -> Schema {
    reference(ACCOUNT)
}

pub(super) fn campaign_reference(_: &mut SchemaGenerator) -> Schema {
    reference(CAMPAIGN)
}

pub(super) fn account_patch(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "AccountPatch", || patch(declared_account()))
}

pub(super) fn campaign_patch<R: CampaignRules>(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "CampaignPatch", || patch(declared_campaign::<R>()))
}

pub(super) fn limits(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "Budgets", || {
        let mut schema = patch(declared_account());
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.retain(|name, _| LIMIT_KEYS.iter().any(|(key, _)| key == name));
        }
        schema["properties"]["version"] = json!({
            "type": "integer",
            "minimum": 1,
            "description": "The version that must be in force, instead of if-match.",
        });
        schema["minProperties"] = 1.into();
        schema["description"] =
            "Absolute limits. Null removes a limit; an absent one does not change.".into();
        schema
    })
}

fn declared_account() -> Value {
    declared("An account, which pays. The keys are those of `[[account]]` in a file.", |s| {
        drop(DefinedAccount::read(s));
    })
}

fn declared_campaign<R: CampaignRules>() -> Value {
    let facts = |_: &str| Ok(AccountFacts::unknown());
    let doc = "A campaign. The keys are those of `[[campaign]]` in a file.";
    let mut schema = declared(doc, |s| drop(DefinedCampaign::<R>::read(s, facts)));
    let others = |table: &str| R::TABLES.iter().filter(|it| **it != table).collect::<Vec<_>>();
    let together = R::TABLES.iter().map(|table| ((*table).to_owned(), json!(others(table))));
    schema["dependentRequired"] = Value::Object(together.collect());
    schema
}

fn declared(doc: &str, read: impl Fn(&mut Section<'_>)) -> Value {
    let mut schema = json_schema(&describe(read));
    schema["description"] = doc.into();
    schema
}

/// Merge patch (RFC 7396) for this schema: any of its keys, and null for optional ones.
fn patch(mut schema: Value) -> Value {
    let required = schema["required"].take();
    let is_required = |name: &str| {
        required.as_array().is_some_and(|names| names.iter().any(|known| known == name))
    };
    for (name, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        if property["properties"].is_object() {
            *property = patch(property.take());
        }
        if !is_required(name) {
            *property = json!({ "oneOf": [property.take(), { "type": "null" }] });
        }
    }
    if let Some(members) = schema.as_object_mut() {
        members.remove("required");
        members.remove("dependentRequired");
    }
    schema
}

fn named(generator: &mut SchemaGenerator, name: &str, schema: impl FnOnce() -> Value) -> Schema {
    if !generator.definitions().contains_key(name) {
        let mut schema = schema();
        if let Some(members) = schema.as_object_mut() {
            members.remove("$schema");
        }
        generator.definitions_mut().insert(name.to_owned(), schema);
    }
    reference(name)
}

fn reference(name: &str) -> Schema {
    Schema::new_ref(format!("#/components/schemas/{name}"))
}
