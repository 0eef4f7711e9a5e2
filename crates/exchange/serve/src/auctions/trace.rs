//! An auction as a trace: a span for each phase, and one for each call below the wait for DSPs.
//!
//! Built at the end from the auction's own timings: an unsampled auction costs one comparison.

use exchange_core::record::CallOutcome;
use runtime::traces::{SpanRole, TraceSpan, Tracer};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct AuctionTrace<'t> {
    pub tracer: &'t Tracer,
    /// The auction's id, 32 hexadecimal digits, which becomes the trace's.
    pub id: &'t str,
    pub traceparent: Option<&'t [u8]>,
}

/// When each phase ended. None if the auction did not reach it.
#[derive(Clone, Copy, Debug)]
pub struct AuctionTimings {
    /// The kernel received the request's head.
    pub arrival: Instant,
    /// The body was complete, and the shard handled it.
    pub received: Instant,
    pub parsed: Instant,
    /// Bidders were chosen.
    pub asked: Option<Instant>,
    /// All DSPs had answered or timed out.
    pub collected: Option<Instant>,
    pub cleared: Option<Instant>,
    pub answered: Instant,
}

impl AuctionTimings {
    pub fn of_parsed(arrival: Instant, received: Instant, parsed: Instant) -> Self {
        let (asked, collected, cleared) = (None, None, None);
        Self { arrival, received, parsed, asked, collected, cleared, answered: parsed }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TracedCalls<'c> {
    pub dsp: &'c str,
    pub outcome: CallOutcome,
    /// None: at the auction's close.
    pub ended: Option<Instant>,
}

impl AuctionTrace<'_> {
    /// Traces the auction if sampled. `outcome` is a label of `vickrey_exchange_auctions_total`.
    pub fn record<'c>(
        &self,
        timings: &AuctionTimings,
        outcome: &'static str,
        calls: impl IntoIterator<Item = TracedCalls<'c>>,
    ) {
        if !self.tracer.is_on() {
            return;
        }
        let Ok(id) = u128::from_str_radix(self.id, 16) else { return };
        let Some(mut trace) = self.tracer.sample(id, self.traceparent) else { return };
        let root = trace.root();
        let AuctionTimings { arrival, received, parsed, asked, collected, cleared, answered } =
            *timings;
        // An auction that ends early ends in its last phase.
        let phases = [
            ("receive", Some(arrival), Some(received)),
            ("parse", Some(received), Some(parsed)),
            ("ask", Some(parsed), asked),
            ("collect", asked, collected),
            ("clear", collected, cleared),
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
