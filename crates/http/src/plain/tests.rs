//! Which requests are plain, and that a client sees no difference but speed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Response};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;
use crate::interim::InterimSlot;
use crate::server::{HttpHandler, serve_intermediary};

const LIMITS: HeadLimits = HeadLimits { bytes_max: 8 << 10, fields_max: 20 };

/// What is read of a request: authority, path and query.
fn read(bytes: &str) -> Option<(String, String, Option<String>)> {
    let read = PlainGet::read(bytes.as_bytes(), LIMITS, |get| {
        (get.authority.to_owned(), get.path.to_owned(), get.query.map(str::to_owned))
    });
    read.map(|(read, length)| {
        assert_eq!(length, bytes.len());
        read
    })
}

#[test]
fn a_plain_get_wants_the_whole_representation() {
    let check = |bytes: &str, path: &str, query: Option<&str>| {
        let want = ("a.example:8080".to_owned(), path.to_owned(), query.map(str::to_owned));
        assert_eq!(read(bytes), Some(want), "{bytes:?}");
    };
    check("GET / HTTP/1.1\r\nhost: a.example:8080\r\n\r\n", "/", None);
    check(
        "GET /x/../%41?b=c?d HTTP/1.1\r\nHOST:a.example:8080\r\n\r\n",
        "/x/../%41",
        Some("b=c?d"),
    );
    let browser =
        "Connection: keep-alive\r\nUser-Agent: x\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n";
    check(&format!("GET //? HTTP/1.1\r\nHost: a.example:8080\r\n{browser}\r\n"), "//", Some(""));
}

#[test]
fn a_get_that_wants_more_is_not_plain() {
    let check = |bytes: &str| assert_eq!(read(bytes), None, "{bytes:?}");
    for line in [
        "HEAD / HTTP/1.1",
        "GET / HTTP/1.0",
        "GET http://a/ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET /a\"b HTTP/1.1",
        "GET /\u{e4} HTTP/1.1",
        "GET  / HTTP/1.1",
    ] {
        check(&format!("{line}\r\nhost: a\r\n\r\n"));
    }
    for fields in [
        "",
        "host: a\r\nhost: a\r\n",
        "host:\r\n",
        "host: a b\r\n",
        "host: u@a\r\n",
        "host: a\r\n folded\r\n",
    ] {
        check(&format!("GET / HTTP/1.1\r\n{fields}\r\n"));
    }
    for field in [
        "Authorization: x",
        "Cache-Control: no-cache",
        "CDN-Loop: a",
        "Connection: close",
        "Connection: keep-alive, x",
        "Content-Length: 0",
        "Expect: 100-continue",
        "If-Match: *",
        "If-Modified-Since: x",
        "If-None-Match: *",
        "If-Range: x",
        "If-Unmodified-Since: x",
        "Pragma: no-cache",
        "Range: bytes=0-",
        "Trailer: x",
        "Transfer-Encoding: chunked",
        "Upgrade: h2c",
    ] {
        check(&format!("GET / HTTP/1.1\r\nhost: a\r\n{field}\r\n\r\n"));
    }
    // Incomplete, and beyond the limits.
    check("GET / HTTP/1.1\r\nhost: a\r\n");
    check(&format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(LIMITS.bytes_max)));
    check(&format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "a: b\r\n".repeat(LIMITS.fields_max)));
}

/// Answers each request with its path, plain ones whose path begins with `/p` at once.
struct PathHandler {
    plain: Cell<usize>,
}

impl PlainHandler for PathHandler {
    fn answer_plain(&self, request: PlainGet<'_>, send: impl FnOnce(&[u8])) -> bool {
        let path = request.path;
        let is_answered = path.starts_with("/p");
        if is_answered {
            self.plain.set(self.plain.get() + 1);
            let length = path.len();
            send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{path}").as_bytes());
        }
        is_answered
    }
}

impl HttpHandler for PathHandler {
    type Body = SlowBody;

    async fn answer(&self, request: Request<Incoming>) -> Response<SlowBody> {
        let (head, mut body) = request.into_parts();
        let path = head.uri.path();
        // Some read the body, and some leave it to hyper, which ends the connection unless it has it.
        if path.contains("read") {
            while let Some(frame) =
                std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
            {
                frame.expect("a whole body");
            }
        }
        // Some are answered at once.
        let is_slow = !path.contains("now");
        if is_slow {
            tokio::task::yield_now().await;
        }
        let length = if is_slow { 3 } else { path.len() };
        let pieces = path.as_bytes().chunks(length).map(Bytes::copy_from_slice).collect();
        Response::new(SlowBody { pieces, is_due: !is_slow })
    }
}

