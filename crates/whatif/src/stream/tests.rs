//! Accepted and refused streams with exact messages, and a round trip.

use std::io::BufReader;

use proptest::prelude::*;

use super::*;

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price")
}

fn auction(time_ms: u64, market_price: u64, value: u64) -> StreamAuction {
    StreamAuction { time_ms, market_price: cpm(market_price), value: cpm(value) }
}

const HEADER: &str = "time_ms\tmarket_price_cpm\tvalue_cpm\n";

#[track_caller]
fn check(text: &str, want: &[StreamAuction]) {
    let got =
        read(text.as_bytes(), StreamOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(got, want, "{text:?}");
}

#[test]
fn columns_are_found_by_name() {
    let rows = [auction(5, 1_500_000, 2_000_000), auction(5, 0, 30_000)];
    check(&format!("{HEADER}5\t1.5\t2\n5\t0\t0.03\n"), &rows);
    // Any column order, other columns, no final line end, a user, CR LF, a BOM.
    check("value_cpm\tuser\tmarket_price_cpm\ttime_ms\n2\tu1\t1.5\t5\n0.03\t\t0\t5", &rows);
    check("\u{feff}time_ms\tmarket_price_cpm\tvalue_cpm\r\n5\t1.5\t2\r\n5\t0\t0.03\r\n", &rows);
}

#[test]
fn what_is_finer_than_a_micro_never_helps_to_win() {
    check(&format!("{HEADER}0\t0.0000011\t0.0000019\n"), &[auction(0, 2, 1)]);
}

#[track_caller]
fn refused(bytes: &[u8], options: StreamOptions, want: &str) {
    match read(BufReader::with_capacity(7, bytes), options) {
        Ok(rows) => panic!("read as {rows:?}"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
}

#[test]
fn headers_are_refused_with_a_remedy() {
    let named = "`time_ms`, `market_price_cpm`, `value_cpm`";
    let check = |text: &str, want: &str| refused(text.as_bytes(), StreamOptions::default(), want);
    check("", &format!("it is empty: begin it with the header {named}"));
    check("\n1\t2\t3\n", &format!("it is empty: begin it with the header {named}"));
    check(
        "time_ms\tvalue_cpm\n",
        &format!(
            "line 1: column `market_price_cpm` is missing: the header must name {named}, tab-separated"
        ),
    );
    check(
        "time_ms,market_price_cpm,value_cpm\n",
        &format!(
            "line 1: column `time_ms` is missing: the header must name {named}, tab-separated"
        ),
    );
    check(
        "time_ms\tmarket_price_cpm\tvalue_cpm\tvalue_cpm\n",
        "line 1: column `value_cpm` is there twice: remove one",
    );
    check(HEADER, "it has no auctions: one line each must follow the header");
}

#[test]
fn lines_are_refused_with_place_value_and_remedy() {
    let check = |row: &str, want: &str| {
        let text = format!("{HEADER}100\t1\t1\n{row}\n");
        refused(text.as_bytes(), StreamOptions::default(), want);
    };
    let time = "is no time: write whole milliseconds since 1970, at most 253402300799999";
    let price = "is not a number: write the price of 1000 impressions as a decimal, such as 1.25";
    for text in ["", "-1", "+101", "1e3", "101.5", "253402300800000", "99999999999999999999"] {
        check(&format!("{text}\t1\t1"), &format!("line 3, column `time_ms`: `{text}` {time}"));
    }
    for text in ["", "abc", ".5", "1,5", "NaN", "inf"] {
        let row = format!("101\t{text}\t1");
        check(&row, &format!("line 3, column `market_price_cpm`: `{text}` {price}"));
        let row = format!("101\t1\t{text}");
        check(&row, &format!("line 3, column `value_cpm`: `{text}` {price}"));
    }
    check(
        "101\t-0.5\t1",
        "line 3, column `market_price_cpm`: `-0.5` is negative: a price is 0 or more",
    );
    check(
        "101\t1\t1000000000.1",
        "line 3, column `value_cpm`: `1000000000.1` is too large: a price of 1000 impressions is at most 1000000000",
    );
    check(
        "99\t1\t1",
        "line 3, column `time_ms`: `99` is before the line above it, `100`: sort the file by time_ms",
    );
    check("101\t1", "line 3 has 2 fields, the header has 3: separate them by one tab each");
    check("101\t1\t1\t", "line 3 has 4 fields, the header has 3: separate them by one tab each");
    check("", "line 3 has 1 fields, the header has 3: separate them by one tab each");
    // Control characters and endless values are not repeated.
    check(
        "101\t\u{1b}[2J\t1",
        &format!("line 3, column `market_price_cpm`: `\\u{{1b}}[2J` {price}"),
    );
    let long = "x".repeat(100);
    check(
        &format!("101\t{long}\t1"),
        &format!("line 3, column `market_price_cpm`: `{}…` {price}", "x".repeat(40)),
    );
}

#[test]
fn limits_hold_at_their_edges() {
    let options = StreamOptions { rows_max: 2, line_max: HEADER.len() - 1 };
    let two = format!("{HEADER}1\t1\t1\n2\t1\t1\n");
    assert_eq!(read(two.as_bytes(), options).map(|rows| rows.len()).ok(), Some(2));
    let three = format!("{two}3\t1\t1\n");
    refused(
        three.as_bytes(),
        options,
        "line 4 is beyond 2 auctions: give a part of the file, or allow more",
    );

    let longest = format!("{HEADER}1\t1\t1.{}", "0".repeat(options.line_max - 6));
    let rows = [auction(1, 1_000_000, 1_000_000)];
    for end in ["", "\n", "\r\n"] {
        let text = [&longest, end].concat();
        assert_eq!(read(text.as_bytes(), options).ok().as_deref(), Some(&rows[..]));
    }
    let said = format!(
        "line 2 is longer than {} bytes: leave out what is not needed, only `time_ms`, `market_price_cpm`, `value_cpm` are",
        options.line_max
    );
    for end in ["0", "0\n", "0\r\n"] {
        refused([&longest, end].concat().as_bytes(), options, &said);
    }
    // An endless line is not buffered.
    let endless = io::repeat(b'x');
    let error = read(BufReader::new(endless), options).expect_err("no end");
    assert!(matches!(error, StreamError::LineTooLong { line: 1, .. }), "{error}");
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let bytes = [HEADER.as_bytes(), b"1\t\xff\t1\n"].concat();
    refused(&bytes, StreamOptions::default(), "line 2 is not UTF-8 text: save the file as UTF-8");
}

#[test]
fn a_file_that_fails_says_where() {
    struct Failing;
    impl io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let input = BufReader::new(io::Read::chain(HEADER.as_bytes(), Failing));
    let error = read(input, StreamOptions::default()).expect_err("it fails");
    assert_eq!(error.to_string(), "line 2 cannot be read: the disk is gone");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        rows in prop::collection::vec((0..1_000_000u64, 0..=Cpm::MAX.micros(), 0..=Cpm::MAX.micros()), 1..50),
    ) {
        let mut time_ms = 0;
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|(gap, market_price, value)| {
                time_ms += gap;
                auction(time_ms, market_price, value)
            })
            .collect();
        rows.push(auction(TIME_MS_MAX, 0, 0));
        let mut writer = StreamWriter::new(Vec::new()).unwrap();
        for row in &rows {
            writer.write(row).unwrap();
        }
        let text = writer.finish().unwrap();
        prop_assert_eq!(read(&text[..], StreamOptions::default()).unwrap(), rows);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = [HEADER.as_bytes(), &bytes].concat();
        let _ = read(&bytes[..], StreamOptions::default());
        let _ = read(&text[..], StreamOptions::default());
    }
}
