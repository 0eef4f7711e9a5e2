//! How the API's document describes a route. It must not know how the document is written.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::admin::reply::{ErrorBody, ErrorCode, ErrorField};

/// Writes a schema; the generator defines the types it refers to.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A route's part of the document. Path parameters and common responses, such as 401, are added.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(in crate::admin) tag: &'static str,
    pub(in crate::admin) id: &'static str,
    pub(in crate::admin) summary: &'static str,
    pub(in crate::admin) parameters: Vec<Value>,
    pub(in crate::admin) body: Option<(&'static [&'static str], SchemaOf)>,
    pub(in crate::admin) responses: Vec<DocumentedResponse>,
}

#[derive(Clone, Debug)]
pub(in crate::admin) struct DocumentedResponse {
    pub(in crate::admin) status: u16,
    pub(in crate::admin) doc: &'static str,
    /// Names and descriptions.
    pub(in crate::admin) headers: &'static [(&'static str, &'static str)],
    /// Media type and schema. None if there is no body.
    pub(in crate::admin) content: Option<(&'static str, SchemaOf)>,
}

impl Operation {
    /// An operation without parameters, body and responses. `id` is its unique name for programs.
    pub const fn new(tag: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self { tag, id, summary, parameters: Vec::new(), body: None, responses: Vec::new() }
    }

    /// Adds an optional parameter; `place` is `query` or `header`.
    #[must_use]
    pub fn parameter(mut self, place: &str, name: &str, schema: &Value, doc: &str) -> Self {
        let parameter = json!({ "name": name, "in": place, "description": doc, "schema": schema });
        self.parameters.push(parameter);
        self
    }

    /// Adds a body in one of these media types.
    #[must_use]
    pub fn body(self, media_types: &'static [&'static str], schema: SchemaOf) -> Self {
        Self { body: Some((media_types, schema)), ..self }
    }

    /// Adds a JSON response.
    #[must_use]
    pub fn json<T: JsonSchema>(self, status: u16, doc: &'static str) -> Self {
        self.json_of(status, doc, SchemaGenerator::subschema_for::<T>)
    }

    /// Adds a JSON response with this schema.
    #[must_use]
    pub fn json_of(self, status: u16, doc: &'static str, schema: SchemaOf) -> Self {
        self.response(status, doc, Some(("application/json", schema)))
    }

    /// Adds a text response.
    #[must_use]
    pub fn text(self, status: u16, media_type: &'static str, doc: &'static str) -> Self {
        self.response(status, doc, Some((media_type, SchemaGenerator::subschema_for::<String>)))
    }

    /// Adds the response 204.
    #[must_use]
    pub fn nothing(self, doc: &'static str) -> Self {
        self.response(204, doc, None)
    }

    /// Adds an error.
    #[must_use]
    pub fn error(self, code: ErrorCode, doc: &'static str) -> Self {
        self.error_with::<ErrorField>(code, doc)
    }

    /// Adds an error with further members.
    #[must_use]
    pub fn error_with<M: JsonSchema>(self, code: ErrorCode, doc: &'static str) -> Self {
        self.json::<ErrorBody<M>>(code.status().as_u16(), doc)
    }

    /// Adds headers to the last response: names and descriptions.
    #[must_use]
    pub fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        if let Some(last) = self.responses.last_mut() {
            last.headers = headers;
        }
        self
    }

    fn response(
        mut self,
        status: u16,
        doc: &'static str,
        content: Option<(&'static str, SchemaOf)>,
    ) -> Self {
        self.responses.push(DocumentedResponse { status, doc, headers: &[], content });
        self
    }
}
