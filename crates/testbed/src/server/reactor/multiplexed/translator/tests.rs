//! Answers in HTTP/1.1 become the same parts however they are cut.

use http2::hpack::FieldDecoder;

use super::{AnswerPart, AnswerTranslator};

/// What a translation yields: fields, joined data, and how it ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Translated {
    heads: Vec<String>,
    data: String,
    raw: Vec<u8>,
    /// Number of parts that end the stream.
    ends: usize,
    is_complete: bool,
    is_closing: bool,
}

fn fields(block: &[u8]) -> String {
    let mut text = String::new();
    let decoded = FieldDecoder::default().decode(block, |name, value| {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        text.push_str(&format!("{name}={value};"));
    });
    decoded.expect("the block is sound");
    text
}

fn translated(answer: &[u8], piece: usize) -> Translated {
    let mut translator = AnswerTranslator::new();
    let mut got = Translated::default();
    let mut note = |part: AnswerPart<'_>, block: &[u8]| match part {
        AnswerPart::Interim => got.heads.push(fields(block)),
        AnswerPart::Head { is_last } => {
            got.heads.push(fields(block));
            got.ends += usize::from(is_last);
        }
        AnswerPart::Data { bytes, is_last } => {
            got.data.push_str(str::from_utf8(bytes).expect("the body is text"));
            got.ends += usize::from(is_last);
        }
        AnswerPart::End => got.ends += 1,
        AnswerPart::Raw(bytes) => got.raw.extend(bytes),
    };
    for mut bytes in answer.chunks(piece) {
        while let Some(part) = translator.next(&mut bytes) {
            note(part, translator.block());
        }
        assert!(bytes.is_empty(), "every byte is taken");
    }
    if let Some(part) = translator.finish() {
        note(part, translator.block());
    }
    (got.is_complete, got.is_closing) = (translator.is_complete(), translator.is_closing());
    got
}

#[track_caller]
fn check(answer: &str, heads: &[&str], data: &str) {
    for piece in [1, 2, 3, 7, answer.len()] {
        let got = translated(answer.as_bytes(), piece);
        assert_eq!(
            (got.heads, got.data.as_str()),
            (heads.iter().map(|it| (*it).to_owned()).collect(), data)
        );
        assert!(got.is_complete && got.ends == 1 && got.raw.is_empty(), "in pieces of {piece}");
    }
}

#[test]
fn whole_answers_keep_their_fields_and_bodies() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nbody",
        &[":status=200;content-type=application/json;content-length=4;"],
        "body",
    );
    check("HTTP/1.1 204 No Content\r\n\r\n", &[":status=204;"], "");
    check("HTTP/1.1 304 Status\r\nETag: \"a\"\r\n\r\n", &[":status=304;etag=\"a\";"], "");
    check(
        "HTTP/1.1 503 Status\r\ncontent-length: 0\r\n\r\n",
        &[":status=503;content-length=0;"],
        "",
    );
    let long = "X-A-Name-Longer-Than-The-Short-Buffer";
    check(
        &format!("HTTP/1.1 200 OK\r\n{long}: v\r\ncontent-length: 1\r\n\r\nx"),
        &[&format!(":status=200;{}=v;content-length=1;", long.to_lowercase())],
        "x",
    );
    // Without a length, the body ends with the answer.
    check("HTTP/1.1 200 OK\r\n\r\nuntil the end", &[":status=200;"], "until the end");
}

#[test]
fn chunks_become_data_and_connection_fields_are_dropped() {
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\n\r\n\
         4\r\nfour\r\n1A;ext=1\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\ntrailer: x\r\n\r\n",
        &[":status=200;"],
        "fourabcdefghijklmnopqrstuvwxyz",
    );
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[":status=200;"], "");
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let got = translated(closing, closing.len());
    assert!(got.is_closing && got.is_complete);
    assert_eq!(got.heads, [":status=200;content-length=1;"]);
}

#[test]
fn interim_answers_come_before_the_final_one() {
    check(
        "HTTP/1.1 103 Wait\r\nLink: x\r\n\r\nHTTP/1.1 100 Wait\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
        &[":status=103;link=x;", ":status=100;", ":status=200;content-length=1;"],
        "x",
    );
}

#[test]
fn truncated_answers_have_no_end() {
    let check = |answer: &str, heads: usize, data: &str| {
        for piece in [1, answer.len().max(1)] {
            let got = translated(answer.as_bytes(), piece);
            assert_eq!((got.heads.len(), got.data.as_str(), got.ends), (heads, data, 0));
            assert!(!got.is_complete && got.raw.is_empty());
        }
    };
    check("", 0, "");
    check("HTTP/1.1 200 O", 0, "");
    check("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour", 1, "four");
    check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n", 1, "four");
    check("HTTP/1.1 103 Wait\r\n\r\n", 1, "");
}

#[test]
fn what_is_no_http_passes_unchanged() {
    for garbage in [&b"\0\x17garbage\r\n\r\n"[..], b"SSH-2.0-x\r\n", b"{\"id\":1}"] {
        for piece in [1, 5, garbage.len()] {
            let got = translated(garbage, piece);
            assert_eq!(got.raw, garbage);
            assert!(got.heads.is_empty() && got.ends == 0 && !got.is_complete);
        }
    }
    let got = translated(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 1000);
    assert_eq!((got.heads.len(), got.is_complete), (1, false));
}

#[test]
fn bytes_after_the_answer_are_ignored_until_a_restart() {
    let mut translator = AnswerTranslator::new();
    let mut bytes = &b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxyz"[..];
    assert_eq!(translator.next(&mut bytes), Some(AnswerPart::Head { is_last: false }));
    let want = AnswerPart::Data { bytes: b"x", is_last: true };
    assert_eq!(translator.next(&mut bytes), Some(want));
    assert_eq!((translator.next(&mut bytes), bytes), (None, &b""[..]));
    translator.restart();
    bytes = b"HTTP/1.1 204 Status\r\n\r\n";
    assert_eq!(translator.next(&mut bytes), Some(AnswerPart::Head { is_last: true }));
}
