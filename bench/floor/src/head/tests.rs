//! Where a message ends, for whole, partial, hostile and oversized ones.

use super::{HEAD_BYTES_MAX, Scan, answer, request};

#[test]
fn requests_end_where_their_length_says() {
    let check = |text: &str, want: Scan| assert_eq!(request(text.as_bytes(), 5), want, "{text:?}");
    check("", Scan::Partial);
    check("POST / HTTP/1.1\r\ncontent-length: 2\r\n", Scan::Partial);
    check("POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{", Scan::Partial);
    check("POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", Scan::Whole(38..40));
    check("POST / HTTP/1.1\r\nCONTENT-Length:2 \r\n\r\n{}POST", Scan::Whole(38..40));
    check("GET / HTTP/1.1\r\n\r\n", Scan::Whole(18..18));
    check("POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n12345", Scan::Whole(38..43));
    check("POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\n", Scan::Malformed);
    check("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", Scan::Malformed);
    check("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n", Scan::Malformed);
}

#[test]
fn answers_need_a_length_or_no_content() {
    let check = |text: &str, want: Scan| assert_eq!(answer(text.as_bytes(), 5), want, "{text:?}");
    check("HTTP/1.1 20", Scan::Partial);
    check("HTTP/1.1 204 No Content\r\n\r\n", Scan::Whole(27..27));
    check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Scan::Whole(38..40));
    check("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n", Scan::Malformed);
    check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Scan::Malformed);
    check("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", Scan::Malformed);
    check("\n\n\n", Scan::Malformed);
}

#[test]
fn heads_are_bounded() {
    let head = |bytes: usize| {
        let frame = "GET / HTTP/1.1\r\nx: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(bytes - frame))
    };
    let check = |text: &str, want: Scan| assert_eq!(request(text.as_bytes(), 0), want);
    check(&head(HEAD_BYTES_MAX), Scan::Whole(HEAD_BYTES_MAX..HEAD_BYTES_MAX));
    check(&head(HEAD_BYTES_MAX + 1), Scan::Malformed);
    check(&"y".repeat(HEAD_BYTES_MAX - 1), Scan::Partial);
    check(&"y".repeat(HEAD_BYTES_MAX), Scan::Malformed);
}
