//! Messages in one read and byte by byte.

use super::*;

/// Whether the check spoils the bytes, read in pieces of several lengths.
#[track_caller]
fn check(messages: &str, refused: bool) {
    for length in [messages.len(), 1, 2, 3, 7] {
        let mut check = FramingCheck::default();
        let mut bytes = messages.as_bytes().to_vec();
        bytes.chunks_mut(length).for_each(|piece| check.follow(piece));
        let is_spoilt = bytes != messages.as_bytes();
        assert_eq!(is_spoilt, refused, "{messages:?} in pieces of {length}");
        assert!(!is_spoilt || bytes.contains(&0));
    }
}

#[test]
fn two_framings_are_refused_wherever_they_come() {
    let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let turned = "transfer-encoding: x\r\nCONTENT-LENGTH:0\r\n\r\n";
    check(&format!("POST / HTTP/1.1\r\n{both}"), true);
    check(&format!("POST / HTTP/1.1\r\nhost: a\r\n{turned}"), true);
    check(&format!("POST / HTTP/1.1\n{}", both.replace('\r', "")), true);
    // Behind other messages.
    let get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let post = "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab\r\n\r";
    let chunked =
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\na\r\nb\r\n0\r\nt: u\r\n\r\n";
    check(&format!("{get}{post}{chunked}{get}\r\n{get}"), false);
    for before in [get, post, chunked] {
        check(&format!("{before}POST / HTTP/1.1\r\n{both}"), true);
    }
}

#[test]
fn bodies_are_not_taken_for_heads() {
    let both = "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = format!("POST / HTTP/1.1\r\n{both}");
    let length = body.len();
    check(&format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}"), false);
    let chunk = format!("{length:X}\r\n{body}\r\n0\r\n\r\n");
    check(&format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"), false);
    // Fields whose names only begin alike.
    check("GET / HTTP/1.1\r\ncontent-length-x: 1\r\ntransfer-encodings: 1\r\n\r\n", false);
}

#[test]
fn endless_lines_are_refused() {
    let mut check = FramingCheck::default();
    let mut pieces = [[b'x'; 4096]; 100];
    pieces.iter_mut().for_each(|piece| check.follow(piece));
    assert_eq!(pieces.as_flattened().iter().filter(|byte| **byte == 0).count(), 1);
    assert_eq!(check.line.capacity(), 0);
    assert_eq!(check.at, MessagePart::Unknown);
}

#[test]
fn chunks_and_trailers_end_as_hyper_ends_them() {
    let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    for end in ["0\r\n\nGET / HTTP/1.1\r\n\r\n", "0\r\nx: y\n\r\n", "0\n\r\n", "1\na\r\n0\r\n\r\n"]
    {
        check(&format!("{chunked}{end}"), true);
    }
    for length in ["5, 5", "+5", "", "5 5", "99999999999999999999"] {
        check(&format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\nhello"), true);
    }
}
