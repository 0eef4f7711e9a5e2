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
mod queue;
mod span;
mod trace;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::oneshot;
use units::{Ppm, SplitMix64};

use crate::control::{Control, ControlTask};
use crate::metrics::Exposition;
use exporter::Exporter;
use parent::Parent;
use queue::SpanQueue;
use trace::halves;

pub use options::TracingOptions;
pub use queue::SPANS_WAITING_MAX;
pub use span::{SpanId, SpanRole, SpanValue, TraceSpan};
pub use trace::{SPANS_PER_TRACE_MAX, Trace};

/// Samples work and collects its traces. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<TracerShared>>);

#[derive(Debug)]
struct TracerShared {
    /// In millionths of all work.
    sample: AtomicU32,
    callers: bool,
    queue: Arc<SpanQueue>,
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
        let caller = traceparent.filter(|_| shared.callers).and_then(Parent::parse);
        let queue = || Arc::clone(&shared.queue);
        match caller {
            Some(caller) if caller.is_sampled => Some(Trace::continued(queue(), id, caller)),
            _ => is_sampled(id, shared.sample.load(Ordering::Relaxed))
                .then(|| Trace::own(queue(), id)),
        }
    }

    /// Changes the sampled share.
    pub fn set_sample(&self, share: Ppm) {
        if let Some(shared) = &self.0 {
            shared.sample.store(share.get(), Ordering::Relaxed);
        }
    }

    /// Adds the counts of spans to the metrics.
    pub fn expose(&self, exposition: &mut Exposition) {
        if let Some(shared) = &self.0 {
            let queue = Arc::clone(&shared.queue);
            exposition.add(move |page| queue.expose(page));
        }
    }
}

/// Whether `id` is in the sampled share, in millionths.
fn is_sampled(id: u128, share: u32) -> bool {
    let (high, low) = halves(id);
    let first = |seed| SplitMix64::new(seed).bits();
    // The high bits of a mixed number are uniform, even for sequential ids.
    let drawn = u128::from(first(low ^ first(high))) * u128::from(Ppm::ONE.get());
    (drawn >> u64::BITS) < u128::from(share)
}

/// The task that sends traces to the collector.
#[derive(Debug)]
pub struct TraceExport {
    stop: oneshot::Sender<()>,
    task: ControlTask,
}

impl TraceExport {
    /// Sends finished traces, once and for 10 s at most, and ends.
    pub fn stop(self) {
        drop(self.stop);
        self.task.join();
    }
}

/// Starts tracing: returns the tracer and the task on `control` that sends.
pub fn start(options: TracingOptions, control: &Control) -> (Tracer, TraceExport) {
    let (queue, finished) = SpanQueue::new();
    let (stop, stopped) = oneshot::channel();
    let queue = Arc::new(queue);
    let shared = TracerShared {
        sample: AtomicU32::new(options.sample.get()),
        callers: options.callers,
        queue: Arc::clone(&queue),
    };
    let exporter = Exporter::new(options, queue, control);
    let task = control.spawn(move || exporter.run(finished, stopped));
    (Tracer(Some(Arc::new(shared))), TraceExport { stop, task })
}
