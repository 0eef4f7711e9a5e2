//! Tests of the metrics and their page.

use std::time::Duration;

use proptest::prelude::*;
use units::Ppm;

use super::histogram::end_of;
use super::*;

#[derive(Default)]
struct Set {
    bids: Counter,
    open: Gauge,
    wait: Histogram,
}

#[test]
fn page_sums_shards() {
    let shards = PerShard::<Set>::new(3);
    for (index, n) in [(0, 1), (1, 10), (2, 100)] {
        let set = shards.shard(index);
        set.bids.add(n);
        set.open.change(5);
        set.open.change(-3);
        set.wait.record(Duration::from_micros(n));
    }
    let mut exposition = Exposition::default();
    let all = shards.clone();
    exposition.add(move |page| {
        page.counters("bids", "Bids received.")?.sum(&[], all.iter().map(|set| &set.bids))?;
        let labels = [("dsp", "a\"b\\c\nd"), ("kind", "x")];
        page.gauges("open", "Open connections.")?.sum(&labels, all.iter().map(|set| &set.open))
    });
    exposition.add(move |page| {
        page.histograms("wait_seconds", "Waiting time.")?
            .sum(&[], shards.iter().map(|set| &set.wait))
    });
    let text = exposition.text();
    let (head, histogram) = text.split_once("# HELP wait_seconds").expect("a histogram");
    assert_eq!(
        head,
        "# HELP bids Bids received.\n# TYPE bids counter\nbids_total 111\n\
         # HELP open Open connections.\n# TYPE open gauge\n\
         open{dsp=\"a\\\"b\\\\c\\nd\",kind=\"x\"} 6\n"
    );
    for line in [
        "wait_seconds_sum 0.000111",
        "wait_seconds_count 3",
        "wait_seconds_bucket{le=\"0.000001\"} 0",
        "wait_seconds_bucket{le=\"0.000002\"} 1",
        "wait_seconds_bucket{le=\"0.000012\"} 2",
        "wait_seconds_bucket{le=\"0.000096\"} 2",
        "wait_seconds_bucket{le=\"0.000128\"} 3",
        "wait_seconds_bucket{le=\"16.777216\"} 3",
        "wait_seconds_bucket{le=\"+Inf\"} 3",
    ] {
        assert!(histogram.lines().any(|found| found == line), "{line} in\n{histogram}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(histogram.matches("wait_seconds_bucket").count(), 47);
}

#[test]
fn quantiles() {
    let histogram = Histogram::default();
    let quantile = |share| histogram.snapshot().quantile_us(Ppm::new(share).unwrap());
    assert_eq!(quantile(500_000), None);
    for micros in 1..=100 {
        histogram.record(Duration::from_micros(micros));
    }
    //               share     truth within an eighth
    for (share, low, high) in [(0, 1, 1), (10_000, 1, 1), (500_000, 50, 56), (1_000_000, 100, 112)]
    {
        let found = quantile(share).unwrap();
        assert!((low..=high).contains(&found), "{share}: {found}");
    }
    histogram.record(Duration::from_secs(17));
    histogram.record(Duration::MAX);
    assert_eq!(quantile(1_000_000), Some(u64::MAX));
    assert_eq!(histogram.snapshot().count(), 102);
}

#[test]
fn buckets_join_without_gaps() {
    let ends: Vec<_> = (0..BUCKETS).map(end_of).collect();
    assert_eq!(ends.last(), Some(&None));
    for pair in ends[..BUCKETS - 1].windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
    }
    assert_eq!(ends[BUCKETS - 2], Some(1 << 24));
}

proptest! {
    #[test]
    fn a_duration_lies_in_its_bucket(micros in 0_u64..1 << 24) {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(micros));
        let upper = histogram.snapshot().quantile_us(Ppm::ONE).unwrap();
        prop_assert!(micros <= upper && upper <= micros + micros / 8);
    }
}
