//! Traces of a sample of the work, sent to an OpenTelemetry collector (OTLP over HTTP).
//!
//! The work asks the [`Tracer`] whether it is sampled, adds [`TraceSpan`]s from times that it
//! measures anyway, and finishes the [`Trace`]. Unsampled work costs one comparison. The control
//! thread sends finished traces in batches. Its queue is bounded; traces beyond it are dropped and
//! counted, so a slow or dead collector slows nothing.
//!
//! ```
//! # use std::time::{Duration, Instant};
//! # use runtime::traces::{TraceSpan, Tracer};
//! # let (tracer, arrival, parsed) = (Tracer::off(), Instant::now(), Instant::now());
//! if let Some(mut trace) = tracer.sample(0x0123_4567_89ab_cdef, None) {
//!     let root = trace.root();
//!     trace.add(root, TraceSpan::new("parse", arrival, parsed));
//!     let auction = TraceSpan::new("auction", arrival, Instant::now());
//!     trace.finish(auction.with("outcome", "filled"));
//! }
//! ```
//!
//! It must not know what is traced.

mod client;
mod encoding;
mod exporter;
mod options;
mod parent;
mod span;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};
use units::{Ppm, SplitMix64};

use crate::control::{Control, ControlTask};
use crate::metrics::{Exposition, MetricsPage};
use exporter::Exporter;
use parent::Parent;

pub use options::TracingOptions;
pub use span::{SpanId, SpanRole, SpanValue, Trace, TraceSpan};

/// Most finished spans that wait to be sent: about 20 MB with their attributes.
pub const SPANS_WAITING_MAX: usize = 65_536;

/// Most spans of one trace; further ones are dropped.
pub const SPANS_PER_TRACE_MAX: usize = 2048;

/// Samples work and collects its traces. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<TracerShared>>);

#[derive(Debug)]
struct TracerShared {
    /// In millionths of all work.
    sample: AtomicU32,
    callers: bool,
    finished: mpsc::UnboundedSender<FinishedTrace>,
    waiting: AtomicUsize,
    counts: SpanCounts,
}

/// A trace on its way to the exporter; the root is its last span.
#[derive(Debug)]
struct FinishedTrace {
    trace_id: u128,
    caller: Option<SpanId>,
    spans: Vec<span::PlacedSpan>,
}

#[derive(Debug, Default)]
struct SpanCounts {
    exported: AtomicU64,
    /// The collector accepted the batch without these.
    rejected: AtomicU64,
    /// The collector permanently refused the batch.
    refused: AtomicU64,
    /// The collector was unreachable or busy for too long.
    unreachable: AtomicU64,
    dropped: AtomicU64,
}

impl Tracer {
    /// A tracer that samples nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether anything may be sampled.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the trace of one piece of work if it is sampled: by its `id`, which becomes the
    /// trace's id, or because the caller's `traceparent` header (W3C Trace Context) asks for it;
    /// then it continues the caller's trace. All processes sample the same ids.
    #[inline]
    pub fn sample(&self, id: u128, traceparent: Option<&[u8]>) -> Option<Trace> {
        let shared = self.0.as_ref()?;
        shared.sample(id, traceparent)
    }

    /// Changes the sampled share.
    pub fn set_sample(&self, share: Ppm) {
        if let Some(shared) = &self.0 {
            shared.sample.store(share.get(), Ordering::Relaxed);
        }
    }

    /// Adds the counts of spans to the metrics.
    pub fn expose(&self, exposition: &mut Exposition) {
        if let Some(shared) = self.0.clone() {
            exposition.add(move |page| shared.expose(page));
        }
    }
}

impl TracerShared {
    #[inline]
    fn sample(self: &Arc<Self>, id: u128, traceparent: Option<&[u8]>) -> Option<Trace> {
        let caller = traceparent.filter(|_| self.callers).and_then(Parent::parse);
        let drawn = || is_sampled(id, self.sample.load(Ordering::Relaxed));
        match caller {
            Some(caller) if caller.is_sampled => {
                Some(Trace::continued(Arc::clone(self), id, caller))
            }
            _ if drawn() => Some(Trace::own(Arc::clone(self), id)),
            _ => None,
        }
    }

    fn finish(&self, finished: FinishedTrace) {
        let spans = finished.spans.len();
        let waiting = self.waiting.fetch_add(spans, Ordering::Relaxed);
        if waiting + spans > SPANS_WAITING_MAX || self.finished.send(finished).is_err() {
            self.waiting.fetch_sub(spans, Ordering::Relaxed);
            self.drop_spans(spans);
        }
    }

    fn drop_spans(&self, spans: usize) {
        count(&self.counts.dropped, spans);
    }

    fn expose(&self, page: &mut MetricsPage<'_>) -> fmt::Result {
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

fn count(counter: &AtomicU64, spans: usize) {
    counter.fetch_add(spans as u64, Ordering::Relaxed);
}

/// Whether `id` is in the sampled share, in millionths.
fn is_sampled(id: u128, share: u32) -> bool {
    let (high, low) = halves(id);
    let first = |seed| SplitMix64::new(seed).bits();
    // The high bits of a mixed number are uniform, even for sequential ids.
    let drawn = u128::from(first(low ^ first(high))) * u128::from(Ppm::ONE.get());
    (drawn >> u64::BITS) < u128::from(share)
}

#[expect(clippy::cast_possible_truncation, reason = "each half is what is meant")]
fn halves(id: u128) -> (u64, u64) {
    ((id >> u64::BITS) as u64, id as u64)
}

/// The task that sends traces to the collector.
#[derive(Debug)]
pub struct Exporting {
    stop: oneshot::Sender<()>,
    task: ControlTask,
}

impl Exporting {
    /// Sends finished traces, once and for 10 s at most, and ends.
    pub fn stop(self) {
        drop(self.stop);
        self.task.join();
    }
}

/// Starts tracing: returns the tracer and the task on `control` that sends.
pub fn start(options: TracingOptions, control: &Control) -> (Tracer, Exporting) {
    let (finished, taken) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    let shared = Arc::new(TracerShared {
        sample: AtomicU32::new(options.sample.get()),
        callers: options.callers,
        finished,
        waiting: AtomicUsize::new(0),
        counts: SpanCounts::default(),
    });
    let exporter = Exporter::new(options, Arc::clone(&shared), control);
    let task = control.spawn(move || exporter.run(taken, stopped));
    (Tracer(Some(shared)), Exporting { stop, task })
}
