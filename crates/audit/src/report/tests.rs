//! The sums of reports.

use std::ops::ControlFlow;

use super::*;
use crate::filter::Filter;
use crate::log::directory::RecordDirectory;
use crate::testing::{START_MS, SampleAuction, SampleBid, SampleLog, gap, samples};

const NOW_US: u64 = (START_MS + 7_200_000) * 1000;

fn of(samples: &[SampleAuction], by: &str, filter: &str) -> Result<AuctionReport, ReportError> {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), samples);
    log.firehose(events::RecordKind::Gap.code(), START_MS, &gap(42));
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let filter = Filter::parse(filter, NOW_US).unwrap();
    report(&directory, &filter, &by.parse().unwrap(), |_, _| ControlFlow::Continue(()))
}

/// Keys, auctions, bids, wins, spend and fee in nanos; the last line is the total.
#[track_caller]
fn check(by: &str, filter: &str, want: &[(&str, [u64; 5])]) -> AuctionReport {
    let report = of(&samples(), by, filter).unwrap();
    let lines = report.groups.iter().chain(&report.totals);
    let got: Vec<_> = lines
        .map(|group| {
            let ReportCounts { auctions, bids, wins, spend_nanos, fee_nanos, .. } =
                group.sums.counts;
            assert_eq!(group.currency, "USD");
            (group.key.join(" "), [auctions, bids, wins, spend_nanos, fee_nanos])
        })
        .collect();
    let got: Vec<_> = got.iter().map(|(key, counts)| (key.as_str(), *counts)).collect();
    assert_eq!(got, want, "{by}");
    report
}

/// Second prices: 1.51, 1.21 and 1.51 of `news`, and the floor of `films`, 0.5 and our tenth.
const ALL: [u64; 5] = [5, 8, 4, 1_510_000 + 1_210_000 + 1_510_000 + 555_556, 478_556];

#[test]
fn groups_add_up() {
    let report = check(
        "hour,publisher",
        "",
        &[
            ("2026-11-22T08 news", [4, 6, 3, 4_230_000, 423_000]),
            ("2026-11-22T09 films", [1, 2, 1, 555_556, 55_556]),
            ("", ALL),
        ],
    );
    let want = ReportExclusions { tests: 1, shed: 42, ..ReportExclusions::default() };
    assert_eq!(report.apart, want);
    let news = &report.groups[0].sums;
    assert_eq!(news.counts.fill_ppm(), Some(750_000));
    // 42.2 to 45.2 ms, within one percent.
    assert!((42_000..44_000).contains(&news.latency_us(0.5).unwrap()), "{news:?}");
    assert!((45_000..46_000).contains(&news.latency_us(0.99).unwrap()), "{news:?}");
    check("day", "", &[("2026-11-22", ALL), ("", ALL)]);
    check(
        "format",
        "",
        &[
            ("banner", [4, 6, 3, 4_230_000, 423_000]),
            ("video", [1, 2, 1, 555_556, 55_556]),
            ("", ALL),
        ],
    );
}

/// An auction counts once for each DSP that was called or bid, and once in the total.
#[test]
fn groups_of_bids_add_up() {
    let report = check(
        "dsp",
        "",
        &[
            ("alpha", [5, 4, 3, 3_575_556, 357_556]),
            ("beta", [5, 3, 1, 1_210_000, 121_000]),
            ("gamma", [5, 1, 0, 0, 0]),
            ("", ALL),
        ],
    );
    // The latency of its own responses: 40 ms.
    let gamma = report.groups[2].sums.latency_us(0.5).unwrap();
    assert!((39_000..41_000).contains(&gamma), "{gamma}");
    check(
        "seat",
        "",
        &[
            ("a1", [3, 3, 2, 3_020_000, 302_000]),
            ("a2", [1, 1, 1, 555_556, 55_556]),
            ("b1", [3, 3, 1, 1_210_000, 121_000]),
            ("g1", [1, 1, 0, 0, 0]),
            ("", ALL),
        ],
    );
    check(
        "campaign,deal",
        "publisher=news",
        &[
            (" ", [3, 4, 1, 1_510_000, 151_000]),
            ("summer ", [1, 1, 1, 1_210_000, 121_000]),
            ("summer spring", [1, 1, 1, 1_510_000, 151_000]),
            ("", [4, 6, 3, 4_230_000, 423_000]),
        ],
    );
}

