//! A hit as the bytes of an HTTP/1.1 message, for a request that wants the whole response and nothing
//! else: it makes no fields of what is already in their form.

use bytes::BytesMut;
use http::StatusCode;

use super::answer::{AnswerContext, append_number};
use super::response::{Resource, StoredBody, StoredResponse};
use crate::cache_status::append_hit;
use crate::rules::control::RequestControl;
use crate::rules::reuse::{Reuse, ServedFreshness};
use crate::rules::vary::RequestFields;

/// At most so many bytes are added to fields and content, but for the cache's names.
const ADDED_BYTES: usize = 160;

/// A message that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenHit {
    /// How fresh it is.
    pub served: ServedFreshness,
    /// Bytes of its content.
    pub body_bytes: u64,
}

impl Resource {
    /// Appends the message that answers a GET without conditions, ranges, directives and credentials.
    /// None if it is written otherwise, or the origin must be asked, first or meanwhile.
    pub fn write_hit(
        &self,
        request: &impl RequestFields,
        context: AnswerContext<'_>,
        to: &mut BytesMut,
    ) -> Option<WrittenHit> {
        let response = self.select(request)?;
        let freshness = response.freshness(context.purges)?;
        match freshness.reuse(&RequestControl::default(), context.now, context.rules) {
            Reuse::Serve(served) => response.write(served, context.name, to),
            Reuse::ServeAndValidate(_) | Reuse::Validate | Reuse::Unavailable => None,
        }
    }
}

impl StoredResponse {
    fn write(&self, served: ServedFreshness, name: &str, to: &mut BytesMut) -> Option<WrittenHit> {
        let StoredBody::Copied(body) = &self.body else { return None };
        if self.status != StatusCode::OK || !self.unvalidated_fields().is_empty() {
            return None;
        }
        let body_bytes = body.len() as u64;
        to.reserve(self.head.bytes() + body.len() + ADDED_BYTES + 2 * name.len());
        to.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        self.head.copy_to(to);
        to.extend_from_slice(b"age: ");
        append_number(to, served.age.0);
        to.extend_from_slice(b"\r\ncontent-length: ");
        append_number(to, body_bytes);
        to.extend_from_slice(b"\r\nvia: 1.1 ");
        to.extend_from_slice(name.as_bytes());
        to.extend_from_slice(b"\r\ncache-status: ");
        append_hit(name, served, to);
        to.extend_from_slice(b"\r\n\r\n");
        to.extend_from_slice(body);
        Some(WrittenHit { served, body_bytes })
    }
}
