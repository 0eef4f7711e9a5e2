//! What the demo shows: counts of all shards, their rates, and a page or a line of text.

use std::fmt;
use std::time::Duration;

use exchange_core::Fate;
use exchange_serve::{Exchange, ExchangeConfig, ExchangeMetrics, Generation};
use openrtb::codes::NoBidReason;
use runtime::metrics::Counter;
use testbed::hammer::Quantiles;

/// Rows of each table.
const ROWS: usize = 8;
/// Widest bar, in characters.
const BAR: u64 = 24;

/// Counts of all shards at one moment.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    filled: u64,
    no_bid: u64,
    invalid: u64,
    impressions: u64,
    sold: u64,
    fates: Vec<u64>,
    /// Revenue and wins by DSP and seat.
    seats: Vec<(usize, usize, u64, u64)>,
    overshoots: u64,
}

/// Counts per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    auctions_per_s: f64,
}

impl Totals {
    pub(super) fn of(exchange: &Exchange) -> Self {
        let shards = exchange.metrics();
        let sum = |of: &dyn Fn(&ExchangeMetrics) -> &Counter| -> u64 {
            shards.iter().map(|shard| of(shard).value()).sum()
        };
        let invalid = NoBidReason::ALL.iter().position(|r| *r == NoBidReason::InvalidRequest);
        let invalid = invalid.expect("the reason is listed");
        let no_bids = (0..NoBidReason::ALL.len())
            .filter(|reason| *reason != invalid)
            .map(|reason| sum(&|shard| &shard.no_bids[reason]));
        let overshoots = shards.iter().map(|shard| shard.overshoot.snapshot().count()).sum();
        Self {
            filled: sum(&|shard| &shard.filled),
            no_bid: no_bids.sum(),
            invalid: sum(&|shard| &shard.no_bids[invalid]),
            impressions: sum(&|shard| &shard.impressions),
            sold: sum(&|shard| &shard.sold),
            fates: Fate::ALL
                .iter()
                .map(|fate| sum(&|shard| &shard.fates[*fate as usize]))
                .collect(),
            seats: seats(&exchange.generation()),
            overshoots,
        }
    }

    /// What was added since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            filled: self.filled - earlier.filled,
            no_bid: self.no_bid - earlier.no_bid,
            invalid: self.invalid - earlier.invalid,
            ..self.clone()
        }
    }

    pub(super) fn rate_over(&self, seconds: f64) -> Rate {
        Rate { auctions_per_s: as_float(self.auctions()) / seconds.max(0.001) }
    }

    fn auctions(&self) -> u64 {
        self.filled + self.no_bid + self.invalid
    }

    fn revenue(&self) -> u64 {
        self.seats.iter().map(|(_, _, revenue, _)| revenue).sum()
    }
}

fn seats(generation: &Generation) -> Vec<(usize, usize, u64, u64)> {
    let mut seats = Vec::new();
    for (dsp, counted) in generation.dsps.iter().enumerate() {
        for (seat, shards) in counted.seats.iter().enumerate() {
            let revenue = shards.iter().map(|seat| seat.revenue_nanos.value()).sum();
            let wins = shards.iter().map(|seat| seat.wins.value()).sum();
            seats.push((dsp, seat, revenue, wins));
        }
    }
    seats.sort_by_key(|(_, _, revenue, _): &(usize, usize, u64, u64)| std::cmp::Reverse(*revenue));
    seats
}

/// The counts as text.
pub(super) struct Summary<'s> {
    config: &'s ExchangeConfig,
    totals: &'s Totals,
    rate: &'s Rate,
    /// As callers see it.
    latency: Option<Quantiles>,
}

impl<'s> Summary<'s> {
    pub(super) fn new(
        config: &'s ExchangeConfig,
        totals: &'s Totals,
        rate: &'s Rate,
        latency: Option<Quantiles>,
    ) -> Self {
        Self { config, totals, rate, latency }
    }

    /// One line, for logs.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        let [p50, p99, p999] = self.quantiles();
        format!(
            "{:>4} s  {:>6.0} auctions/s  fill {:>5.1} %  p50 {p50} p99 {p99} p99.9 {p999}  revenue {} {}",
            elapsed.as_secs(),
            self.rate.auctions_per_s,
            self.fill_percent(),
            money(self.totals.revenue()),
            self.config.market.currency,
        )
    }

    fn fill_percent(&self) -> f64 {
        100.0 * as_float(self.totals.sold) / as_float(self.totals.impressions.max(1))
    }

    /// p50, p99 and p99.9.
    fn quantiles(&self) -> [String; 3] {
        let latency =
            self.latency.map_or([0; 3], |latency| [latency.p50, latency.p99, latency.p999]);
        latency.map(|us| format!("{}.{} ms", us / 1000, us % 1000 / 100))
    }

    fn write_seats(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let currency = self.config.market.currency;
        writeln!(f, "\nrevenue by seat ({currency})")?;
        let most = self.totals.seats.first().map_or(0, |(_, _, revenue, _)| *revenue);
        for (dsp, seat, revenue, wins) in self.totals.seats.iter().take(ROWS) {
            let name = &self.config.market.dsps[*dsp].seats[*seat];
            let money = money(*revenue);
            writeln!(f, "  {name:<14} {money:>10}  {wins:>7} wins  {}", bar(*revenue, most))?;
        }
        Ok(())
    }

    fn write_losses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nwhy bids lost (loss code)")?;
        let lost = Fate::ALL.iter().zip(&self.totals.fates);
        let mut lost: Vec<_> =
            lost.filter(|(fate, count)| **fate != Fate::Won && **count > 0).collect();
        lost.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let most = lost.first().map_or(0, |(_, count)| **count);
        for (fate, count) in lost.into_iter().take(ROWS) {
            let label = fate.label().replace('_', " ");
            writeln!(f, "  {label:<22} {:>4} {count:>10}  {}", fate.code(), bar(*count, most))?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = self.totals;
        let [p50, p99, p999] = self.quantiles();
        let currency = self.config.market.currency;
        writeln!(
            f,
            "auctions  {:>9}   {:>7.0}/s    filled {}   no bid {}   invalid {}",
            totals.auctions(),
            self.rate.auctions_per_s,
            totals.filled,
            totals.no_bid,
            totals.invalid
        )?;
        writeln!(
            f,
            "fill rate {:>8.1} %   {} of {} impressions sold",
            self.fill_percent(),
            totals.sold,
            totals.impressions
        )?;
        writeln!(
            f,
            "latency   p50 {p50}   p99 {p99}   p99.9 {p999}   past the deadline: {}",
            totals.overshoots
        )?;
        let revenue = money(totals.revenue());
        writeln!(f, "revenue   {revenue} {currency} gross")?;
        self.write_seats(f)?;
        self.write_losses(f)
    }
}

/// Thousand-millionths of a currency unit, to the thousandth.
fn money(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000_000_000, nanos / 1_000_000 % 1_000)
}

fn bar(value: u64, most: u64) -> String {
    let width = value.saturating_mul(BAR).checked_div(most).unwrap_or(0);
    "█".repeat(usize::try_from(width.min(BAR)).unwrap_or(0))
}

/// For rates on a screen only.
#[expect(clippy::cast_precision_loss, reason = "a rate on a screen needs no more than 52 bits")]
fn as_float(count: u64) -> f64 {
    count as f64
}