/// Comes in pieces, each of which is waited for.
struct SlowBody {
    pieces: VecDeque<Bytes>,
    is_due: bool,
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.is_due = !self.is_due;
        if self.is_due {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Serves what a client does. Returns that, and how many requests were answered before hyper.
fn served<C: AsyncFnOnce(DuplexStream) -> R, R>(buffer: usize, client: C) -> (R, usize) {
    // Its clock passes once nothing else can happen.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let (stream, server) = duplex(buffer);
        let handler = Rc::new(PathHandler { plain: Cell::default() });
        let drain = std::future::pending::<()>();
        let slot = InterimSlot::default();
        let served = serve_intermediary(server, LIMITS, slot, &handler, drain);
        let both = async { tokio::join!(served, client(stream)) };
        let both = tokio::time::timeout(Duration::from_secs(60), both).await;
        let (served, done) = both.expect("neither side waits for the other");
        served.expect("sound requests");
        (done, handler.plain.get())
    })
}

/// The bodies of the responses to these requests, sent in pieces of these lengths.
fn bodies(requests: &[String], pieces: &[usize], buffer: usize) -> Vec<String> {
    let (bodies, _) = served(buffer, async |client| {
        let (mut from, mut to) = tokio::io::split(client);
        let write = async {
            let bytes = requests.concat().into_bytes();
            let (mut rest, mut lengths) = (&*bytes, pieces.iter().cycle());
            while !rest.is_empty() {
                let length = (*lengths.next().expect("there are some")).min(rest.len());
                let (piece, more) = rest.split_at(length);
                to.write_all(piece).await.expect("an open connection");
                tokio::task::yield_now().await;
                rest = more;
            }
        };
        let read = async {
            let (mut received, mut bodies) = (Vec::new(), Vec::new());
            while bodies.len() < requests.len() {
                let length = from.read_buf(&mut received).await.expect("an open connection");
                assert!(0 < length, "it ended after {bodies:?}");
                while let Some((body, length)) = first_body(&received) {
                    bodies.push(body);
                    received.drain(..length);
                }
            }
            assert!(received.is_empty(), "more than was asked for");
            bodies
        };
        tokio::join!(write, read).1
    });
    bodies
}

/// The body of the first response, and the response's length. None if it is not whole.
fn first_body(received: &[u8]) -> Option<(String, usize)> {
    let text = str::from_utf8(received).expect("text");
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let (_, length) = head.split_once("content-length: ").expect("a length");
    let length = length.lines().next().expect("a line").parse().expect("a number");
    Some((rest.get(..length)?.to_owned(), head.len() + 4 + length))
}

/// A request for a path: GET, plain or not, with a body of a length, or in chunks.
fn request(kind: u8, number: usize) -> (String, String) {
    let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    let post = |path: &str, rest: &str| format!("POST {path} HTTP/1.1\r\nhost: a\r\n{rest}");
    // A body that would be a request of its own.
    let body = "GET /p-body HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = body.len();
    let sized = format!("content-length: {length}\r\n\r\n{body}");
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
    let path = match kind {
        0..=3 => format!("/p{number}"),
        4..=5 => format!("/hyper{number}"),
        6..=9 => format!("/read{number}"),
        _ => format!("/left{number}"),
    };
    let text = match kind {
        0..=2 | 4 => get(&path, ""),
        3 | 5 => get(&path, "pragma: x\r\n"),
        6 | 7 | 10 => post(&path, &sized),
        _ => post(&path, &chunked),
    };
    (path, text)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn responses_come_in_the_order_of_their_requests(
        kinds in prop::collection::vec(0_u8..10, 1..12),
        pieces in prop::collection::vec(1_usize..200, 1..6),
        buffer in 1_usize..300,
    ) {
        let requests = kinds.iter().enumerate().map(|(number, kind)| request(*kind, number));
        let (paths, texts): (Vec<_>, Vec<_>) = requests.unzip();
        prop_assert_eq!(bodies(&texts, &pieces, buffer), paths);
    }
}

#[test]
fn plain_requests_are_answered_at_once_after_others_too() {
    let kinds = [0, 6, 0, 5, 1, 10, 2, 11, 0, 4];
    let requests: Vec<_> = kinds.iter().enumerate().map(|(at, kind)| request(*kind, at)).collect();
    let ((), plain) = served(1 << 16, async |mut client| {
        for (path, text) in &requests {
            client.write_all(text.as_bytes()).await.expect("an open connection");
            let mut received = String::new();
            while !received.ends_with(path) {
                let mut piece = [0; 256];
                let length = client.read(&mut piece).await.expect("an open connection");
                received += str::from_utf8(&piece[..length]).expect("text");
            }
        }
    });
    assert_eq!(plain, 5);
}

