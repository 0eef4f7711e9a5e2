//! Filters: the auctions they match, and the messages of invalid ones.

use exchange_core::record::AuctionRecord;
use proptest::prelude::*;

use super::*;
use crate::testing::{START_MS, SampleAuction, SampleBid, generation, samples};

const NOW_US: u64 = (START_MS + 3_600_000) * 1000;

/// Numbers of the sample auctions that must match.
#[track_caller]
fn check(filter: &str, want: &[u64]) {
    let parsed = Filter::parse(filter, NOW_US).unwrap();
    let facts = GenerationRecord::decode(&generation(1, START_MS)).unwrap();
    let mut got = Vec::new();
    for sample in samples() {
        let bytes = sample.record();
        let record = AuctionRecord::decode(&bytes).unwrap();
        if parsed.matches(&record, Some(&facts)) {
            got.push(sample.number);
            assert!(parsed.window().holds(sample.time_ms()), "{filter}");
        }
    }
    assert_eq!(got, want, "{filter}");
}

#[test]
fn each_field_is_looked_at() {
    check("", &[1, 2, 3, 4, 5, 6]);
    check("publisher=news", &[1, 2, 3, 4, 5]);
    check("publisher!=news", &[6]);
    check("publisher=news,films", &[1, 2, 3, 4, 5, 6]);
    check("publisher=\"\"", &[]);
    check("format=video", &[6]);
    check("format!=video", &[1, 2, 3, 4, 5]);
    check("format=banner,video", &[1, 2, 3, 4, 5, 6]);
    check("outcome=no_bid", &[4]);
    check("outcome=filled", &[1, 2, 3, 5, 6]);
    check("outcome!=filled", &[4]);
    check("outcome=lost_to_higher_bid", &[1, 2]);
    check("outcome=lost_to_deal", &[3]);
    check("outcome=below_floor", &[6]);
    check("dsp=beta", &[1, 2, 3]);
    check("dsp=gamma", &[6]);
    check("seat=a2,g1", &[6]);
    check("deal=spring", &[3]);
    check("campaign=summer", &[2, 3]);
    check("id=00000000000000000000000000000003", &[3]);
    check("id=caller-4,caller-5", &[4, 5]);
    check("id!=caller-4", &[1, 2, 3, 5, 6]);
}

/// A sample is a share, each larger one contains the smaller, and it is the same everywhere.
#[test]
fn a_sample_is_a_share_of_all_auctions() {
    check("sample=0", &[]);
    check("sample=1000000", &[1, 2, 3, 4, 5, 6]);
    check("sample!=1000000", &[]);
    check("sample=500000", &[1, 3, 4, 5]);
    let bytes = samples()[0].record();
    let mut record = AuctionRecord::decode(&bytes).unwrap();
    let ids: Vec<_> = (0..10_000_u128).map(|number| format!("{:032x}", number * 7_919)).collect();
    let mut previous = 0;
    for ppm in [10_000, 100_000, 500_000, 990_000] {
        let filter = Filter::parse(&format!("sample={ppm}"), NOW_US).unwrap();
        let mut count = 0;
        for id in &ids {
            record.id = id;
            count += u32::from(filter.matches(&record, None));
        }
        assert!(count.abs_diff(ppm / 100) < 200 && count > previous, "{count} of {ppm} ppm");
        previous = count;
    }
}

#[test]
fn terms_of_bids_hold_for_one_bid() {
    check("seat=b1 outcome=won", &[2]);
    check("seat=a1 campaign=summer", &[3]);
    check("dsp=beta campaign=summer", &[2]);
    check("seat=b1 seat=a1", &[]);
    check("campaign!=summer outcome=won", &[1, 5, 6]);
    check("deal=\"\" outcome=won", &[1, 2, 5, 6]);
    check("deal!=\"\"", &[3]);
    check("seat!=a1", &[1, 2, 3, 6]);
    check("publisher=news seat=a1 outcome=won", &[1, 3, 5]);
}

