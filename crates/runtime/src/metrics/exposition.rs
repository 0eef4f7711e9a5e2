//! Writes metrics as the text that Prometheus scrapes (OpenMetrics 1.0), by prometheus-client's
//! encoder.
//!
//! Label values are fixed when the process starts: nothing a client sends may become one, or
//! memory would grow with its imagination. It must not know any service's metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::histogram::{Snapshot, end_of};
use super::{Counter, Gauge, Histogram};

/// Media type of [`Exposition::text`].
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All that a process exposes, in the order in which it was added.
#[derive(Debug, Default)]
pub struct Exposition {
    registry: Registry,
}

impl Exposition {
    /// Adds the metrics that `expose` writes whenever the page is asked for.
    pub fn add(&mut self, expose: impl Fn(&mut Page<'_>) -> fmt::Result + Send + Sync + 'static) {
        self.registry.register_collector(Box::new(Set(expose)));
    }

    /// The page as it is now.
    pub fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a String takes any text");
        text
    }
}

/// One crate's metrics, as prometheus-client takes them.
struct Set<F>(F);

impl<F> fmt::Debug for Set<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Set")
    }
}

impl<F> Collector for Set<F>
where
    F: Fn(&mut Page<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Page { encoder })
    }
}

/// The page being written.
pub struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

/// Label names and values of one series.
type Labels<'l> = &'l [(&'static str, &'l str)];

impl Page<'_> {
    /// Begins counters of one name, to which the encoder appends `_total`.
    pub fn counters(&mut self, name: &'static str, help: &str) -> Result<Counters<'_>, fmt::Error> {
        self.begin(name, help, MetricType::Counter).map(Counters)
    }

    /// Begins gauges of one name.
    pub fn gauges(&mut self, name: &'static str, help: &str) -> Result<Gauges<'_>, fmt::Error> {
        self.begin(name, help, MetricType::Gauge).map(Gauges)
    }

    /// Begins histograms of one name, which by convention ends in `_seconds`.
    pub fn histograms(
        &mut self,
        name: &'static str,
        help: &str,
    ) -> Result<Histograms<'_>, fmt::Error> {
        self.begin(name, help, MetricType::Histogram).map(Histograms)
    }

    fn begin(
        &mut self,
        name: &'static str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, None, kind)
    }
}

/// Writes one series of a family: unlabelled where there are no labels.
fn series(
    family: &mut MetricEncoder<'_>,
    labels: Labels<'_>,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { write(family) } else { write(&mut family.encode_family(&labels)?) }
}

/// Counters of one name.
pub struct Counters<'a>(MetricEncoder<'a>);

impl Counters<'_> {
    /// Writes the sum of the shards' counters as one series.
    pub fn sum<'c>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'c Counter>,
    ) -> fmt::Result {
        self.value(labels, shards.fold(0, |sum, counter| sum.wrapping_add(counter.value())))
    }

    /// Writes a count that is kept elsewhere as one series.
    pub fn value(&mut self, labels: Labels<'_>, count: u64) -> fmt::Result {
        series(&mut self.0, labels, |encoder| {
            encoder.encode_counter::<NoLabelSet, _, u64>(&count, None)
        })
    }
}

/// Gauges of one name.
pub struct Gauges<'a>(MetricEncoder<'a>);

impl Gauges<'_> {
    /// Writes the sum of the shards' gauges as one series.
    pub fn sum<'g>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'g Gauge>,
    ) -> fmt::Result {
        self.value(labels, shards.fold(0, |sum, gauge| sum.wrapping_add(gauge.value())))
    }

    /// Writes a level that is kept elsewhere as one series.
    pub fn value(&mut self, labels: Labels<'_>, level: i64) -> fmt::Result {
        series(&mut self.0, labels, |encoder| encoder.encode_gauge(&level))
    }
}

/// Histograms of one name.
pub struct Histograms<'a>(MetricEncoder<'a>);

impl Histograms<'_> {
    /// Writes the shards' histograms, merged, as one series in seconds. The page shows two buckets
    /// to each power of two, for every one costs the scraper a series.
    pub fn sum<'h>(
        &mut self,
        labels: Labels<'_>,
        shards: impl Iterator<Item = &'h Histogram>,
    ) -> fmt::Result {
        let mut merged = Snapshot::default();
        shards.for_each(|histogram| merged.merge(&histogram.snapshot()));
        let (sum, count) = (seconds(merged.sum_us()), merged.count());
        let buckets = page_buckets(&merged);
        series(&mut self.0, labels, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }
}

/// The counts between the ends that the page shows: 1, 2, 4, 8, 12, 16, 24, 32 µs and so on.
fn page_buckets(merged: &Snapshot) -> Vec<(f64, u64)> {
    let (mut shown, mut pending) = (Vec::new(), 0_u64);
    for (bucket, n) in merged.buckets().iter().enumerate() {
        pending = pending.wrapping_add(*n);
        match end_of(bucket) {
            None => shown.push((f64::INFINITY, pending)),
            Some(end) if matches!(end, 1 | 2) || (bucket + 1) % 4 == 0 => {
                shown.push((seconds(end), std::mem::take(&mut pending)));
            }
            Some(_) => (),
        }
    }
    shown
}

/// Microseconds as the page has them.
#[expect(clippy::cast_precision_loss, reason = "the page's format is floating point")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
