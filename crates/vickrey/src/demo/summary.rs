//! The exchange's results as text: counts of all shards, rates, times, and tables of seats and
//! losses.

use std::fmt;
use std::time::Duration;

use console::{measure_text_width, style};
use exchange_core::Fate;
use exchange_serve::{Exchange, ExchangeConfig, ExchangeMetrics, Generation};
use openrtb::codes::NoBidReason;
use runtime::metrics::{Counter, Histogram, HistogramSnapshot};
use serde_json::{Value, json};
use testbed::load::Quantiles;
use units::Ppm;

use super::format::decimal;

const ROWS: usize = 8;
/// Longest bars, in characters.
const SEAT_BAR: u64 = 8;
const LOSS_BAR: u64 = 4;
/// Width of the table of seats if both are shown.
const SEATS_WIDTH: usize = 40;
/// Least width of the screen for both tables.
const BOTH_WIDTH: usize = 78;

/// Counts of all shards at one moment.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    filled: u64,
    no_bid: u64,
    invalid: u64,
    /// Requests refused for overload: no auction was run.
    refused: u64,
    sold: u64,
    fates: Vec<u64>,
    /// Revenue and wins by DSP and seat.
    seats: Vec<(usize, usize, u64, u64)>,
    overshoots: u64,
    /// The exchange's own work on auctions: all phases but waiting for DSPs, in microseconds.
    own_us: u64,
    /// Time that auctions waited for DSPs.
    waited: HistogramSnapshot,
}

/// What callers have seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerLatency {
    /// From the intended time of requests to their answers.
    pub(super) latency: Option<Quantiles>,
    /// Answers after `tmax` by that clock.
    pub(super) late: u64,
}

impl Totals {
    pub(super) fn of(exchange: &Exchange) -> Self {
        let shards = exchange.metrics();
        let sum = |of: &dyn Fn(&ExchangeMetrics) -> &Counter| -> u64 {
            shards.iter().map(|shard| of(shard).value()).sum()
        };
        let of_reason = |wanted: NoBidReason| sum(&|shard| &shard.no_bids[wanted as usize]);
        let is_no_bid = |reason: &NoBidReason| {
            !matches!(reason, NoBidReason::InvalidRequest | NoBidReason::Overloaded)
        };
        let no_bids = NoBidReason::ALL.into_iter().filter(is_no_bid).map(of_reason);
        let merged = |of: &dyn Fn(&ExchangeMetrics) -> &Histogram| {
            let mut all = HistogramSnapshot::default();
            shards.iter().for_each(|shard| all.merge(&of(shard).snapshot()));
            all
        };
        let own = [
            merged(&|shard| &shard.parse),
            merged(&|shard| &shard.ask),
            merged(&|shard| &shard.clear),
            merged(&|shard| &shard.answer),
        ];
        Self {
            filled: sum(&|shard| &shard.filled),
            no_bid: no_bids.sum(),
            invalid: of_reason(NoBidReason::InvalidRequest),
            refused: of_reason(NoBidReason::Overloaded),
            sold: sum(&|shard| &shard.sold),
            fates: Fate::ALL
                .iter()
                .map(|fate| sum(&|shard| &shard.fates[*fate as usize]))
                .collect(),
            seats: seats(&exchange.generation()),
            overshoots: merged(&|shard| &shard.overshoot).count(),
            own_us: own.iter().map(HistogramSnapshot::sum_us).sum(),
            waited: merged(&|shard| &shard.collect),
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            filled: self.filled - earlier.filled,
            no_bid: self.no_bid - earlier.no_bid,
            invalid: self.invalid - earlier.invalid,
            refused: self.refused - earlier.refused,
            ..self.clone()
        }
    }