#[test]
fn times_are_the_auctions_own() {
    check("time=2026-11-22", &[1, 2, 3, 4, 5, 6]);
    check("time!=2026-11-22", &[]);
    check("time=2026-11-22T08:00:03", &[3]);
    check("time=2026-11-22T08:00:03,2026-11-22T08:00:04Z", &[3, 4]);
    check("time=2026-11-22T10:00:03+02:00", &[3]);
    check("time>2026-11-22T08:00:03", &[4, 5, 6]);
    check("time>=2026-11-22T08:00:03", &[3, 4, 5, 6]);
    check("time<2026-11-22T08:00:03", &[1, 2]);
    check("time<=2026-11-22T08:00:03", &[1, 2, 3]);
    check("time >= 2026-11-22T08:00:02 time < \"2026-11-22 08:00:05\"", &[2, 3, 4]);
    check("time>=-15m", &[6]);
    check("time<-3597s", &[1, 2]);
    check("time!=2026-11-22T08:00:03", &[1, 2, 4, 5, 6]);
}

#[test]
fn the_window_is_a_minute_wider() {
    let window = |text: &str| Filter::parse(text, NOW_US).unwrap().window();
    assert_eq!(window("publisher=a"), TimeWindow::ALL);
    assert_eq!(window("time!=2026-11-22"), TimeWindow::ALL);
    let of_day = window("time>=2026-11-22T08:00 time<2026-11-22T09:00 time!=2026-11-23");
    let want = TimeWindow { since_ms: START_MS - 60_000, until_ms: START_MS + 3_600_000 + 60_000 };
    assert_eq!(of_day, want);
    assert!(of_day.holds(want.since_ms) && of_day.holds(want.until_ms));
    assert!(!of_day.holds(want.since_ms - 1) && !of_day.holds(want.until_ms + 1));
}

