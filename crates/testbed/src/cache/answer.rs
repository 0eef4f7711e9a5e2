//! Answers of a cache: their heads, what they say of the store, and whether they are right.

use crate::load::{CallAnswer, Verdict};

/// Most header fields of an answer.
const FIELDS_MAX: usize = 64;

/// How an answer's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    After(usize),
    /// With the last chunk.
    Chunks,
    /// With the connection.
    Close,
}

/// What a load needs of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GetHead {
    pub(crate) status: u16,
    pub(super) body_end: BodyEnd,
    pub(super) keeps_connection: bool,
    pub(super) handling: CacheHandling,
}

/// How the cache says that it handled a request (RFC 9211).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHandling {
    /// From the store, fresh.
    Hit,
    /// From the store, stale.
    Stale,
    /// By a request to the origin.
    Forwarded,
    /// By the request of another client.
    Collapsed,
    /// It does not say.
    Unknown,
}

impl GetHead {
    /// The head at the start of these bytes, and its length. None if it is not complete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("the answer is not HTTP"),
        };
        let status = head.code.unwrap_or_default();
        let mut found = Self {
            status,
            body_end: BodyEnd::Close,
            keeps_connection: head.version == Some(1),
            handling: CacheHandling::Unknown,
        };
        for field in head.headers.iter() {
            let value = str::from_utf8(field.value).unwrap_or_default();
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| "the length is no number")?;
                found.body_end = BodyEnd::After(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                found.body_end = BodyEnd::Chunks;
            } else if field.name.eq_ignore_ascii_case("connection") {
                found.keeps_connection &= !value.eq_ignore_ascii_case("close");
            } else if field.name.eq_ignore_ascii_case("cache-status") {
                found.handling = CacheHandling::of(value);
            }
        }
        if status < 200 || matches!(status, 204 | 304) {
            found.body_end = BodyEnd::After(0);
        }
        found.keeps_connection &= found.body_end != BodyEnd::Close;
        Ok(Some((found, length)))
    }
}

impl CacheHandling {
    /// By the member of the cache that is nearest to the client, the last.
    fn of(field: &str) -> Self {
        let member = field.rsplit(',').next().unwrap_or_default();
        let has = |parameter: &str| member.split(';').any(|part| part.trim() == parameter);
        let is_stale = member.contains("ttl=-");
        match (has("hit"), has("collapsed"), member.contains("fwd=")) {
            (true, ..) if is_stale => Self::Stale,
            (true, ..) => Self::Hit,
            (_, true, _) => Self::Collapsed,
            (_, _, true) => Self::Forwarded,
            _ => Self::Unknown,
        }
    }
}

/// An answer, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLoadAnswer {
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) handling: CacheHandling,
    /// Whether it is the body that was asked for. Only of 200.
    pub(super) is_right: bool,
}

impl CallAnswer for CacheLoadAnswer {
    fn verdict(&self) -> Verdict<'_> {
        match (self.status, self.is_right) {
            (200, true) => Verdict::Valid,
            (200, false) => Verdict::Invalid("a body that is not of its URL"),
            (300.., _) => Verdict::Refused,
            _ => Verdict::Invalid("a status that nobody asked for"),
        }
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn quote(&self) -> String {
        format!("status {}", self.status)
    }
}

#[cfg(test)]
mod tests;
