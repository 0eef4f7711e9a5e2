//! Where requests end, and which are refused.

use super::*;

const POST: &str = "POST /bid HTTP/1.1\r\nHost: dsp\r\n";

fn whole(body: &str, length: usize, keep_alive: bool) -> RequestFrame<'_> {
    let body = body.as_bytes();
    let (method, target) = (HttpMethod::Post, "/bid");
    RequestFrame::Whole(ServerRequest {
        method,
        target,
        fields: b"",
        body,
        length,
        keep_alive,
        accepts_gzip: false,
    })
}

#[test]
fn frames_are_found() {
    let check = |rest: &str, want: &dyn Fn(usize) -> RequestFrame<'static>| {
        let text = format!("{POST}{rest}");
        let got = match frame(text.as_bytes(), 10) {
            RequestFrame::Whole(whole) => {
                RequestFrame::Whole(ServerRequest { fields: b"", ..whole })
            }
            other => other,
        };
        assert_eq!(got, want(text.len()), "{rest}");
    };
    check("Content-Length: 2\r\n\r\n{}", &|n| whole("{}", n, true));
    check("CONTENT-length:  2 \r\n\r\n{}", &|n| whole("{}", n, true));
    check("Content-Length: 2\r\n\r\n{}POST", &|n| whole("{}", n - 4, true));
    check("Content-Length: 0\r\n\r\n", &|n| whole("", n, true));
    check("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", &|n| whole("{}", n, true));
    check("Connection: x, Close\r\nContent-Length: 2\r\n\r\n{}", &|n| whole("{}", n, false));
    check("Content-Length: 10\r\n\r\n{", &|n| RequestFrame::Partial { needed: n + 9 });
    check("Content-Len", &|n| RequestFrame::Partial { needed: n + 1 });
    let refused = |rest: &str, refusal| check(rest, &move |_| RequestFrame::Refused(refusal));
    refused("Content-Length: 11\r\n\r\n", HttpRefusal::TooLarge);
    refused("\r\n", HttpRefusal::LengthRequired);
    refused("Transfer-Encoding: chunked\r\n\r\n", HttpRefusal::LengthRequired);
    refused(
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        HttpRefusal::LengthRequired,
    );
    refused("Content-Length: +2\r\n\r\n{}", HttpRefusal::BadRequest);
    refused("Content-Length: \r\n\r\n{}", HttpRefusal::BadRequest);
    refused("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", HttpRefusal::BadRequest);
    refused(&format!("Content-Length: {}\r\n\r\n", "9".repeat(40)), HttpRefusal::BadRequest);
    refused("bad field\r\n\r\n", HttpRefusal::BadRequest);
}

#[test]
fn fields_are_found_by_name() {
    let text = "GET / HTTP/1.1\r\nX-A:  one \r\nx-b:\r\nX-a: two\r\n\r\nX-Body: no";
    let RequestFrame::Whole(request) = frame(text.as_bytes(), 0) else { panic!("whole") };
    let fields = ["x-a", "x-b", "get /", "x-body", "x"].map(|name| request.field(name));
    assert_eq!(fields, [Some("one"), Some(""), None, None, None]);
}

#[test]
fn methods_are_told_apart() {
    let check = |line: &str, want: Result<HttpMethod, HttpRefusal>| {
        let text = format!("{line} HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
        let got = match frame(text.as_bytes(), 10) {
            RequestFrame::Whole(request) => Ok(request.method),
            RequestFrame::Refused(refusal) => Err(refusal),
            RequestFrame::Partial { .. } => panic!("{line} is whole"),
        };
        assert_eq!(got, want, "{line}");
    };
    check("POST /", Ok(HttpMethod::Post));
    check("GET /", Ok(HttpMethod::Get));
    check("PUT /", Err(HttpRefusal::MethodNotAllowed));
}

#[test]
fn gzip_is_accepted_where_the_request_says_so() {
    let check = |field: &str, want: bool| {
        let text = format!("{POST}{field}\r\nContent-Length: 0\r\n\r\n");
        let RequestFrame::Whole(request) = frame(text.as_bytes(), 0) else { panic!("whole") };
        assert_eq!((request.accepts_gzip, request.target), (want, "/bid"), "{field}");
    };
    check("Accept-Encoding: gzip", true);
    check("accept-encoding: br , GZIP", true);
    check("Accept-Encoding: br", false);
    check("Accept: gzip", false);
}

#[test]
fn an_old_client_is_answered_once() {
    let RequestFrame::Whole(request) = frame(b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", 10)
    else {
        panic!("whole")
    };
    assert!(!request.keep_alive);
}

#[test]
fn a_head_is_bounded_in_bytes_and_fields() {
    let head = |bytes: usize| {
        let start = "POST / HTTP/1.1\r\nContent-Length: 0\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
    };
    let check = |text: &str, want: Option<HttpRefusal>| match frame(text.as_bytes(), 0) {
        RequestFrame::Whole(_) => assert_eq!(want, None),
        RequestFrame::Refused(refusal) => assert_eq!(want, Some(refusal)),
        RequestFrame::Partial { .. } => panic!("neither whole nor refused"),
    };
    check(&head(HEAD_BYTES_MAX), None);
    check(&head(HEAD_BYTES_MAX + 1), Some(HttpRefusal::HeadTooLarge));
    check(&"x".repeat(HEAD_BYTES_MAX), Some(HttpRefusal::HeadTooLarge));
    let fields =
        |n: usize| format!("POST / HTTP/1.1\r\nContent-Length: 0\r\n{}\r\n", "A: b\r\n".repeat(n));
    check(&fields(FIELDS_MAX - 1), None);
    check(&fields(FIELDS_MAX), Some(HttpRefusal::HeadTooLarge));
}
