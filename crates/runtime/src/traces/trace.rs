//! A trace under construction. It must not know how it is sent.

use std::sync::Arc;

use units::SplitMix64;

use super::parent::Parent;
use super::queue::{FinishedTrace, PlacedSpan, SpanQueue};
use super::span::{SpanId, TraceSpan};

/// Most spans of one trace; further ones are dropped.
pub const SPANS_PER_TRACE_MAX: usize = 2048;

/// The trace of one piece of work. Dropped unfinished, it is discarded.
#[derive(Debug)]
pub struct Trace {
    queue: Arc<SpanQueue>,
    trace_id: u128,
    caller: Option<SpanId>,
    /// Seed of the span ids of this process and piece of work.
    ids_from: u64,
    spans: Vec<PlacedSpan>,
    left_out: usize,
}

impl Trace {
    pub(super) fn own(queue: Arc<SpanQueue>, id: u128) -> Self {
        let (high, low) = halves(id);
        let ids_from = SplitMix64::new(high).bits() ^ low;
        // Zero is not a valid trace id.
        let trace_id = id.max(1);
        Self { queue, trace_id, caller: None, ids_from, spans: Vec::new(), left_out: 0 }
    }

    /// A trace that continues the caller's. Its span ids still differ from those of other callees.
    pub(super) fn continued(queue: Arc<SpanQueue>, id: u128, caller: Parent) -> Self {
        let Parent { trace_id, span_id, is_sampled: _ } = caller;
        Self { trace_id, caller: Some(span_id), ..Self::own(queue, id) }
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
        self.queue.drop_spans(self.left_out);
        let Self { queue, trace_id, caller, spans, .. } = self;
        queue.finish(FinishedTrace { trace_id, caller, spans });
    }

    fn id(&self, index: usize) -> SpanId {
        let id = SplitMix64::new(self.ids_from).nth(index as u64);
        SpanId::new(id.max(1)).expect("it is not zero")
    }
}

#[expect(clippy::cast_possible_truncation, reason = "each half is what is meant")]
pub(super) fn halves(id: u128) -> (u64, u64) {
    ((id >> u64::BITS) as u64, id as u64)
}
