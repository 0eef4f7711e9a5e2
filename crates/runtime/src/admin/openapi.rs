//! The OpenAPI document of the admin listener, generated from its routes. It must not know any
//! route: each brings its [`Operation`].

use std::collections::HashSet;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::reply::ErrorCode;
use super::route::operation::{DocumentedResponse, Operation};
use super::route::{Api, Method};

impl Operation {
    /// Adds the errors that the listener itself returns.
    fn with_refusals(self, method: Method, path: &str, is_limited: bool) -> Self {
        let malformed = if self.parameters.is_empty() && self.body.is_none() {
            "The `host` header is missing, repeated or malformed, or `transfer-encoding` is not one \
             `chunked`."
        } else {
            "The head, the query or the body cannot be read."
        };
        let mut all = self.error(ErrorCode::BadRequest, malformed);
        if !is_open(path) {
            let doc = "`admin.token` is configured, and the request does not have it.";
            all = all.error(ErrorCode::Unauthorized, doc);
            let doc = "The host that the request names is not an address, not `localhost`, and not \
                       in `admin.hosts`.";
            all = all.error(ErrorCode::MisdirectedRequest, doc);
        }
        if method != Method::Get {
            all = all.error(ErrorCode::CrossOrigin, "The request comes from a web page.");
        }
        if all.body.is_some() {
            all = all.error(ErrorCode::BodyTooLarge, "The body is larger than any that is read.");
            let doc = "The body is of a media type that is not read.";
            all = all.error(ErrorCode::UnsupportedMediaType, doc);
        }
        if is_limited && method != Method::Get {
            let doc = "Changes are asked for too often: see `admin.changes_burst` and \
                       `admin.change_interval`.";
            all = all
                .error(ErrorCode::TooManyRequests, doc)
                .headers(&[("retry-after", "Seconds until it may be asked for again.")]);
        }
        all
    }

    fn to_json(&self, path: &str, generator: &mut SchemaGenerator) -> Value {
        let mut responses = Map::new();
        for response in &self.responses {
            let status = response.status.to_string();
            let known = responses.entry(status).or_insert_with(|| json!({}));
            response.add_to(known, generator);
        }
        let of_path = path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
        let of_path = of_path.map(|name| {
            let doc = "Percent-encoded.";
            let schema = json!({ "type": "string" });
            json!({ "name": name, "in": "path", "required": true, "description": doc, "schema": schema })
        });
        let parameters: Vec<Value> = of_path.chain(self.parameters.iter().cloned()).collect();
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "parameters": parameters,
            "responses": responses,
        });
        if is_open(path) {
            operation["security"] = json!([]);
        }
        if let Some((media_types, schema)) = self.body {
            let schema = schema(generator);
            let content =
                media_types.iter().map(|it| ((*it).to_owned(), json!({ "schema": schema })));
            let content: Map<_, _> = content.collect();
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        operation
    }
}

impl DocumentedResponse {
    fn add_to(&self, known: &mut Value, generator: &mut SchemaGenerator) {
        let doc = match known["description"].as_str() {
            Some(other) => format!("{other} {}", self.doc),
            None => self.doc.to_owned(),
        };
        known["description"] = doc.into();
        for (name, doc) in self.headers {
            known["headers"][name] = json!({ "description": doc, "schema": { "type": "string" } });
        }
        let Some((media_type, schema)) = self.content else { return };
        let schema = Value::from(schema(generator));
        let slot = &mut known["content"][media_type]["schema"];
        if slot.is_null() {
            *slot = schema;
        } else if *slot != schema {
            *slot = json!({ "anyOf": [slot.take(), schema] });
        }
    }
}

/// Whether a path needs neither a token nor an accepted host.
pub(super) fn is_open(path: &str) -> bool {
    path.starts_with("/health/")
}

/// The document of all `apis`.
pub fn openapi(apis: &[Api]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(closed)));
    });
    let mut generator = settings.into_generator();
    let mut paths = json!({});
    for api in apis {
        for (method, path, operation) in api.operations() {
            let operation = operation.clone().with_refusals(method, path, api.is_limited());
            paths[path][method.name().to_lowercase()] = operation.to_json(path, &mut generator);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Vickrey for operators",
            "version": "1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": DESCRIPTION,
        },
        "servers": [{ "url": "http://127.0.0.1:9464" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": generator.take_definitions(true),
        },
    })
}

const DESCRIPTION: &str = "What the admin listener answers. If `admin.token` is configured, every \
                           request except health checks must carry it as a bearer token; otherwise \
                           no token is needed, and only the local machine can reach the listener. \
                           Requests that change something and carry an `origin` header are \
                           refused, so that web pages cannot change an exchange. All errors have \
                           the same form. GET routes also answer HEAD. The schemas of definitions \
                           accept everything that the exchange accepts, and possibly more: what it \
                           refuses is answered with 422 and all problems.";

/// Closes objects: they have only the described members, and a member that may be absent is never
/// null.
fn closed(schema: &mut Schema) {
    let required: HashSet<String> = match schema.get("required").and_then(Value::as_array) {
        Some(names) => names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
        None => HashSet::new(),
    };
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let optional = properties.iter_mut().filter(|(name, _)| !required.contains(*name));
    for property in optional.filter_map(|(_, property)| property.as_object_mut()) {
        for (key, null) in [("type", json!("null")), ("anyOf", json!({ "type": "null" }))] {
            let Some(forms) = property.get_mut(key).and_then(Value::as_array_mut) else { continue };
            forms.retain(|form| *form != null);
            if let [only] = &mut forms[..] {
                match only.take() {
                    Value::Object(members) => {
                        property.remove(key);
                        property.extend(members);
                    }
                    only => property[key] = only,
                }
            }
        }
    }
    if schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        n: u8,
    }

    #[derive(Serialize, JsonSchema)]
    struct Members {
        written: Option<u8>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        inner: Option<Inner>,
    }

    #[test]
    fn only_members_that_are_always_written_may_be_null() {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with(|it| it.transforms.push(Box::new(RecursiveTransform(closed))));
        let schema = settings.into_generator().into_root_schema_for::<Members>();
        let properties = &schema.as_value()["properties"];
        assert_eq!(properties["written"]["type"], json!(["integer", "null"]));
        assert_eq!(properties["text"], json!({ "type": "string" }));
        assert_eq!(properties["inner"], json!({ "$ref": "#/$defs/Inner" }));
        assert_eq!(schema.as_value()["additionalProperties"], false);
    }
}
