//! Responses in pieces.

use super::*;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n";
const FINAL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nHTTP/1.1 1";

/// All at once, and byte by byte.
fn check(text: &str, want: Result<usize, TooManyInterim>) {
    let mut whole = InterimCount::default();
    let received = whole.received(text.as_bytes());
    assert_eq!(received.map(|()| whole.count), want);
    let mut pieces = InterimCount::default();
    let received = text.bytes().try_for_each(|byte| pieces.received(&[byte]));
    assert_eq!(received.map(|()| pieces.count), want);
}

#[test]
fn interim_responses_are_counted_to_the_response() {
    check(FINAL, Ok(0));
    check(&format!("{HINTS}{FINAL}"), Ok(1));
    check(&format!("{}{FINAL}", HINTS.repeat(INTERIM_MAX)), Ok(INTERIM_MAX));
    check(&HINTS.repeat(INTERIM_MAX + 1), Err(TooManyInterim));
    // As lenient readers take them.
    check(&"HTTP/1.0 100 Continue\n\n".repeat(3), Ok(3));
}

#[test]
fn their_bytes_are_bounded() {
    let long = |bytes| format!("HTTP/1.1 103 Early Hints\r\nlink: {}", "x".repeat(bytes));
    check(&long(INTERIM_BYTES_MAX - 100), Ok(1));
    check(&long(INTERIM_BYTES_MAX), Err(TooManyInterim));
    // The bytes of a body do not count.
    check(&format!("{FINAL}{}", "x".repeat(2 * INTERIM_BYTES_MAX)), Ok(0));
}

#[test]
fn each_response_has_its_own() {
    let mut count = InterimCount::default();
    for _ in 0..3 {
        count.sent();
        count.received(HINTS.repeat(INTERIM_MAX).as_bytes()).unwrap();
        // Still the same one.
        count.sent();
        assert_eq!(count.count, INTERIM_MAX);
        count.received(FINAL.as_bytes()).unwrap();
    }
}