/// Terms about bids select the bids that count.
#[test]
fn a_filter_of_bids_counts_those_bids() {
    check(
        "seat",
        "seat=b1",
        &[("b1", [3, 3, 1, 1_210_000, 121_000]), ("", [3, 3, 1, 1_210_000, 121_000])],
    );
    check(
        "dsp",
        "outcome=won campaign=summer",
        &[
            ("alpha", [1, 1, 1, 1_510_000, 151_000]),
            ("beta", [1, 1, 1, 1_210_000, 121_000]),
            ("", [2, 2, 2, 2_720_000, 272_000]),
        ],
    );
    check("seat", "seat=nobody", &[]);
}

#[test]
fn without_a_generation_there_is_no_currency() {
    let strange =
        SampleAuction { generation: 9, ..SampleAuction::new(1, &[SampleBid::new(0, "a1", "2")]) };
    let report = of(&[strange], "seat", "").unwrap();
    assert_eq!(report.apart.no_generation, 1);
    let group = &report.groups[0];
    assert_eq!((group.key.join(""), group.currency.as_str()), ("#0".to_owned(), ""));
    assert_eq!((group.sums.counts.wins, group.sums.counts.fee_nanos), (1, 0));
}

#[test]
fn groups_have_a_limit() {
    let names: Vec<&'static str> =
        (0..=GROUPS_MAX).map(|n| &*format!("publisher-{n}").leak()).collect();
    let samples = (1..).zip(&names).map(|(number, name)| SampleAuction {
        publisher: Some(name),
        ..SampleAuction::new(number, &[])
    });
    let samples: Vec<_> = samples.collect();
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::open(folder.path(), 16 << 20);
    log.many(&samples);
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let by = "publisher".parse().unwrap();
    let all = |filter: &str| {
        let filter = Filter::parse(filter, NOW_US).unwrap();
        report(&directory, &filter, &by, |_, _| ControlFlow::Continue(()))
    };
    assert!(matches!(all(""), Err(ReportError::Groups)));
    assert_eq!(all("publisher!=publisher-7").unwrap().groups.len(), GROUPS_MAX);
}

#[test]
fn columns_are_read_or_refused() {
    let columns: ReportColumns = " seat, hour".parse().unwrap();
    assert_eq!(columns.iter().collect::<Vec<_>>(), [ReportColumn::Seat, ReportColumn::Hour]);
    let error = |text: &str| text.parse::<ReportColumns>().unwrap_err().to_string();
    assert_eq!(error("hour,hour"), "`hour` is there twice");
    let known = "known are hour, day, publisher, format, dsp, seat, deal and campaign";
    assert_eq!(
        error("hours"),
        format!("there is no column `hours`: {known}. Did you mean `hour`?")
    );
    assert_eq!(error(""), format!("there is no column ``: {known}"));
    assert_eq!(error("buyer"), format!("there is no column `buyer`: {known}"));
}

/// Billed amounts are shown beside cleared ones, each beacon once. If its auction is not in the record,
/// the report says how much is missing.
#[test]
fn billed_amounts_stand_beside_cleared_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples());
    log.settle(START_MS + 9_000, 1, 0, 1_510_000);
    log.settle(START_MS + 9_000, 1, 0, 1_510_000);
    log.settle(START_MS + 9_000, 3, 0, 1_510_000);
    // The second bid did not win, so it was not returned.
    log.settle(START_MS + 9_000, 2, 7, 1_000);
    log.settle(START_MS + 9_000, 77, 0, 2_000_000);
    log.settle(START_MS + 9_000, 78, 0, 500_000);
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let reported = |by: &str, filter: &str| {
        let filter = Filter::parse(filter, NOW_US).unwrap();
        report(&directory, &filter, &by.parse().unwrap(), |_, _| ControlFlow::Continue(())).unwrap()
    };
    let billed = |group: &ReportGroup| (group.sums.counts.billed, group.sums.counts.billed_nanos);
    let by_seat = reported("seat", "");
    let of_seat = |seat: &str| by_seat.groups.iter().find(|group| group.key == [seat]).map(billed);
    assert_eq!((of_seat("a1"), of_seat("b1")), (Some((2, 3_020_000)), Some((0, 0))));
    assert_eq!(billed(&by_seat.totals[0]), (2, 3_020_000));
    let unrecorded =
        UnrecordedBilling { beacons: 2, amounts: [("USD".to_owned(), 2_500_000)].into() };
    assert_eq!(by_seat.unrecorded, unrecorded);
    assert_eq!(reported("day", "seat=b1").unrecorded, unrecorded, "whatever is asked of auctions");
    assert_eq!(reported("day", "time>=2026-11-22T09:00").unrecorded, UnrecordedBilling::default());
}