#[test]
fn hyper_ends_a_connection_whose_body_it_leaves() {
    let half = "GET /p-half HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = half.len();
    // Two chunks, which hyper reads one at a time.
    let chunks = format!("{length:x}\r\n{half}\r\n{length:x}\r\n{half}\r\n0\r\n\r\n");
    let head = "POST /left-now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let (received, plain) = served(1 << 16, async |mut client| {
        client.write_all(format!("{head}{chunks}").as_bytes()).await.expect("an open connection");
        let mut received = String::new();
        client.read_to_string(&mut received).await.expect("text");
        received
    });
    assert!(received.ends_with("/left-now"), "{received}");
    assert_eq!(plain, 0);
}

/// Sends only what is flushed, as TLS may, and lingers before it closes.
struct FlushedStream {
    stream: DuplexStream,
    held: Vec<u8>,
    lingers: bool,
}

impl AsyncRead for FlushedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for FlushedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.held.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, held, .. } = &mut *self;
        while !held.is_empty() {
            let sent = ready!(Pin::new(&mut *stream).poll_write(cx, held))?;
            held.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.lingers) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[test]
fn what_a_stream_holds_back_is_flushed() {
    let handler = Rc::new(PathHandler { plain: Cell::default() });
    let (mut client, stream) = duplex(32);
    let server = FlushedStream { stream, held: Vec::new(), lingers: false };
    let mut plain = PlainFirst::new(server, LIMITS, handler, MadeResponses::default());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let text = request(0, 1).1;
        let ask = async {
            client.write_all(text.as_bytes()).await.expect("an open connection");
            let mut received = String::new();
            while !received.ends_with("/p1") {
                let mut piece = [0; 16];
                let length = client.read(&mut piece).await.expect("an open connection");
                received += str::from_utf8(&piece[..length]).expect("text");
            }
        };
        let mut into = [0; 64];
        let asked = tokio::time::timeout(Duration::from_secs(60), async {
            tokio::select! {
                biased;
                read = plain.read(&mut into) => panic!("hyper gets {read:?}"),
                () = ask => (),
            }
        });
        asked.await.expect("the response comes");
    });
}

#[test]
fn hyper_closes_a_stream_that_lingers() {
    let handler = Rc::new(PathHandler { plain: Cell::default() });
    let (mut client, stream) = duplex(1 << 10);
    let server = FlushedStream { stream, held: Vec::new(), lingers: true };
    let drain = std::future::pending::<()>();
    let served = serve_intermediary(server, LIMITS, InterimSlot::default(), &handler, drain);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let text = "GET /p HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(text.as_bytes()).await.expect("an open connection");
        // The client does not close: only the server can end it.
        let ended = tokio::time::timeout(Duration::from_secs(60), served).await;
        ended.expect("it closes").expect("a sound request");
    });
}

#[test]
fn a_drain_ends_a_connection_between_plain_requests() {
    let handler = Rc::new(PathHandler { plain: Cell::default() });
    let (mut client, server) = duplex(1 << 10);
    let (begin_drain, drain) = tokio::sync::oneshot::channel::<()>();
    let drain = async { drain.await.expect("the client begins it") };
    let served = serve_intermediary(server, LIMITS, InterimSlot::default(), &handler, drain);
    let ask = async {
        let text = request(0, 1).1;
        client.write_all(text.as_bytes()).await.expect("an open connection");
        let mut received = [0; 64];
        let length = client.read(&mut received).await.expect("an open connection");
        assert!(received[..length].ends_with(b"/p1"));
        begin_drain.send(()).expect("it is served");
        assert_eq!(client.read(&mut received).await.expect("an orderly end"), 0);
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let both = async { tokio::join!(served, ask).0 };
        let both = tokio::time::timeout(Duration::from_secs(60), both).await;
        both.expect("it ends").expect("a sound request");
    });
}

#[test]
fn a_client_that_does_not_read_gets_all_later() {
    let paths: Vec<_> = (0..50).map(|at| format!("/p{at}")).collect();
    let texts: Vec<_> = (0..50).map(|at| request(0, at).1).collect();
    assert_eq!(bodies(&texts, &[usize::MAX], 7), paths);
}
