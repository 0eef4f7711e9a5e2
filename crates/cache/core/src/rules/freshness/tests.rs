//! Lifetimes and ages.

use http::HeaderValue;
use http::header::CACHE_CONTROL;

use super::*;
use crate::fields::dates::format_date;

/// Sent and received at once.
const NOW: UnixSeconds = UnixSeconds(1_795_737_600);
const TIMES: ExchangeTimes = ExchangeTimes { requested: NOW, received: NOW };

fn ago(seconds: u64) -> String {
    format_date(UnixSeconds(NOW.0 - seconds))
}

fn ahead(seconds: u64) -> String {
    format_date(UnixSeconds(NOW.0 + seconds))
}

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn lifetime_of(status: u16, lines: &[(HeaderName, &str)]) -> u64 {
    let (status, headers) = (StatusCode::from_u16(status).unwrap(), headers(lines));
    let control = ResponseControl::of(&headers, &[HeaderName::from_static("cdn-cache-control")]);
    lifetime(status, &headers, &control, TIMES, HeuristicFreshness::default()).0
}

#[test]
fn explicit_lifetimes_in_their_order() {
    let check = |lines: &[(HeaderName, &str)], want| assert_eq!(lifetime_of(200, lines), want);
    let (date, expires) = (ago(10), ahead(50));
    check(&[(EXPIRES, &expires)], 50);
    check(&[(EXPIRES, &expires), (DATE, &date)], 60);
    check(&[(EXPIRES, &expires), (DATE, "yesterday")], 50);
    check(&[(EXPIRES, &expires), (CACHE_CONTROL, "max-age=5")], 5);
    check(&[(EXPIRES, &expires), (CACHE_CONTROL, "max-age=5, s-maxage=7")], 7);
    check(&[(EXPIRES, &expires), (CACHE_CONTROL, "public")], 50);
    // The first line counts.
    check(&[(EXPIRES, &ahead(5)), (EXPIRES, &expires)], 5);
    for past in ["0", "-1", "", "never", &ago(1)] {
        check(&[(EXPIRES, past), (LAST_MODIFIED, &ago(1000))], 0);
    }
    let target = HeaderName::from_static("cdn-cache-control");
    check(&[(EXPIRES, &expires), (target, "public"), (CACHE_CONTROL, "max-age=5")], 0);
}

#[test]
fn a_tenth_of_the_time_since_the_last_modification_is_assumed() {
    let (day, old) = (24 * 60 * 60, ago(1000));
    let modified =
        |status, more: &str| lifetime_of(status, &[(LAST_MODIFIED, &old), (CACHE_CONTROL, more)]);
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(modified(status, ""), 100, "{status}");
    }
    for status in [201, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599] {
        assert_eq!(modified(status, ""), 0, "{status}");
        assert_eq!(modified(status, "public"), 100, "{status}");
    }
    assert_eq!(lifetime_of(200, &[]), 0);
    assert_eq!(lifetime_of(200, &[(LAST_MODIFIED, &ahead(9))]), 0);
    assert_eq!(lifetime_of(200, &[(LAST_MODIFIED, &ago(day * 365))]), day);
    assert_eq!(lifetime_of(200, &[(LAST_MODIFIED, &ago(1000)), (DATE, &ago(500))]), 50);
}

#[test]
fn ages_count_the_path_and_the_clocks() {
    let check = |lines: &[(HeaderName, &str)], delay: u64, want: u64| {
        let times = ExchangeTimes { requested: UnixSeconds(NOW.0 - delay), received: NOW };
        assert_eq!(initial_age(&headers(lines), times).age, Seconds(want), "{lines:?}");
    };
    check(&[], 0, 0);
    check(&[], 3, 3);
    check(&[(DATE, &ago(20))], 3, 20);
    check(&[(AGE, "30"), (DATE, &ago(20))], 3, 33);
    // Clocks that go ahead make nothing younger.
    check(&[(AGE, "30"), (DATE, &ahead(20))], 0, 30);
    check(&[(AGE, "30, 99")], 0, 30);
    check(&[(AGE, "30"), (AGE, "99")], 0, 30);
    for invalid in ["-1", "3.5", "x", "", "30x"] {
        check(&[(AGE, invalid)], 0, 0);
    }
    check(&[(AGE, "99999999999999999999")], 0, u64::from(u32::MAX));
    let age = initial_age(&headers(&[(AGE, "30")]), TIMES);
    assert_eq!(age.current(UnixSeconds(NOW.0 + 12)), Seconds(42));
    assert_eq!(age.current(UnixSeconds(NOW.0 - 12)), Seconds(30), "the clock may go back");
}
