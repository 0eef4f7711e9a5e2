//! Readings of a record of several segments.

use audit::testing::{SampleAuction, SampleBid, SampleLog};

use super::*;

/// Thirty auctions, of which every third has two bids of `a1` and one of `b1`, and a part of a record.
fn record() -> (tempfile::TempDir, RecordedAuctions) {
    let folder = tempfile::tempdir().unwrap();
    let bids = [("a1", 0), ("b1", 1), ("a1", 0)];
    let bids = bids.map(|(seat, dsp)| SampleBid::new(dsp, seat, "1.5"));
    let samples = (1..=30).map(|number| match number % 3 {
        0 => SampleAuction::new(number, &bids),
        _ => SampleAuction::new(number, &[]),
    });
    let mut log = SampleLog::of(folder.path(), &samples.collect::<Vec<_>>());
    log.raw(b"no auction", 1, audit::testing::START_MS);
    let segments = std::fs::read_dir(folder.path().join("firehose")).unwrap();
    assert!(segments.count() > 3, "it has several segments");
    let (directory, limits) = (folder.path().into(), LIMITS);
    (folder, RecordedAuctions { directory, limits, reading: Mutex::default() })
}

fn query(filter: &str, most: usize, skip: usize) -> RecordQuery {
    RecordQuery { filter: Filter::parse(filter, 0).unwrap(), most, skip }
}

fn ids(record: &RecordedAuctions, query: &RecordQuery) -> Vec<u64> {
    let auctions = record.auctions(query, &mut record.begin().unwrap()).unwrap();
    assert!(auctions.damages <= 1);
    auctions.auctions.iter().map(|row| u64::from_str_radix(&row.id, 16).unwrap()).collect()
}

fn references(record: &RecordedAuctions, query: &RecordQuery) -> Vec<(u64, u64)> {
    let bids = record.bids(query, &mut record.begin().unwrap()).unwrap().bids;
    let of = |bid: &RecordedBid| {
        let (auction, at) = bid.reference.split_once('/').unwrap();
        assert_eq!(auction, bid.auction);
        (u64::from_str_radix(auction, 16).unwrap(), at.parse().unwrap())
    };
    bids.iter().map(of).collect()
}

#[test]
fn rows_are_the_newest_whatever_segments_they_are_in() {
    let (_folder, record) = record();
    let all: Vec<u64> = (1..=30).rev().collect();
    let won: Vec<_> = (1..=10).rev().flat_map(|third| [(third * 3, 0), (third * 3, 1)]).collect();
    for (most, skip) in (0..=35).flat_map(|most| [0, 1, 7, 29, 30, 40].map(|skip| (most, skip))) {
        let wanted: Vec<_> = all.iter().copied().skip(skip).take(most).collect();
        assert_eq!(ids(&record, &query("", most, skip)), wanted, "{most} after {skip}");
        let wanted: Vec<_> = won.iter().copied().skip(skip).take(most).collect();
        assert_eq!(
            references(&record, &query("seat=a1", most, skip)),
            wanted,
            "{most} after {skip}"
        );
    }
    assert_eq!(ids(&record, &query("seat=b1 id=00000000000000000000000000000006", 5, 0)), [6]);
    assert_eq!(
        record.auctions(&query("", 100, 0), &mut record.begin().unwrap()).unwrap().damages,
        1
    );
}

#[test]
fn a_reading_has_limits() {
    let (_folder, mut record) = record();
    let refused = |record: &RecordedAuctions, query: &RecordQuery| {
        let mut generations = record.begin().unwrap();
        let refused = record.auctions(query, &mut generations).err().expect("it is refused");
        format!("{refused:?}")
    };
    let reading = record.begin().unwrap();
    let busy = format!("{:?}", record.begin().expect_err("one at a time"));
    assert!(busy.contains("another query") && busy.contains("retry-after"), "{busy}");
    drop(reading);
    record.limits = ReadingLimits { time: Duration::ZERO, ..LIMITS };
    assert!(refused(&record, &query("", 1, 0)).contains("name a later `since`"));
    let one = SampleAuction::new(29, &[]).record().len();
    record.limits = ReadingLimits { bytes: 2 * one, ..LIMITS };
    assert_eq!(ids(&record, &query("outcome=no_bid", 2, 0)), [29, 28]);
    assert!(refused(&record, &query("outcome=no_bid", 3, 0)).contains("ask for fewer rows"));
}
