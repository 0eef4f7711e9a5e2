//! A trace under construction. It must not know how it is sent.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use units::SplitMix64;

use super::parent::Parent;
use super::{FinishedTrace, SPANS_PER_TRACE_MAX, TracerShared, halves};

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

#[derive(Debug)]
pub(super) struct PlacedSpan {
    pub(super) id: SpanId,
    /// None if it is the root, whose parent may be the caller's span.
    pub(super) parent: Option<SpanId>,
    pub(super) span: TraceSpan,
}

/// The trace of one piece of work. Dropped unfinished, it is discarded.
#[derive(Debug)]
pub struct Trace {
    shared: Arc<TracerShared>,
    trace_id: u128,
    caller: Option<SpanId>,
    /// Seed of the span ids of this process and piece of work.
    ids_from: u64,
    spans: Vec<PlacedSpan>,
    left_out: usize,
}

impl Trace {
    pub(super) fn own(shared: Arc<TracerShared>, id: u128) -> Self {
        let (high, low) = halves(id);
        let ids_from = SplitMix64::new(high).bits() ^ low;
        // Zero is not a valid trace id.
        let trace_id = id.max(1);
        Self { shared, trace_id, caller: None, ids_from, spans: Vec::new(), left_out: 0 }
    }

    /// A trace that continues the caller's. Its span ids still differ from those of other callees.
    pub(super) fn continued(shared: Arc<TracerShared>, id: u128, caller: Parent) -> Self {
        let Parent { trace_id, span_id, is_sampled: _ } = caller;
        Self { trace_id, caller: Some(span_id), ..Self::own(shared, id) }
    }

    /// The id of the span that [`finish`](Self::finish) adds.
    pub fn root(&self) -> SpanId {
        self.id(0)
    }

    /// Adds a child span; returns its id.
    pub fn add(&mut self, parent: SpanId, span: TraceSpan) -> SpanId {
        let id = self.id(self.spans.len() + 1);
        if self.spans.len() + 1 < SPANS_PER_TRACE_MAX {
            self.spans.push(PlacedSpan { id, parent: Some(parent), span });
        } else {
            self.left_out += 1;
        }
        id
    }

    /// Ends the trace and queues it, or drops it if the queue is full. It never waits.
    pub fn finish(mut self, root: TraceSpan) {
        self.spans.push(PlacedSpan { id: self.root(), parent: None, span: root });
        self.shared.drop_spans(self.left_out);
        let Self { shared, trace_id, caller, spans, .. } = self;
        shared.finish(FinishedTrace { trace_id, caller, spans });
    }

    fn id(&self, index: usize) -> SpanId {
        let id = SplitMix64::new(self.ids_from).nth(index as u64);
        SpanId(NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN))
    }
}
