//! One auction as a trace: a span for each of its phases, and below the wait for DSPs one for each
//! call.
//!
//! It is put together at the end, from moments that the auction measured anyway: one that is not
//! sampled costs a comparison.

use exchange_core::record::CallOutcome;
use runtime::traces::{SpanRole, TraceSpan, Tracer};
use tokio::time::Instant;

/// Whose trace it is.
#[derive(Clone, Copy, Debug)]
pub struct AuctionTrace<'t> {
    /// Says what is sampled.
    pub tracer: &'t Tracer,
    /// The auction's own id, 32 hexadecimal digits, which becomes the trace's.
    pub id: &'t str,
    /// The caller's `traceparent` header, as it came.
    pub traceparent: Option<&'t [u8]>,
}

/// When each phase of an auction was over, as far as it came.
#[derive(Clone, Copy, Debug)]
pub struct AuctionTimings {
    /// The kernel had its head.
    pub arrival: Instant,
    /// Its turn on the shard and all of its body had come.
    pub received: Instant,
    /// The request had been read.
    pub parsed: Instant,
    /// It was known whom to ask for what.
    pub asked: Option<Instant>,
    /// All DSPs had answered, or their time was up.
    pub closed: Option<Instant>,
    /// It was known who had won, and what they pay.
    pub cleared: Option<Instant>,
    /// The answer had been written down.
    pub answered: Instant,
}

/// One call to a DSP.
#[derive(Clone, Copy, Debug)]
pub struct TracedCalls<'c> {
    /// The DSP's id.
    pub dsp: &'c str,
    /// How it ended.
    pub outcome: CallOutcome,
    /// When; absent, with the auction's close.
    pub ended: Option<Instant>,
}

impl AuctionTrace<'_> {
    /// Traces the auction, if it is sampled. `outcome` is what `vickrey_exchange_auctions_total` counts.
    pub fn record<'c>(
        &self,
        moments: &AuctionTimings,
        outcome: &'static str,
        calls: impl IntoIterator<Item = TracedCalls<'c>>,
    ) {
        if !self.tracer.is_on() {
            return;
        }
        let Ok(id) = u128::from_str_radix(self.id, 16) else { return };
        let Some(mut trace) = self.tracer.sample(id, self.traceparent) else { return };
        let root = trace.root();
        let AuctionTimings { arrival, received, parsed, asked, closed, cleared, answered } =
            *moments;
        // Where it ended before its time, the last phase is the one that it ended in.
        let phases = [
            ("receive", Some(arrival), Some(received)),
            ("parse", Some(received), Some(parsed)),
            ("ask", Some(parsed), asked),
            ("collect", asked, closed),
            ("clear", closed, cleared),
            ("answer", cleared, Some(answered)),
        ];
        let mut collect = None;
        for (name, start, end) in phases {
            let Some(start) = start else { continue };
            let span = TraceSpan::new(name, start.into_std(), end.unwrap_or(answered).into_std());
            let id = trace.add(root, span);
            if name == "collect" {
                collect = Some((id, start, end.unwrap_or(answered)));
            }
        }
        if let Some((collect, start, close)) = collect {
            for TracedCalls { dsp, outcome, ended } in calls {
                let ended = ended.unwrap_or(close);
                let span = TraceSpan::new("call", start.into_std(), ended.into_std())
                    .of_kind(SpanRole::Client)
                    .failed(!matches!(outcome, CallOutcome::Answered | CallOutcome::NoBid));
                trace.add(collect, span.with("dsp", dsp).with("outcome", outcome.label()));
            }
        }
        let span = TraceSpan::new("auction", arrival.into_std(), answered.into_std());
        trace.finish(span.of_kind(SpanRole::Server).with("outcome", outcome));
    }
}

#[cfg(test)]
mod tests;