    pub(super) fn auctions_per_s(&self, seconds: f64) -> f64 {
        as_float(self.auctions()) / seconds.max(0.001)
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

pub(super) struct DemoSummary<'s> {
    pub(super) config: &'s ExchangeConfig,
    pub(super) totals: &'s Totals,
    pub(super) auctions_per_s: f64,
    pub(super) callers: CallerLatency,
}

impl DemoSummary<'_> {
    /// For `--json`: times in microseconds, revenue in nanos.
    pub(super) fn as_json(&self) -> Value {
        let Totals { filled, no_bid, invalid, refused, sold, overshoots, .. } = self.totals;
        let seat = |(dsp, seat, revenue, wins): &(usize, usize, u64, u64)| {
            let of = &self.config.market.dsps[*dsp];
            json!({
                "dsp": of.id.to_string(),
                "seat": of.seats[*seat].to_string(),
                "revenue_nanos": revenue,
                "wins": wins,
            })
        };
        let fates = Fate::ALL.iter().zip(&self.totals.fates);
        let fates = fates.map(|(fate, count)| (fate.label().to_owned(), Value::from(*count)));
        json!({
            "auctions": self.totals.auctions(),
            "auctions_per_s": self.auctions_per_s,
            "filled": filled,
            "no_bid": no_bid,
            "invalid": invalid,
            "refused": refused,
            "impressions_sold": sold,
            "late": overshoots,
            "own_us_mean": self.totals.own_us / self.totals.waited.count().max(1),
            "revenue_nanos": self.totals.revenue(),
            "currency": self.config.market.currency.to_string(),
            "seats": self.totals.seats.iter().map(seat).collect::<Vec<_>>(),
            "fates": fates.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// One line, for logs.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        let [p50, p99, p999] = self.quantiles();
        format!(
            "{:>4} s  {:>6.0} auctions/s  fill {:>5.1} %  own {}  p50 {p50} p99 {p99} p99.9 {p999}  revenue {} {}",
            elapsed.as_secs(),
            self.auctions_per_s,
            self.fill_percent(),
            self.own_time(),
            decimal(self.totals.revenue(), 9),
            self.config.market.currency,
        )
    }

    /// Share of the auctions that have ended.
    fn fill_percent(&self) -> f64 {
        let Totals { filled, no_bid, .. } = self.totals;
        100.0 * as_float(*filled) / as_float((filled + no_bid).max(1))
    }

    /// p50, p99 and p99.9, as callers see them.
    fn quantiles(&self) -> [String; 3] {
        let latency = self.callers.latency;
        latency.map_or([0; 3], |latency| [latency.p50, latency.p99, latency.p999]).map(millis)
    }

    /// The exchange's own work on an auction, on average.
    fn own_time(&self) -> String {
        millis(self.totals.own_us / self.totals.waited.count().max(1))
    }

    pub(super) fn head(&self) -> String {
        let Totals { filled, no_bid, invalid, refused, sold, overshoots, waited, .. } = self.totals;
        let [p50, p99, p999] = self.quantiles();
        let share = |ppm| waited.quantile_us(Ppm::new(ppm).expect("a share")).unwrap_or(0);
        let [dsp_p50, dsp_p99] = [share(500_000), share(990_000)].map(millis);
        let (auctions, rate) = (self.totals.auctions(), self.auctions_per_s);
        let (fill, own, late) = (self.fill_percent(), self.own_time(), self.callers.late);
        let (revenue, currency) = (decimal(self.totals.revenue(), 9), self.config.market.currency);
        let refused = match refused {
            0 => String::new(),
            refused => format!("; {refused} refused: overloaded"),
        };
        let rows = [
            (
                "auctions",
                format!(
                    "{auctions} ({rate:.0}/s): {filled} filled, {no_bid} no bid, {invalid} invalid{refused}"
                ),
            ),
            ("fill rate", format!("{fill:.1} % of auctions that ended; {sold} impressions sold")),
            ("revenue", format!("{revenue} {currency} gross")),
            ("exchange", format!("{own} of its own for an auction, on average")),
            ("DSPs", format!("p50 {dsp_p50}, p99 {dsp_p99}: what the exchange waited for them")),
            ("callers", format!("p50 {p50}, p99 {p99}, p99.9 {p999} after being due")),
            (
                "late",
                format!(
                    "{overshoots} answers past tmax by the exchange's clock, {late} by the callers'"
                ),
            ),
        ];
        rows.map(|(name, value)| format!("{} {value}\n", style(format!("{name:<9}")).bold()))
            .concat()
    }

    /// The tables of seats and losses with their headings, in at most `rows` rows: side by side if
    /// both fit, otherwise only the seats.
    pub(super) fn tables(&self, rows: usize, columns: usize) -> String {
        let rows = rows.saturating_sub(1).min(ROWS);
        if rows == 0 {
            return String::new();
        }
        let (seats, losses) = (self.seats(rows), self.losses(rows));
        let is_both = BOTH_WIDTH <= columns;
        let line = |row: usize| {
            let seat = seats.get(row).map_or("", String::as_str);
            let loss = losses.get(row).filter(|_| is_both).map_or("", String::as_str);
            let gap = SEATS_WIDTH.saturating_sub(measure_text_width(seat));
            format!("{seat}{:gap$}{loss}\n", "")
        };
        (0..=rows).map(line).collect()
    }

    /// A heading, and the seats that paid most.
    fn seats(&self, rows: usize) -> Vec<String> {
        let heading = format!("revenue by seat ({})", self.config.market.currency);
        let most = self.totals.seats.first().map_or(0, |(_, _, revenue, _)| *revenue);
        let seat = |(dsp, seat, revenue, wins): &(usize, usize, u64, u64)| {
            let name = &self.config.market.dsps[*dsp].seats[*seat];
            let (money, bar) = (decimal(*revenue, 9), style(bar(*revenue, most, SEAT_BAR)).green());
            format!("  {name:<11} {money:>9} {wins:>6} {bar}")
        };
        let seats = self.totals.seats.iter().take(rows).map(seat);
        [style(heading).bold().to_string()].into_iter().chain(seats).collect()
    }

    /// A heading, and the most frequent reasons why bids lost.
    fn losses(&self, rows: usize) -> Vec<String> {
        let lost = Fate::ALL.iter().zip(&self.totals.fates);
        let mut lost: Vec<_> =
            lost.filter(|(fate, count)| **fate != Fate::Won && **count > 0).collect();
        lost.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let most = lost.first().map_or(0, |(_, count)| **count);
        let loss = |(fate, count): (&Fate, &u64)| {
            let (label, bar) =
                (fate.label().replace('_', " "), style(bar(*count, most, LOSS_BAR)).yellow());
            format!("{label:<21} {:>4} {count:>7} {bar}", fate.code())
        };
        let losses = lost.into_iter().take(rows).map(loss);
        let heading = style("why bids lost (loss code)".to_owned()).bold().to_string();
        [heading].into_iter().chain(losses).collect()
    }
}

impl fmt::Display for DemoSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.head())?;
        for table in [self.seats(ROWS), self.losses(ROWS)] {
            write!(f, "\n{}\n", table.join("\n"))?;
        }
        Ok(())
    }
}

