//! Sends finished traces in batches. A batch that the collector refuses temporarily is retried a
//! few times; meanwhile finished traces queue, and are dropped if the queue is full (OTLP 1.x,
//! section "Failures").

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::client::CollectorClient;
use super::encoding::{TraceClocks, rejected, request};
use super::options::TracingOptions;
use super::queue::{FinishedTrace, SpanQueue, count};
use crate::control::Control;

/// Spans that complete a batch.
const BATCH_SPANS: usize = 2048;
/// Longest wait for a batch to fill.
const BATCH_WAIT_MAX: Duration = Duration::from_secs(1);
/// Attempts to send a batch, and the pause after the first; each further pause doubles.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

enum BatchOutcome {
    /// Accepted, except for the rejected spans.
    Accepted { rejected: usize },
    /// Permanently refused.
    Refused(StatusCode),
    /// May be retried; the reason.
    RetryLater(String),
}

/// Waits for a trace and then briefly for more. If dropped, it leaves received traces in `batch`.
async fn fill(
    batch: &mut Vec<FinishedTrace>,
    finished: &mut mpsc::UnboundedReceiver<FinishedTrace>,
) {
    let mut fills_until = None;
    while spans_of(batch) < BATCH_SPANS {
        let next = match fills_until {
            None => finished.recv().await,
            Some(until) => timeout_at(until, finished.recv()).await.ok().flatten(),
        };
        let Some(next) = next else { break };
        batch.push(next);
        fills_until.get_or_insert_with(|| Instant::now() + BATCH_WAIT_MAX);
    }
}

struct ExporterStopped;

pub(super) struct Exporter {
    queue: Arc<SpanQueue>,
    client: CollectorClient,
    service_name: String,
    /// Whether the collector accepted the last batch: only changes are logged.
    is_accepting: bool,
}

impl Exporter {
    pub(super) fn new(options: TracingOptions, queue: Arc<SpanQueue>, control: &Control) -> Self {
        let _runtime = control.enter();
        let client = CollectorClient::new(&options);
        Self { queue, client, service_name: options.service_name, is_accepting: true }
    }

    /// Sends until stopped, then sends the rest once.
    pub(super) async fn run(
        mut self,
        mut finished: mpsc::UnboundedReceiver<FinishedTrace>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                () = fill(&mut batch, &mut finished) => (),
                _ = &mut stopped => break,
            }
            if self.export(std::mem::take(&mut batch), &mut stopped).await.is_err() {
                break;
            }
        }
        finished.close();
        while let Ok(trace) = finished.try_recv() {
            batch.push(trace);
        }
        self.export_once(&batch).await;
    }

    async fn export(
        &mut self,
        batch: Vec<FinishedTrace>,
        stopped: &mut oneshot::Receiver<()>,
    ) -> Result<(), ExporterStopped> {
        for tries in 1..=TRIES_MAX {
            let BatchOutcome::RetryLater(reason) = self.send(&batch).await else { return Ok(()) };
            self.warn_of_refusal(&reason);
            if tries == TRIES_MAX {
                break;
            }
            tokio::select! {
                () = sleep(PAUSE * (1 << (tries - 1))) => (),
                _ = &mut *stopped => {
                    self.export_once(&batch).await;
                    return Err(ExporterStopped);
                }
            }
        }
        self.give_up(&batch);
        Ok(())
    }

    async fn export_once(&mut self, batch: &[FinishedTrace]) {
        if !batch.is_empty() && matches!(self.send(batch).await, BatchOutcome::RetryLater(_)) {
            self.give_up(batch);
        }
    }

    fn give_up(&self, batch: &[FinishedTrace]) {
        count(&self.queue.counts.unreachable, spans_of(batch));
        self.release(batch);
    }

    /// Returns the batch's room in the queue.
    fn release(&self, batch: &[FinishedTrace]) {
        self.queue.waiting.fetch_sub(spans_of(batch), Ordering::Relaxed);
    }

    async fn send(&mut self, batch: &[FinishedTrace]) -> BatchOutcome {
        let body = request(&self.service_name, TraceClocks::now(), batch);
        let sent = match self.client.post(body).await {
            Ok((status, answer)) if status.is_success() => {
                BatchOutcome::Accepted { rejected: rejected(&answer) }
            }
            Ok((status, _)) if is_retryable(status) => BatchOutcome::RetryLater(status.to_string()),
            Ok((status, _)) => BatchOutcome::Refused(status),
            Err(error) => BatchOutcome::RetryLater(error.to_string()),
        };
        let (spans, counts) = (spans_of(batch), &self.queue.counts);
        match &sent {
            BatchOutcome::Accepted { rejected } => {
                let rejected = (*rejected).min(spans);
                count(&counts.exported, spans - rejected);
                count(&counts.rejected, rejected);
                if !self.is_accepting {
                    info!("the collector takes traces again");
                }
                self.is_accepting = true;
                self.release(batch);
            }
            BatchOutcome::Refused(status) => {
                count(&counts.refused, spans);
                self.warn_of_refusal(&status.to_string());
                self.release(batch);
            }
            BatchOutcome::RetryLater(_) => (),
        }
        sent
    }

    fn warn_of_refusal(&mut self, reason: &str) {
        if self.is_accepting {
            warn!(reason, "the collector does not take traces");
        }
        self.is_accepting = false;
    }
}

/// OTLP 1.x, section "Retryable Response Codes".
fn is_retryable(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn spans_of(batch: &[FinishedTrace]) -> usize {
    batch.iter().map(|finished| finished.spans.len()).sum()
}
