//! The metrics and their page.

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
    let (head, histogram) = text.split_once("# HELP vickrey_wait_seconds").expect("a histogram");
    assert_eq!(
        head,
        "# HELP vickrey_bids Bids received.\n# TYPE vickrey_bids counter\nvickrey_bids_total 111\n\
         # HELP vickrey_open Open connections.\n# TYPE vickrey_open gauge\n\
         vickrey_open{dsp=\"a\\\"b\\\\c\\nd\",kind=\"x\"} 6\n"
    );
    for line in [
        "vickrey_wait_seconds_sum 0.000111",
        "vickrey_wait_seconds_count 3",
        "vickrey_wait_seconds_bucket{le=\"0.000001\"} 0",
        "vickrey_wait_seconds_bucket{le=\"0.000002\"} 1",
        "vickrey_wait_seconds_bucket{le=\"0.000012\"} 2",
        "vickrey_wait_seconds_bucket{le=\"0.000096\"} 2",
        "vickrey_wait_seconds_bucket{le=\"0.000128\"} 3",
        "vickrey_wait_seconds_bucket{le=\"16.777216\"} 3",
        "vickrey_wait_seconds_bucket{le=\"+Inf\"} 3",
    ] {
        assert!(histogram.lines().any(|found| found == line), "{line} in\n{histogram}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(histogram.matches("vickrey_wait_seconds_bucket").count(), 47);
}

#[test]
fn the_older_format_names_counters_whole_and_has_no_end() {
    let mut exposition = Exposition::default();
    exposition.add(|page| {
        page.counters("spend", "A \"quoted\"\nback\\slash.")?.nanos(&[], 12_000_000_034)?;
        let span = Duration::from_micros(1_500_250);
        page.counters("sync_seconds", "Time.")?.seconds(&[("lane", "a")], span)?;
        page.gauges("turn_seconds", "Time.")?.seconds(&[], Duration::ZERO)?;
        page.histograms("wait_seconds", "Time.").map(drop)
    });
    let rest = "# HELP vickrey_turn_seconds Time.\n# TYPE vickrey_turn_seconds gauge\n\
                vickrey_turn_seconds 0.000000000\n\
                # HELP vickrey_wait_seconds Time.\n# TYPE vickrey_wait_seconds histogram\n";
    let older = format!(
        "# HELP vickrey_spend_total A \"quoted\"\\nback\\\\slash.\n\
         # TYPE vickrey_spend_total counter\nvickrey_spend_total 12.000000034\n\
         # HELP vickrey_sync_seconds_total Time.\n# TYPE vickrey_sync_seconds_total counter\n\
         vickrey_sync_seconds_total{{lane=\"a\"}} 1.500250000\n{rest}"
    );
    assert_eq!(exposition.text_in(ExpositionFormat::PrometheusText), older);
    let newer = format!(
        "# HELP vickrey_spend A \\\"quoted\\\"\\nback\\\\slash.\n\
         # TYPE vickrey_spend counter\nvickrey_spend_total 12.000000034\n\
         # HELP vickrey_sync_seconds Time.\n# TYPE vickrey_sync_seconds counter\n\
         vickrey_sync_seconds_total{{lane=\"a\"}} 1.500250000\n{rest}# EOF\n"
    );
    assert_eq!(exposition.text_in(ExpositionFormat::OpenMetrics), newer);
}

#[test]
fn the_format_is_negotiated() {
    let check = |accept: &[&str], want: ExpositionFormat| {
        assert_eq!(ExpositionFormat::accepted(accept.iter().copied()), want, "{accept:?}");
    };
    let (open, plain) = (ExpositionFormat::OpenMetrics, ExpositionFormat::PrometheusText);
    check(&[], plain);
    check(&["*/*"], plain);
    check(&["text/html,application/xhtml+xml,*/*;q=0.8"], plain);
    check(&["application/openmetrics-text"], open);
    check(&["Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8"], open);
    check(&["application/openmetrics-text;version=2.0.0"], plain);
    check(&["application/openmetrics-text;version=2.0.0", "application/openmetrics-text"], open);
    // Requests of Prometheus 2 and 3, and of Prometheus configured for the older format.
    check(
        &["application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
           q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
        open,
    );
    check(
        &["application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;\
           version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"],
        open,
    );
    check(&["application/openmetrics-text;q=0.3, text/plain;version=0.0.4;q=0.6"], plain);
    check(&["application/openmetrics-text;q=0.3, text/*;q=0.6"], plain);
    check(&["application/openmetrics-text;q=0.5, text/plain;q=0.5"], open);
    for quality in ["0", "0.000", "-1", "2", "nan", "", "x"] {
        check(&[&format!("application/openmetrics-text;q={quality}")], plain);
    }
}

#[test]
fn a_process_tells_of_itself_by_names_without_prefix() {
    let mut exposition = Exposition::default();
    exposition.add_process();
    let value = |name: &str| {
        let page = exposition.text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse::<f64>().unwrap()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = now.as_secs_f64() - value("process_start_time_seconds");
    // The kernel rounds the boot time to seconds.
    assert!((-2.0..86_400.0).contains(&age), "{age}");
    let before = value("process_cpu_seconds_total");
    assert!(before > 0.0);
    while value("process_cpu_seconds_total") <= before {}
    let (resident, mapped) =
        (value("process_resident_memory_bytes"), value("process_virtual_memory_bytes"));
    assert!(1_000_000.0 < resident && resident < mapped, "{resident} of {mapped}");
    let kept: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let (open, most) = (value("process_open_fds"), value("process_max_fds"));
    assert!(53.0 <= open && open <= most, "{open} of {most}");
    drop(kept);
    let build = format!("vickrey_build_info{{version=\"{}\",", env!("CARGO_PKG_VERSION"));
    assert!(exposition.text().contains(&build), "{}", exposition.text());
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
