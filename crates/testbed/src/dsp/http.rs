//! HTTP/1.1 on the DSP's side: where one request ends and the next begins, and the answers that
//! never change. Knows no socket and no OpenRTB.

use super::notices::Notice;

/// Most bytes of a request's head; more is refused with 431.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request; more is refused with 431.
const FIELDS_MAX: usize = 48;

/// No bid.
pub(crate) const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A request that is HTTP but not OpenRTB.
pub(crate) const BAD_BODY: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// A `GET` for something that is no notice.
pub(crate) const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// What a buffer begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Not a whole request yet; nothing can change below `needed` bytes.
    Partial {
        /// Bytes that must be there before another look is worthwhile.
        needed: usize,
    },
    /// A whole request.
    Whole(Request<'a>),
    /// A request that is refused, after which the connection closes.
    Refused(Refusal),
}

/// A whole request at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    /// Path and query, as written.
    pub(crate) target: &'a str,
    pub(crate) body: &'a [u8],
    /// Bytes of head and body together.
    pub(crate) length: usize,
    /// Whether another request may follow on the connection.
    pub(crate) keep_alive: bool,
    /// Whether it says `accept-encoding: gzip`.
    pub(crate) accepts_gzip: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `POST` to any path: a bid request.
    Bid,
    /// `GET /win…`, `/bill…`, `/loss…` or `/view…`: a notice.
    Notice(Notice),
    /// Another `GET`.
    UnknownPath,
}

/// Why a request is refused, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 431
    HeadTooLarge,
    /// 400
    BadRequest,
    /// 405
    MethodNotAllowed,
    /// 411: no length, or a chunked body.
    LengthRequired,
    /// 413
    TooLarge,
}

impl Refusal {
    /// The whole answer.
    pub(crate) const fn answer(self) -> &'static [u8] {
        match self {
            Self::HeadTooLarge => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::BadRequest => {
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::MethodNotAllowed => {
                b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, POST\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::LengthRequired => {
                b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::TooLarge => {
                b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
        }
    }
}

/// What `bytes` begins with, where a body may have up to `body_bytes_max` bytes.
pub(crate) fn frame(bytes: &[u8], body_bytes_max: usize) -> Frame<'_> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let head_length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => {
            return Frame::Partial { needed: bytes.len() + 1 };
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Frame::Refused(Refusal::HeadTooLarge);
        }
        Err(_) => return Frame::Refused(Refusal::BadRequest),
    };
    let Some(fields) = Fields::read(&head) else { return Frame::Refused(Refusal::BadRequest) };
    let kind = match head.method {
        Some("POST") => Kind::Bid,
        Some("GET") => kind_of_get(head.path.unwrap_or_default()),
        _ => return Frame::Refused(Refusal::MethodNotAllowed),
    };
    let body_length = match fields.content_length {
        _ if fields.transfer_coded => return Frame::Refused(Refusal::LengthRequired),
        None if kind == Kind::Bid => return Frame::Refused(Refusal::LengthRequired),
        None => 0,
        Some(length) if length > body_bytes_max => return Frame::Refused(Refusal::TooLarge),
        Some(length) => length,
    };
    let length = head_length + body_length;
    let target = head.path.unwrap_or_default();
    let Fields { keep_alive, accepts_gzip, .. } = fields;
    match bytes.get(head_length..length) {
        Some(body) => {
            Frame::Whole(Request { kind, target, body, length, keep_alive, accepts_gzip })
        }
        None => Frame::Partial { needed: length },
    }
}

fn kind_of_get(path: &str) -> Kind {
    if path.starts_with("/win") {
        Kind::Notice(Notice::Win)
    } else if path.starts_with("/bill") {
        Kind::Notice(Notice::Bill)
    } else if path.starts_with("/loss") {
        Kind::Notice(Notice::Loss)
    } else if path.starts_with("/view") {
        Kind::Notice(Notice::View)
    } else {
        Kind::UnknownPath
    }
}

/// The header fields that matter here.
struct Fields {
    content_length: Option<usize>,
    transfer_coded: bool,
    keep_alive: bool,
    accepts_gzip: bool,
}

impl Fields {
    /// `None` if the length is not a number, or said twice differently.
    fn read(head: &httparse::Request<'_, '_>) -> Option<Self> {
        let mut read = Self {
            content_length: None,
            transfer_coded: false,
            keep_alive: head.version == Some(1),
            accepts_gzip: false,
        };
        for field in head.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = decimal(field.value)?;
                if read.content_length.is_some_and(|earlier| earlier != length) {
                    return None;
                }
                read.content_length = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                read.transfer_coded = true;
            } else if field.name.eq_ignore_ascii_case("accept-encoding") {
                let options = field.value.split(|&byte| byte == b',');
                read.accepts_gzip |= options
                    .map(<[u8]>::trim_ascii)
                    .any(|option| option.eq_ignore_ascii_case(b"gzip"));
            } else if field.name.eq_ignore_ascii_case("connection") {
                for option in field.value.split(|&byte| byte == b',') {
                    let option = option.trim_ascii();
                    if option.eq_ignore_ascii_case(b"close") {
                        read.keep_alive = false;
                    }
                }
            }
        }
        Some(read)
    }
}

