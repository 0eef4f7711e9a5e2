//! Writes the metrics page, in both text formats that Prometheus reads.
//!
//! Only this module adds our prefix to names. Label values are fixed at startup: a value chosen by
//! a client could make memory grow. The page must not know any service's metrics.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use super::format::ExpositionFormat;
use super::histogram::{HistogramSnapshot, end_of};
use super::{Counter, Gauge, Histogram, process};

/// Prefix of all metrics except those of the process, which have common names.
const PREFIX: &str = "vickrey_";

type Set = dyn Fn(&mut MetricsPage<'_>) -> fmt::Result + Send + Sync;

/// All metrics of a process, in the order in which they were added.
#[derive(Default)]
pub struct Exposition {
    sets: Vec<Box<Set>>,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").field("sets", &self.sets.len()).finish()
    }
}

impl Exposition {
    /// Adds the metrics that `expose` writes at each scrape.
    pub fn add(
        &mut self,
        expose: impl Fn(&mut MetricsPage<'_>) -> fmt::Result + Send + Sync + 'static,
    ) {
        self.sets.push(Box::new(expose));
    }

    /// Adds `build_info` and the process metrics, named as in Prometheus' client libraries.
    pub fn add_process(&mut self) {
        self.add(|page| {
            let labels = [("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)];
            page.gauges("build_info", "Version of the running release; always 1.")?
                .value(&labels, 1)?;
            process::expose(&mut MetricsPage { text: page.text, format: page.format, prefix: "" })
        });
    }

    /// The current page as OpenMetrics.
    pub fn text(&self) -> String {
        self.text_in(ExpositionFormat::OpenMetrics)
    }

    /// The current page.
    pub fn text_in(&self, format: ExpositionFormat) -> String {
        let mut text = String::new();
        let mut page = MetricsPage { text: &mut text, format, prefix: PREFIX };
        for expose in &self.sets {
            expose(&mut page).expect("a String takes any text");
        }
        if format == ExpositionFormat::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

/// The page being written.
pub struct MetricsPage<'a> {
    text: &'a mut String,
    format: ExpositionFormat,
    prefix: &'static str,
}

type Labels<'l> = &'l [(&'static str, &'l str)];

impl MetricsPage<'_> {
    /// Begins a family of counters; `_total` is appended to the name.
    pub fn counters(
        &mut self,
        name: &'static str,
        help: &str,
    ) -> Result<CounterFamily<'_>, fmt::Error> {
        self.begin(name, help, "counter").map(CounterFamily)
    }

    /// Begins a family of gauges.
    pub fn gauges(&mut self, name: &'static str, help: &str) -> Result<Gauges<'_>, fmt::Error> {
        self.begin(name, help, "gauge").map(Gauges)
    }

    /// Begins a family of histograms, whose name by convention ends in `_seconds`.
    pub fn histograms(
        &mut self,
        name: &'static str,
        help: &str,
    ) -> Result<Histograms<'_>, fmt::Error> {
        self.begin(name, help, "histogram").map(Histograms)
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) -> Result<Family<'_>, fmt::Error> {
        let total = if kind == "counter" { "_total" } else { "" };
        let name = format!("{}{name}", self.prefix);
        let described = self.format.family(&name, total);
        let help = self.format.escaped_help(help);
        writeln!(self.text, "# HELP {described} {help}\n# TYPE {described} {kind}")?;
        Ok(Family { text: self.text, name: name + total })
    }
}

struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Family<'_> {
    fn write(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) -> fmt::Result {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (name, value) in labels {
            write!(self.text, "{separator}{name}=\"")?;
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    plain => self.text.push(plain),
                }
            }
            self.text.push('"');
            separator = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        writeln!(self.text, "{end} {value}")
    }
}

/// Counters of one name.
pub struct CounterFamily<'a>(Family<'a>);

impl CounterFamily<'_> {
    /// Writes the sum of the shards' counters as one series.
    pub fn sum<'c>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'c Counter>,
    ) -> fmt::Result {
        self.value(labels, total(shards))
    }

    /// Writes the sum of counters of billionths as one series in whole units, exactly.
    pub fn sum_of_nanos<'c>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'c Counter>,
    ) -> fmt::Result {
        self.nanos(labels, total(shards))
    }

    /// Writes a count as one series.
    pub fn value(&mut self, labels: Labels<'_>, count: u64) -> fmt::Result {
        self.0.write("", labels, count)
    }

    /// Writes a count of billionths as one series in whole units, exactly.
    pub fn nanos(&mut self, labels: Labels<'_>, nanos: u64) -> fmt::Result {
        self.0.write("", labels, exactly(Duration::from_nanos(nanos)))
    }

    /// Writes a duration as one series.
    pub fn seconds(&mut self, labels: Labels<'_>, span: Duration) -> fmt::Result {
        self.0.write("", labels, exactly(span))
    }
}

fn total<'c>(shards: impl Iterator<Item = &'c Counter>) -> u64 {
    shards.fold(0, |sum, counter| sum.wrapping_add(counter.value()))
}

/// Gauges of one name.
pub struct Gauges<'a>(Family<'a>);

impl Gauges<'_> {
    /// Writes the sum of the shards' gauges as one series.
    pub fn sum<'g>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'g Gauge>,
    ) -> fmt::Result {
        self.value(labels, shards.fold(0, |sum, gauge| sum.wrapping_add(gauge.value())))
    }

    /// Writes a level as one series.
    pub fn value(&mut self, labels: Labels<'_>, level: i64) -> fmt::Result {
        self.0.write("", labels, level)
    }

    /// Writes a duration, or a time since 1970, as one series.
    pub fn seconds(&mut self, labels: Labels<'_>, span: Duration) -> fmt::Result {
        self.0.write("", labels, exactly(span))
    }
}

/// Histograms of one name.
pub struct Histograms<'a>(Family<'a>);

impl Histograms<'_> {
    /// Writes the shards' histograms, merged, as one series in seconds. The page shows two buckets
    /// per power of two, because each bucket costs the scraper a series.
    pub fn sum<'h>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'h Histogram>,
    ) -> fmt::Result {
        let mut merged = HistogramSnapshot::default();
        shards.for_each(|histogram| merged.merge(&histogram.snapshot()));
        for (end, count) in page_buckets(&merged) {
            let end = end.map_or_else(|| "+Inf".to_owned(), |end| seconds(end).to_string());
            let labels = [labels, &[("le", end.as_str())]].concat();
            self.0.write("_bucket", &labels, count)?;
        }
        self.0.write("_sum", labels, seconds(merged.sum_us()))?;
        self.0.write("_count", labels, merged.count())
    }
}

/// The bucket ends of the page in microseconds (1, 2, 4, 8, 12, 16, 24, 32 and so on) with their
/// cumulative counts. The end of the last bucket is None: it has no limit.
fn page_buckets(merged: &HistogramSnapshot) -> Vec<(Option<u64>, u64)> {
    let (mut shown, mut count) = (Vec::new(), 0_u64);
    for (bucket, n) in merged.buckets().iter().enumerate() {
        count = count.wrapping_add(*n);
        let end = end_of(bucket);
        if matches!(end, None | Some(1 | 2)) || (bucket + 1) % 4 == 0 {
            shown.push((end, count));
        }
    }
    shown
}

/// A whole number and billionths, without floating point.
fn exactly(span: Duration) -> String {
    format!("{}.{:09}", span.as_secs(), span.subsec_nanos())
}

#[expect(clippy::cast_precision_loss, reason = "the page's format is floating point")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