#[test]
fn values_may_be_quoted() {
    let odd = SampleBid { campaign: Some("a, b='c'"), ..SampleBid::new(0, "a1", "1") };
    let bytes = SampleAuction::new(1, &[odd]).record();
    let record = AuctionRecord::decode(&bytes).unwrap();
    for filter in
        [r#"campaign="a, b='c'""#, r"campaign='a, b=\'c\''", r#"campaign = x , "a, b='c'""#]
    {
        assert!(Filter::parse(filter, 0).unwrap().matches(&record, None), "{filter}");
    }
    assert!(!Filter::parse("campaign='a, b'", 0).unwrap().matches(&record, None));
}

/// If the generation is unknown, names are positions.
#[test]
fn without_a_generation_names_are_positions() {
    let bytes = SampleAuction::new(1, &[SampleBid::new(0, "a2", "1")]).record();
    let record = AuctionRecord::decode(&bytes).unwrap();
    let other = GenerationRecord::decode(&generation(2, START_MS)).unwrap();
    for facts in [None, Some(&other)] {
        let matches = |text: &str| Filter::parse(text, 0).unwrap().matches(&record, facts);
        assert!(matches("dsp='#0' seat='#1'"));
        assert!(!matches("dsp=alpha") && !matches("seat=a2"));
    }
}

#[track_caller]
fn wrong(filter: &str, want: &str) {
    let error = Filter::parse(filter, NOW_US).unwrap_err();
    assert_eq!(error.to_string(), want, "{filter}");
}

#[test]
fn what_is_wrong_is_shown_with_a_remedy() {
    let fields =
        "fields are time, publisher, seat, dsp, deal, campaign, format, outcome, sample and id";
    wrong(
        "seat=a sate=b",
        &format!(
            "there is no field `sate`\n  seat=a sate=b\n         ^^^^\ndid you mean `seat`? {fields}"
        ),
    );
    wrong("buyer=a", &format!("there is no field `buyer`\n  buyer=a\n  ^^^^^\n{fields}"));
    wrong("=a", &format!("a term begins with a field\n  =a\n  ^\n{fields}"));
    wrong(
        "format=vidio",
        "there is no format `vidio`\n  format=vidio\n         ^^^^^\ndid you mean `video`? formats are banner, video, audio and native",
    );
    wrong("seat", "nothing is asked of `seat`\n  seat\n      ^\nwrite `=` or `!=`");
    wrong(
        "time 2026",
        "nothing is asked of `time`\n  time 2026\n       ^\nwrite `=`, `!=`, `<`, `<=`, `>` or `>=`, in quotes, so that the shell leaves it alone",
    );
    let sample =
        "a sample is a share of all auctions in parts per million, as 10000 for one in a hundred";
    wrong("sample=half", &format!("`half` is no share\n  sample=half\n         ^^^^\n{sample}"));
    wrong(
        "sample=1000001",
        &format!("`1000001` is no share\n  sample=1000001\n         ^^^^^^^\n{sample}"),
    );
    wrong(
        "sample=1,2",
        &format!("there is more than one share\n  sample=1,2\n           ^\n{sample}"),
    );
    wrong("seat>a", "`seat` has no order\n  seat>a\n      ^\nwrite `=` or `!=`");
    wrong(
        "seat=a,",
        "a value is missing\n  seat=a,\n         ^\nfor example seat=a,b; where it has none, seat=\"\"",
    );
    wrong(
        "dsp=\"a b",
        "the quote does not end\n  dsp=\"a b\n      ^^^^\nend it with \"; within it, \\ goes before \" and \\",
    );
    wrong(
        "time>=-15m,-5m",
        "there is more than one time\n  time>=-15m,-5m\n             ^^^\none value stands behind `<`, `<=`, `>` or `>=`",
    );
    wrong(
        "time=-15m",
        "nothing happens exactly so long ago\n  time=-15m\n       ^^^^\nwrite `>=` or `<`",
    );
    wrong(
        "outcome=won,no_bid",
        "an auction's ending and a bid's fate are two things\n  outcome=won,no_bid\n              ^^^^^^\nwrite a term for each: they must both hold",
    );
    let error = Filter::parse("time>yesterday", NOW_US).unwrap_err().to_string();
    assert!(error.contains("`yesterday` is no time"), "{error}");
    assert!(error.contains("2026-11-22T08:30:00Z") && error.contains("-15m"), "{error}");
    let error = Filter::parse("outcome=wom", NOW_US).unwrap_err().to_string();
    assert!(error.contains("did you mean `won`? outcomes are filled, no_bid"), "{error}");
    let error = Filter::parse("seat=a=b", NOW_US).unwrap_err().to_string();
    assert!(error.starts_with("the value ends here\n  seat=a=b\n        ^\n"), "{error}");
}

/// The message fits a terminal line however long the expression, and nothing in it moves the caret.
#[test]
fn the_caret_stays_below_its_place() {
    let long = format!("{} nowhere=1 {}", "seat=a ".repeat(40), "seat=b ".repeat(40));
    let error = Filter::parse(&long, 0).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    let caret = lines[2].find('^').unwrap();
    let shown: String = lines[1].chars().skip(caret).take(7).collect();
    assert_eq!((shown.as_str(), lines[2].trim()), ("nowhere", "^^^^^^^"));
    assert!(lines[1].chars().count() < 80, "{error}");
    let error = Filter::parse("seat='é\u{202e}\x1b' x=1", 0).unwrap_err().to_string();
    assert!(error.contains("\n  seat='é��' x=1\n             ^\n"), "{error}");
}

#[test]
fn an_expression_has_a_limit() {
    let fits = format!("id={}", "a".repeat(FILTER_BYTES_MAX - 3));
    assert!(Filter::parse(&fits, 0).is_ok());
    let error = Filter::parse(&format!("{fits}a"), 0).unwrap_err().to_string();
    assert!(error.contains("4097 bytes") && error.ends_with("at most 4096 are read"), "{error}");
}

proptest! {
    /// Any text parses or fails with a position within it.
    #[test]
    fn anything_is_read_or_refused(text in "(time|seat|outcome|x|,|=|!=|>=|'|\"|\\\\|won|-1m|é| |\\PC){0,20}") {
        if let Err(error) = Filter::parse(&text, NOW_US) {
            prop_assert!(text.get(error.at.clone()).is_some());
            prop_assert_eq!(error.to_string().lines().count(), 4);
        }
    }
}
