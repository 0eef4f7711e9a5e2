//! Counters of the exchange: one set per shard, written by that shard alone.

mod budget;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use exchange_core::record::CallOutcome;
use exchange_core::{
    BeaconTokenError, EnrichmentOutcome, Fate, NoBeacon, NotAsked, NotSent, ResponseFate,
};
use openrtb::InvalidReason;
use openrtb::codes::NoBidReason;
use runtime::metrics::{Counter, CounterArray, Gauge, Histogram};

pub use budget::BudgetMetrics;
pub(crate) use budget::{RESERVATION_OUTCOMES, RESERVATION_PROBLEMS};

/// Metrics of one shard.
#[derive(Debug, Default)]
pub struct ExchangeMetrics {
    /// Answers with at least one sale.
    pub filled: Counter,
    /// Auctions that moved no money because the request said `test`.
    pub tests: Counter,
    /// Impressions offered in auctions.
    pub impressions: Counter,
    /// Request fields dropped for their type.
    pub mistyped: Counter,
    /// Impressions not on sale because their floor's currency has no rate.
    pub unpriced: Counter,
    /// Impressions sold.
    pub sold: Counter,
    /// Direct campaigns left out, by impression, because too many matched.
    pub direct_left_out: Counter,
    /// Answers without a sale, by reason.
    pub no_bids: [Counter; NoBidReason::ALL.len()],
    /// Refused bodies, by reason.
    pub invalid: [Counter; InvalidReason::ALL.len()],
    /// Answers without an auction: 404, 405, 413, 415, and bodies that broke off or are no gzip.
    pub turned_away: Counter,
    /// Bids and documents of winners that were stored for pages and players.
    pub markup_stored: Counter,
    /// Those that were too large.
    pub markup_unstored: Counter,
    /// Auctions abandoned because the caller left.
    pub abandoned: Counter,
    /// Panics of DSP connections; each closes only that connection.
    pub reactor_panics: Counter,
    /// Failed TLS handshakes of callers.
    pub handshakes_failed: Counter,
    /// Notices refused because the dispatcher's queue was full.
    pub notices_refused: Counter,
    /// Beacons whose DSP gets no notice.
    pub beacons_without_notice: Counter,
    /// Upstream's price for billed bids, per impression, in nanos of the exchange's currency.
    pub upstream_nanos: Counter,
    /// Billed bids with an upstream price.
    pub upstream_priced: Counter,
    /// Billed bids whose upstream price cannot be read.
    pub upstream_unreadable: Counter,
    /// Beacons of other nodes, passed on and answered.
    pub beacons_passed_on: Counter,
    /// Beacons whose node was busy or unreachable, or at whose URL another server answered.
    pub beacons_not_passed_on: Counter,
    /// Beacons of nodes that are not listed.
    pub beacons_foreign: Counter,
    /// Refused beacons, by reason.
    pub beacons_refused: [Counter; BeaconTokenError::ALL.len()],
    /// From arrival until the body is complete and the shard handles it.
    pub receive: Histogram,
    /// Until the request is parsed and validated.
    pub parse: Histogram,
    /// Until the DSPs to ask are chosen.
    pub ask: Histogram,
    /// Until the close: writes to DSPs, and direct campaigns' bids.
    pub collect: Histogram,
    /// From the close to the answer's bytes.
    pub clear: Histogram,
    /// From the clearing to the answer: writing it and its notices.
    pub answer: Histogram,
    /// From arrival to the answer's bytes.
    pub total: Histogram,
    /// How late an answer's bytes were after arrival + `tmax`; in time, nothing is recorded.
    pub overshoot: Histogram,
    /// Bids by fate.
    pub fates: CounterArray<{ 1 + Fate::ALL.len() }>,
    /// Budgets of the shard.
    pub budget: BudgetMetrics,
}

/// Metrics of one DSP on one shard.
#[derive(Debug, Default)]
pub struct DspMetrics {
    /// Calls by outcome.
    pub outcomes: [Counter; 1 + CallOutcome::ALL.len()],
    /// Bodies of 200 answers, by content; unreadable ones are [`CallOutcome::Malformed`].
    pub responses: [Counter; 1 + ResponseFate::ALL.len()],
    /// Bids ignored because their response had more than [`exchange_core::BIDS_MAX`].
    pub surplus_bids: Counter,
    /// Requests not sent to the DSP, by reason.
    pub not_asked: [Counter; 1 + NotAsked::ALL.len()],
    /// Calls repeated after the DSP closed an idle connection.
    pub retries: Counter,
    /// Answers drained after their auction closed.
    pub drained: Counter,
    /// HTTP/2 streams reset after their auction closed.
    pub streams_reset: Counter,
    /// Connections opened.
    pub opened: Counter,
    /// Open connections, busy or idle.
    pub open: Gauge,
    /// From the request's first byte to the answer's last, late answers included.
    pub latency: Histogram,
    /// Notices not sent, by reason.
    pub unsent: [Counter; NotSent::ALL.len()],
    /// Ads returned without our beacon, by reason.
    pub unmarked: [Counter; NoBeacon::ALL.len()],
    /// The last errors.
    pub errors: RecentErrors,
}

/// A DSP's last errors; keeps at most ten a second.
#[derive(Debug, Default)]
pub struct RecentErrors {
    /// Unix milliseconds of the last error kept.
    noted_ms: AtomicU64,
    errors: Mutex<VecDeque<(SystemTime, String)>>,
}

impl RecentErrors {
    const KEPT: usize = 8;
    const EVERY_MS: u64 = 100;
    const BYTES_MAX: usize = 256;

    /// Keeps the error, unless one just came: a failing DSP must cost no more than a healthy one.
    pub(crate) fn note(&self, error: impl FnOnce() -> String) {
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        if now_ms.saturating_sub(self.noted_ms.load(Ordering::Relaxed)) < Self::EVERY_MS {
            return;
        }
        self.noted_ms.store(now_ms, Ordering::Relaxed);
        let mut text = error();
        text.truncate(text.floor_char_boundary(Self::BYTES_MAX));
        let mut errors = self.errors.lock().expect("nothing panics while it holds the errors");
        if errors.len() == Self::KEPT {
            errors.pop_front();
        }
        errors.push_back((now, text));
    }

    pub fn recent(&self) -> Vec<(SystemTime, String)> {
        let errors = self.errors.lock().expect("nothing panics while it holds the errors");
        errors.iter().cloned().collect()
    }
}

/// Metrics of one enrichment on one shard.
#[derive(Debug, Default)]
pub struct EnrichmentMetrics {
    /// Auctions by outcome.
    pub outcomes: [Counter; 1 + EnrichmentOutcome::ALL.len()],
    /// Age of the data that was added.
    pub age: Histogram,
}

/// Metrics of one seat on one shard.
#[derive(Debug, Default)]
pub struct SeatMetrics {
    /// Impressions won.
    pub wins: Counter,
    /// Price of those impressions, in nanos of the exchange's currency.
    pub revenue_nanos: Counter,
}

impl ExchangeMetrics {
    pub(crate) fn count_no_bid(&self, reason: NoBidReason) {
        self.no_bids[reason as usize].increment();
    }
}
