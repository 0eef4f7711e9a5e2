//! Writes declarations as JSON Schema, draft 2020-12, for editors and CI. The schema accepts every
//! file that the reader accepts, and more: it does not cover ranges of numbers with units, nor the
//! checks of services.

use serde_json::{Map, Value, json};

use crate::config::declaration::{Form, KeyDoc, Need, Nesting, Role};
use crate::config::values::quantity::{Bounds, Quantity};

/// The JSON Schema of a file with these keys.
pub fn json_schema(keys: &[KeyDoc]) -> Value {
    let mut schema = object(keys);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema
}

fn object(keys: &[KeyDoc]) -> Value {
    let named = keys.iter().filter(|key| !matches!(key.role, Role::Renamed(_)));
    let properties: Map<_, _> = named.map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<_> = keys.iter().filter(|key| is_required(key)).map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A table that is always read is required if one of its keys is.
fn is_required(key: &KeyDoc) -> bool {
    match &key.role {
        Role::Value { need, .. } => *need == Need::Required,
        Role::Tables { nesting, keys } => {
            *nesting == Nesting::Section && keys.iter().any(is_required)
        }
        Role::Map(_) | Role::Secrets(_) | Role::Renamed(_) => false,
    }
}

fn property(key: &KeyDoc) -> Value {
    let mut schema = match &key.role {
        Role::Value { form, need, written } => {
            let mut schema = value(form);
            match need {
                Need::Default => schema["default"] = written.to_json(),
                Need::Optional | Need::Required => schema["examples"] = json!([written.to_json()]),
            }
            schema
        }
        Role::Map(example) | Role::Secrets(example) => json!({
            "type": "object",
            "additionalProperties": { "type": "string" },
            "examples": [example.to_json()],
        }),
        Role::Tables { nesting: Nesting::Tables, keys } => {
            json!({ "type": "array", "items": object(keys) })
        }
        Role::Tables { keys, .. } => object(keys),
        Role::Renamed(_) => json!(false),
    };
    schema["description"] = key.doc.into();
    schema
}

fn value(form: &Form) -> Value {
    match form {
        Form::Text | Form::Secret => json!({ "type": "string", "minLength": 1 }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Number(bounds) => number(bounds),
        Form::Price => text(r"^[0-9.eE+-]+ +[A-Z]{3}$"),
        Form::Currency => text("^[A-Z]{3}$"),
        Form::SocketAddress => text(":[0-9]+$"),
        Form::Url => text("^https?://"),
        Form::OneOf(names) => json!({ "enum": names }),
        Form::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Form::Integers(bounds) => json!({ "type": "array", "items": number(bounds) }),
    }
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn number(bounds: &Bounds) -> Value {
    match bounds.quantity {
        Quantity::Integer => {
            let mut schema = json!({ "type": "integer", "minimum": bounds.min });
            if let Some(max) = bounds.max {
                schema["maximum"] = max.into();
            }
            schema
        }
        unit => text(&format!(r"^[0-9]+(\.[0-9]+)? *({})$", unit.unit_names().join("|"))),
    }
}
