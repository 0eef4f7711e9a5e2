//! Dates in all three formats, and texts that are not dates.

use proptest::prelude::*;

use super::*;

/// 2026-11-27 00:00:00.
const NOW: UnixSeconds = UnixSeconds(1_795_737_600);

#[track_caller]
fn check(text: &str, want: Option<u64>) {
    assert_eq!(parse_date(text, NOW), want.map(UnixSeconds), "{text}");
}

#[test]
fn all_three_formats_are_read() {
    let want = Some(784_111_777);
    check("Sun, 06 Nov 1994 08:49:37 GMT", want);
    check("Sunday, 06-Nov-94 08:49:37 GMT", want);
    check("Sun Nov  6 08:49:37 1994", want);
    // A recipient does not insist on the case.
    check("sun, 06 nov 1994 08:49:37 gmt", want);
    check("SUNDAY, 06-NOV-94 08:49:37 GMT", want);
    check("sun nov  6 08:49:37 1994", want);
}

#[test]
fn a_two_digit_year_is_at_most_50_years_ahead() {
    let year = |year: u64, at: u64| {
        let long = format_date(UnixSeconds(at));
        let weekday =
            ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
                .into_iter()
                .find(|name| name.starts_with(&long[..3]))
                .unwrap();
        check(&format!("{weekday}, 01-Jan-{year:02} 00:00:00 GMT"), Some(at));
    };
    year(76, 3_345_062_400); // 2076
    year(77, 220_924_800); // 1977
    year(0, 946_684_800);
    year(99, 915_148_800);
}

#[test]
fn anything_else_is_no_date() {
    for text in [
        "",
        "0",
        "-1",
        "Mon, 06 Nov 1994 08:49:37 GMT", // It was a Sunday.
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 AEST",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06-Nov-9é 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
    ] {
        check(text, None);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(at in 0..END_S) {
        prop_assert_eq!(parse_date(&format_date(UnixSeconds(at)), NOW), Some(UnixSeconds(at)));
    }

    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _parsed = parse_date(&text, NOW);
    }
}