fn millis(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}

fn bar(value: u64, most: u64, widest: u64) -> String {
    let width = value.saturating_mul(widest).checked_div(most).unwrap_or(0);
    "█".repeat(usize::try_from(width.min(widest)).unwrap_or(0))
}

/// For rates on a screen only.
#[expect(clippy::cast_precision_loss, reason = "a rate on a screen needs no more than 52 bits")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_fill_and_late_answers_and_fits_a_screen() {
        let text = "[exchange]\n[[dsp]]\nid = \"d\"\nurl = \"http://127.0.0.1:9/\"\nseats = [\"northwind-1\"]\n";
        let config =
            runtime::config::parse("demo.toml", text, ExchangeConfig::read).expect("sound");
        let config = config.expect("an exchange");
        let totals = Totals {
            filled: 3,
            no_bid: 1,
            invalid: 2,
            refused: 96,
            sold: 5,
            fates: Fate::ALL.iter().map(|_| 1_000_000).collect(),
            seats: vec![(0, 0, 123_456_789_000, 654_321)],
            overshoots: 7,
            own_us: 0,
            waited: HistogramSnapshot::default(),
        };
        let q = Quantiles { p50: 100_000, p90: 0, p99: 1_234_567, p999: 1_234_567, max: 0 };
        let callers = CallerLatency { latency: Some(q), late: 9 };
        let summary = DemoSummary {
            config: &config,
            totals: &totals,
            auctions_per_s: totals.auctions_per_s(2.0),
            callers,
        };
        let head = summary.head();
        // Impressions of auctions in flight are not among those that could be sold.
        for part in [
            "6 (3/s): 3 filled, 1 no bid, 2 invalid; 96 refused: overloaded\n",
            "75.0 % of auctions that ended",
            "7 answers past tmax by the exchange's clock, 9 by",
        ] {
            assert!(head.contains(part), "no `{part}` in {head}");
        }
        for rows in 0..=12 {
            let tables = summary.tables(rows, 80);
            assert!(tables.lines().count() <= rows.min(ROWS + 1), "{rows}: {tables}");
            assert!(rows < 2 || tables.contains("northwind-1") && tables.contains("why bids lost"));
            for line in head.lines().chain(tables.lines()) {
                assert!(measure_text_width(line) < 80, "{line}");
            }
        }
        assert!(!summary.tables(8, 60).contains("why bids lost"));
    }
}
