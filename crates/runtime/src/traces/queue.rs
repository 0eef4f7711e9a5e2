//! Finished traces on their way to the exporter, and what became of their spans. It must not know how
//! they are sent.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::span::{SpanId, TraceSpan};
use crate::metrics::MetricsPage;

/// Most finished spans that wait to be sent: about 20 MB with their attributes.
pub const SPANS_WAITING_MAX: usize = 65_536;

/// A trace on its way to the exporter; the root is its last span.
#[derive(Debug)]
pub(super) struct FinishedTrace {
    pub(super) trace_id: u128,
    pub(super) caller: Option<SpanId>,
    pub(super) spans: Vec<PlacedSpan>,
}

#[derive(Debug)]
pub(super) struct PlacedSpan {
    pub(super) id: SpanId,
    /// None if it is the root, whose parent may be the caller's span.
    pub(super) parent: Option<SpanId>,
    pub(super) span: TraceSpan,
}

/// Where traces end: a bounded queue, and the counts of its spans.
#[derive(Debug)]
pub(super) struct SpanQueue {
    finished: mpsc::UnboundedSender<FinishedTrace>,
    pub(super) waiting: AtomicUsize,
    pub(super) counts: SpanCounts,
}

#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    pub(super) exported: AtomicU64,
    /// The collector accepted the batch without these.
    pub(super) rejected: AtomicU64,
    /// The collector permanently refused the batch.
    pub(super) refused: AtomicU64,
    /// The collector was unreachable or busy for too long.
    pub(super) unreachable: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl SpanQueue {
    /// An empty queue, and its end for the exporter.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<FinishedTrace>) {
        let (finished, receiver) = mpsc::unbounded_channel();
        let queue = Self { finished, waiting: AtomicUsize::new(0), counts: SpanCounts::default() };
        (queue, receiver)
    }

    pub(super) fn finish(&self, finished: FinishedTrace) {
        let spans = finished.spans.len();
        let waiting = self.waiting.fetch_add(spans, Ordering::Relaxed);
        if waiting + spans > SPANS_WAITING_MAX || self.finished.send(finished).is_err() {
            self.waiting.fetch_sub(spans, Ordering::Relaxed);
            self.drop_spans(spans);
        }
    }

    pub(super) fn drop_spans(&self, spans: usize) {
        count(&self.counts.dropped, spans);
    }

    pub(super) fn expose(&self, page: &mut MetricsPage<'_>) -> fmt::Result {
        let mut spans = page.counters("tracing_spans", "Spans by what became of them.")?;
        for (outcome, count) in [
            ("exported", &self.counts.exported),
            ("rejected", &self.counts.rejected),
            ("refused", &self.counts.refused),
            ("unreachable", &self.counts.unreachable),
            ("dropped", &self.counts.dropped),
        ] {
            spans.value(&[("outcome", outcome)], count.load(Ordering::Relaxed))?;
        }
        let waiting = i64::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        page.gauges("tracing_spans_waiting", "Spans that are finished and not yet sent.")?
            .value(&[], waiting)
    }
}

pub(super) fn count(counter: &AtomicU64, spans: usize) {
    counter.fetch_add(spans as u64, Ordering::Relaxed);
}