/// ASCII digits only: what `str::parse` adds, such as a plus sign, is no length.
fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: &str = "POST /bid HTTP/1.1\r\nHost: dsp\r\n";

    fn whole(body: &str, length: usize, keep_alive: bool) -> Frame<'_> {
        let body = body.as_bytes();
        let (kind, target) = (Kind::Bid, "/bid");
        Frame::Whole(Request { kind, target, body, length, keep_alive, accepts_gzip: false })
    }

    #[test]
    fn frames_are_found() {
        let check = |rest: &str, want: &dyn Fn(usize) -> Frame<'static>| {
            let text = format!("{POST}{rest}");
            assert_eq!(frame(text.as_bytes(), 10), want(text.len()), "{rest}");
        };
        check("Content-Length: 2\r\n\r\n{}", &|n| whole("{}", n, true));
        check("CONTENT-length:  2 \r\n\r\n{}", &|n| whole("{}", n, true));
        check("Content-Length: 2\r\n\r\n{}POST", &|n| whole("{}", n - 4, true));
        check("Content-Length: 0\r\n\r\n", &|n| whole("", n, true));
        check("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", &|n| whole("{}", n, true));
        check("Connection: x, Close\r\nContent-Length: 2\r\n\r\n{}", &|n| whole("{}", n, false));
        check("Content-Length: 10\r\n\r\n{", &|n| Frame::Partial { needed: n + 9 });
        check("Content-Len", &|n| Frame::Partial { needed: n + 1 });
        let refused = |rest: &str, refusal| check(rest, &move |_| Frame::Refused(refusal));
        refused("Content-Length: 11\r\n\r\n", Refusal::TooLarge);
        refused("\r\n", Refusal::LengthRequired);
        refused("Transfer-Encoding: chunked\r\n\r\n", Refusal::LengthRequired);
        refused(
            "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
            Refusal::LengthRequired,
        );
        refused("Content-Length: +2\r\n\r\n{}", Refusal::BadRequest);
        refused("Content-Length: \r\n\r\n{}", Refusal::BadRequest);
        refused("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", Refusal::BadRequest);
        refused(&format!("Content-Length: {}\r\n\r\n", "9".repeat(40)), Refusal::BadRequest);
        refused("bad field\r\n\r\n", Refusal::BadRequest);
    }

    #[test]
    fn methods_and_paths_are_told_apart() {
        let check = |line: &str, want: Result<Kind, Refusal>| {
            let text = format!("{line} HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
            let got = match frame(text.as_bytes(), 10) {
                Frame::Whole(request) => Ok(request.kind),
                Frame::Refused(refusal) => Err(refusal),
                Frame::Partial { .. } => panic!("{line} is whole"),
            };
            assert_eq!(got, want, "{line}");
        };
        check("POST /", Ok(Kind::Bid));
        check("GET /win?price=1", Ok(Kind::Notice(Notice::Win)));
        check("GET /bill", Ok(Kind::Notice(Notice::Bill)));
        check("GET /loss", Ok(Kind::Notice(Notice::Loss)));
        check("GET /view?imp=1", Ok(Kind::Notice(Notice::View)));
        check("GET /", Ok(Kind::UnknownPath));
        check("PUT /", Err(Refusal::MethodNotAllowed));
    }

    #[test]
    fn gzip_is_accepted_where_the_request_says_so() {
        let check = |field: &str, want: bool| {
            let text = format!("{POST}{field}\r\nContent-Length: 0\r\n\r\n");
            let Frame::Whole(request) = frame(text.as_bytes(), 0) else { panic!("whole") };
            assert_eq!((request.accepts_gzip, request.target), (want, "/bid"), "{field}");
        };
        check("Accept-Encoding: gzip", true);
        check("accept-encoding: br , GZIP", true);
        check("Accept-Encoding: br", false);
        check("Accept: gzip", false);
    }

    #[test]
    fn an_old_client_is_answered_once() {
        let Frame::Whole(request) = frame(b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", 10)
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
        let check = |text: &str, want: Option<Refusal>| match frame(text.as_bytes(), 0) {
            Frame::Whole(_) => assert_eq!(want, None),
            Frame::Refused(refusal) => assert_eq!(want, Some(refusal)),
            Frame::Partial { .. } => panic!("neither whole nor refused"),
        };
        check(&head(HEAD_BYTES_MAX), None);
        check(&head(HEAD_BYTES_MAX + 1), Some(Refusal::HeadTooLarge));
        check(&"x".repeat(HEAD_BYTES_MAX), Some(Refusal::HeadTooLarge));
        let fields = |n: usize| {
            format!("POST / HTTP/1.1\r\nContent-Length: 0\r\n{}\r\n", "A: b\r\n".repeat(n))
        };
        check(&fields(FIELDS_MAX - 1), None);
        check(&fields(FIELDS_MAX), Some(Refusal::HeadTooLarge));
    }
}
