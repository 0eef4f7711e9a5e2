//! One piece of the work in a trace. It must not know how it is sent.

use std::num::NonZeroU64;
use std::time::Instant;

/// The id of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(NonZeroU64);

impl SpanId {
    /// None if `id` is zero, which the protocol reserves.
    pub(super) fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(Self)
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

/// The role of a span, as OpenTelemetry's span kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanRole {
    /// Work within this process.
    Internal,
    /// A request that a caller waits for.
    Server,
    /// A call to another process that we wait for.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// Text.
    Text(String),
    /// A number.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SpanValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for SpanValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

/// One piece of the work, from start to end.
#[derive(Clone, Debug)]
pub struct TraceSpan {
    pub(super) name: &'static str,
    pub(super) kind: SpanRole,
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) attributes: Vec<(&'static str, SpanValue)>,
    pub(super) failed: bool,
}

impl TraceSpan {
    /// An internal span that has not failed.
    pub fn new(name: &'static str, start: Instant, end: Instant) -> Self {
        Self { name, kind: SpanRole::Internal, start, end, attributes: Vec::new(), failed: false }
    }

    /// Sets its role.
    #[must_use]
    pub fn of_kind(self, kind: SpanRole) -> Self {
        Self { kind, ..self }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<SpanValue>) -> Self {
        self.attributes.push((key, value.into()));
        self
    }

    /// Sets whether it has failed.
    #[must_use]
    pub fn failed(self, failed: bool) -> Self {
        Self { failed, ..self }
    }
}
