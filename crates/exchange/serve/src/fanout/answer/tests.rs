//! Answers whole and in pieces, and a row for every refusal.

use proptest::prelude::*;

use super::*;

type Read = Result<(u16, bool, Vec<u8>, bool), AnswerError>;

/// Reads `input` in pieces of `size`, then the end of the connection.
fn read(input: &[u8], size: usize) -> Read {
    let mut reader = AnswerReader::new(32);
    let mut pieces = input.chunks(size);
    while let Some(piece) = pieces.next() {
        if let AnswerProgress::Done { head, body, surplus } = reader.read(piece)? {
            let surplus = surplus > 0 || pieces.next().is_some();
            return Ok((head.status, head.keep_alive, body.to_vec(), surplus));
        }
        assert!(reader.has_begun());
    }
    match reader.end()? {
        AnswerProgress::Done { head, body, surplus } => {
            Ok((head.status, head.keep_alive, body.to_vec(), surplus > 0))
        }
        AnswerProgress::Partial => panic!("the end is the end"),
    }
}

#[track_caller]
fn check(input: &str, want: Result<(u16, bool, &str, bool), AnswerError>) {
    let want =
        want.map(|(status, keep, body, more)| (status, keep, body.as_bytes().to_vec(), more));
    for size in [usize::MAX, 1, 2, 3, 7] {
        assert_eq!(
            read(input.as_bytes(), size.min(input.len().max(1))),
            want,
            "by {size}: {input}"
        );
    }
}

#[test]
fn whole_answers() {
    check("HTTP/1.1 204 No Content\r\n\r\n", Ok((204, true, "", false)));
    check("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", Ok((204, true, "", false)));
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok((200, true, "{}", false)));
    check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok((200, true, "", false)));
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}X", Ok((200, true, "{}", true)));
    let close = "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\n{}";
    check(close, Ok((200, false, "{}", false)));
    check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok((200, false, "{}", false)));
    check("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}", Ok((200, false, "{\"a\":1}", false)));
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", Ok((200, true, "{}", false)));
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    check(&format!("{interim}HTTP/1.1 204 No\r\n\r\n"), Ok((204, true, "", false)));
}

#[test]
fn chunked_answers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let ok = |body, surplus| Ok((200, true, body, surplus));
    check(&format!("{head}2\r\n{{}}\r\n0\r\n\r\n"), ok("{}", false));
    check(
        &format!("{head}1;ext=\"x\"\r\n{{\r\n1\r\n}}\r\n0\r\nTrailer: x\r\n\r\n"),
        ok("{}", false),
    );
    check(&format!("{head}0\r\n\r\n"), ok("", false));
    check(&format!("{head}A\r\n0123456789\r\n0\r\n\r\nX"), ok("0123456789", true));
}

#[test]
fn refused_answers() {
    use AnswerError::{BodyTooLarge, HeadTooLarge, Malformed, Truncated};
    check("", Err(Truncated));
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", Err(Truncated));
    check("HTTP/1.1 200 OK\r\nContent-Le", Err(Truncated));
    check("GET / HTTP/1.1\r\n\r\n", Err(Malformed("its head cannot be read")));
    check("HTTP/1.1 101 Go\r\n\r\n", Err(Malformed("it switches protocols")));
    let head = "HTTP/1.1 200 OK\r\n";
    let long = format!("{head}Content-Length: 33\r\n\r\n{}", "x".repeat(33));
    check(&long, Err(BodyTooLarge));
    let edge = format!("{head}Content-Length: 32\r\n\r\n{}", "x".repeat(32));
    check(&edge, Ok((200, true, &"x".repeat(32), false)));
    check(&format!("{head}\r\n{}", "x".repeat(33)), Err(BodyTooLarge));
    let huge = format!("{head}Content-Length: 99999999999999999999999\r\n\r\n");
    check(&huge, Err(BodyTooLarge));
    let number = Malformed("its content-length is no number");
    check(&format!("{head}Content-Length: -1\r\n\r\n"), Err(number));
    check(&format!("{head}Content-Length: 1, 1\r\n\r\n"), Err(number));
    let two = Malformed("two body lengths");
    check(&format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), Err(two));
    let both = "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{head}{both}"), Err(two));
    let coding = Malformed("a transfer coding other than chunked");
    check(&format!("{head}Transfer-Encoding: gzip, chunked\r\n\r\n"), Err(coding));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    check(&interim.repeat(INTERIM_MAX + 1), Err(HeadTooLarge));
    let fields = |n: usize| format!("{head}{}content-length: 0\r\n\r\n", "a: b\r\n".repeat(n - 1));
    check(&fields(HEADERS_MAX), Ok((200, true, "", false)));
    check(&fields(HEADERS_MAX + 1), Err(HeadTooLarge));
    let sized = |n: usize| {
        let rest = "\r\ncontent-length: 0\r\n\r\n";
        format!("{head}a: {}{rest}", "b".repeat(n - head.len() - 3 - rest.len()))
    };
    check(&sized(HEAD_MAX), Ok((200, true, "", false)));
    check(&sized(HEAD_MAX + 1), Err(HeadTooLarge));
}

#[test]
fn refused_chunks() {
    use AnswerError::{BodyTooLarge, HeadTooLarge, Malformed};
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let size = Malformed("a chunk has no size");
    check(&format!("{head}\r\n"), Err(size));
    check(&format!("{head}x\r\n"), Err(size));
    check(&format!("{head}-1\r\n"), Err(size));
    check(&format!("{head}+1\r\nx"), Err(size));
    check(&format!("{head}fffffffffffffffff\r\n"), Err(BodyTooLarge));
    check(&format!("{head}21\r\n{}", "x".repeat(33)), Err(BodyTooLarge));
    check(&format!("{head}1\r\nxy\r\n"), Err(Malformed("a chunk overruns its size")));
    check(&format!("{head}1\nx"), Err(Malformed("a chunk's line ends without CR LF")));
    let long = format!("{head}1;{}\r\n", "e".repeat(300));
    check(&long, Err(Malformed("a chunk's size line is too long")));
    let trailers = format!("{head}0\r\n{}", "a: b\r\n".repeat(HEADERS_MAX + 1));
    check(&trailers, Err(HeadTooLarge));
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        input in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "HTTP/1\\.[01] (200|204|100|500) OK\r\n(content-length: [0-9]{1,2}\r\n|transfer-encoding: chunked\r\n|connection: close\r\n){0,2}\r\n([0-9]{1,2}\r\n|[a-z]{0,9}\r\n|0\r\n\r\n){0,4}"
                .prop_map(String::into_bytes),
        ],
        size in 1usize..20,
    ) {
        let whole = read(&input, input.len().max(1));
        let pieces = read(&input, size);
        // Which of two faults is found first may depend on the pieces; success may not.
        match (whole, pieces) {
            (Err(_), Err(_)) => (),
            (whole, pieces) => prop_assert_eq!(whole, pieces),
        }
    }
}
