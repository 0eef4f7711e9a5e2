//! A server and the client of the `h2` crate: whatever is asked, with whatever settings, each request
//! arrives whole and gets its own answer whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, SendRequest};
use hyper::{HeaderMap, Request};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use testbed::server::{
    self, ConnectionCounters, ServerBehaviour, ServerOptions, ServerRequest, ServerSchedule,
    ServiceReply, SimulatedService,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::Backwards;

/// Answers with the fields and the body of the request, and with text of its own.
struct MirrorResponder(Arc<ConnectionCounters>);

impl SimulatedService for MirrorResponder {
    type Fault = Backwards;
    type Change = ();

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        let number = |name| {
            let text = request.field(name).expect("each request has it");
            text.parse::<usize>().expect("it is a number")
        };
        let own = text(number("x-index"), number("x-own"));
        let body = [request.fields, b"\r\n", request.body, &own].concat();
        match number("x-chunk") {
            0 => out.extend(server::whole_answer(&body)),
            chunk => {
                out.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(chunk) {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
            }
        }
        ServiceReply::Whole(Duration::from_millis(number("x-delay-ms") as u64))
    }

    fn behave(&mut self, _: &ServerBehaviour<Backwards>) {}

    fn change(&mut self, (): ()) {}

    fn connections(&self) -> &ConnectionCounters {
        &self.0
    }
}

/// Text that shows where each of its pieces belongs.
fn text(index: usize, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 20);
    while text.len() < length {
        text.extend_from_slice(format!("{index}.{} ", text.len()).as_bytes());
    }
    text.truncate(length);
    text
}

/// A request, and what its answer is to be like.
#[derive(Clone, Debug)]
struct RequestCase {
    fields: Vec<(String, String)>,
    /// Bytes of each piece of the body that is handed to the client.
    pieces: Vec<usize>,
    has_trailers: bool,
    /// Whether it is cancelled as soon as it is sent.
    is_cancelled: bool,
    /// Bytes that the answer has besides the request's.
    own: usize,
    /// Bytes of each chunk of the answer. 0 makes it whole.
    chunk: usize,
    delay_ms: u64,
}

fn request_case() -> impl Strategy<Value = RequestCase> {
    let length = || prop_oneof![4 => 0..300usize, 2 => 0..20_000usize, 1 => 0..100_000usize];
    // Names that the static table has, and others; repeated fields are indexed.
    let name = prop_oneof!["x-[a-f]{1,3}", Just("accept".to_owned()), Just("via".to_owned())];
    let value = prop_oneof!["[ -~]{0,40}", "[a-c]{1,2}", "[a-z]{600}"];
    let value = value.prop_map(|text| text.trim().to_owned());
    let pieces = prop_oneof![3 => vec(length(), 0..2), 1 => vec(0..2_000usize, 2..10)];
    let chunk = prop_oneof![2 => Just(0), 1 => 200..20_000usize];
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let request = (vec((name, value), 0..6), pieces, flags);
    (request, length(), chunk, 0..4u64).prop_map(|(request, own, chunk, delay_ms)| {
        let (fields, pieces, (has_trailers, is_cancelled)) = request;
        RequestCase { fields, pieces, has_trailers, is_cancelled, own, chunk, delay_ms }
    })
}

/// The client's settings, and how it sends.
#[derive(Clone, Debug)]
struct ClientCase {
    stream_window: u32,
    window: u32,
    frame_bytes: u32,
    table: u32,
    head_bytes: Option<u32>,
    in_flight: usize,
    /// Most bytes that it writes to its socket at once.
    write_bytes: usize,
}

fn client_case() -> impl Strategy<Value = ClientCase> {
    let stream_window = prop_oneof![300..3_000u32, Just(65_535), Just(1 << 20)];
    let window = prop_oneof![Just(65_535u32), 65_535..1_000_000u32];
    let frame_bytes = prop_oneof![Just(16_384u32), 16_384..1u32 << 24];
    let table = prop_oneof![Just(0u32), Just(40), Just(200), Just(4_096), Just(65_536)];
    let head_bytes = option::of(20_000..100_000u32);
    let write_bytes = prop_oneof![20..300usize, Just(usize::MAX)];
    let windows = (stream_window, window);
    (windows, frame_bytes, table, head_bytes, 1..40usize, write_bytes).prop_map(
        |((stream_window, window), frame_bytes, table, head_bytes, in_flight, write_bytes)| {
            ClientCase {
                stream_window,
                window,
                frame_bytes,
                table,
                head_bytes,
                in_flight,
                write_bytes,
            }
        },
    )
}

/// A socket that is written to in pieces.
struct CutSocket {
    socket: TcpStream,
    write_bytes: usize,
}

impl AsyncRead for CutSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CutSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.write_bytes);
        Pin::new(&mut self.socket).poll_write(cx, &bytes[..count])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl RequestCase {
    fn head(&self, index: usize) -> Request<()> {
        let own = [
            ("x-index", index),
            ("x-own", self.own),
            ("x-chunk", self.chunk),
            ("x-delay-ms", usize::try_from(self.delay_ms).expect("it is small")),
        ];
        let mut request = Request::post("http://server.test/mirror");
        for (name, value) in own {
            request = request.header(name, value);
        }
        for (name, value) in &self.fields {
            request = request.header(name, value);
        }
        request.body(()).expect("a request")
    }

    fn body(&self, index: usize) -> Vec<u8> {
        text(index, self.pieces.iter().sum())
    }

    /// Checks an answer: the lines of the fields in any order, the body, and the server's own text.
    fn check(&self, index: usize, answer: &[u8]) {
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, rest) = answer.split_at(end.expect("the fields come first") + 4);
        let mut lines: Vec<_> = str::from_utf8(head).expect("text").lines().collect();
        let request = self.head(index);
        let of = |value: &hyper::header::HeaderValue| value.to_str().expect("text").to_owned();
        let fields = request.headers().iter();
        let mut want: Vec<_> =
            fields.map(|(name, value)| format!("{name}: {}", of(value))).collect();
        want.extend(["host: server.test".to_owned(), String::new()]);
        lines.sort_unstable();
        want.sort_unstable();
        assert_eq!(lines, want);
        let want = [self.body(index), text(index, self.own)].concat();
        assert!(rest == want, "{index}: {} bytes, not {}", rest.len(), want.len());
    }

    /// Sends the request and checks its answer.
    async fn perform(self, index: usize, sender: SendRequest<Bytes>) {
        let mut sender = sender.ready().await.expect("the connection is open");
        let body = Bytes::from(self.body(index));
        let is_bare = self.pieces.is_empty() && !self.has_trailers;
        let sent = sender.send_request(self.head(index), is_bare);
        let (response, mut stream) = sent.expect("it is sent");
        let mut begin = 0;
        for (place, piece) in self.pieces.iter().enumerate() {
            let is_last = place + 1 == self.pieces.len() && !self.has_trailers;
            let data = body.slice(begin..begin + piece);
            stream.send_data(data, is_last).expect("it is sent");
            begin += piece;
            tokio::task::yield_now().await;
        }
        if self.has_trailers {
            let mut fields = HeaderMap::new();
            fields.insert("x-sum", "1".parse().expect("it is valid"));
            stream.send_trailers(fields).expect("they are sent");
        }
        if self.is_cancelled {
            return stream.send_reset(Reason::CANCEL);
        }
        let response = response.await.expect("an answer");
        assert_eq!(response.status(), 200);
        let length = response.headers().get("content-length").cloned();
        let (mut body, mut answer) = (response.into_body(), Vec::new());
        while let Some(data) = body.data().await {
            let data = data.expect("the body arrives");
            body.flow_control().release_capacity(data.len()).expect("it was taken");
            answer.extend_from_slice(&data);
        }
        assert_eq!(length.is_some(), self.chunk == 0);
        if let Some(length) = length {
            assert_eq!(length, answer.len().to_string());
        }
        self.check(index, &answer);
    }
}

async fn perform_all(socket: TcpStream, client: &ClientCase, cases: Vec<RequestCase>) {
    let socket = CutSocket { socket, write_bytes: client.write_bytes };
    let mut builder = Builder::new();
    builder
        .initial_window_size(client.stream_window)
        .initial_connection_window_size(client.window)
        .max_frame_size(client.frame_bytes)
        .header_table_size(client.table);
    if let Some(bytes) = client.head_bytes {
        builder.max_header_list_size(bytes);
    }
    let (sender, connection) = builder.handshake(socket).await.expect("a handshake");
    let connection = tokio::spawn(connection);
    let in_flight = Arc::new(Semaphore::new(client.in_flight));
    let perform = |(index, case): (usize, RequestCase)| {
        let (sender, in_flight) = (sender.clone(), Arc::clone(&in_flight));
        tokio::spawn(async move {
            let _permit = in_flight.acquire().await.expect("it is open");
            case.perform(index, sender).await;
        })
    };
    let tasks: Vec<_> = cases.into_iter().enumerate().map(perform).collect();
    for task in tasks {
        task.await.expect("its answer is right");
    }
    drop(sender);
    connection.await.expect("it does not panic").expect("an orderly end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_h2_asks_is_answered_whole(cases in vec(request_case(), 1..40), client in client_case()) {
        let counters = Arc::new(ConnectionCounters::default());
        let responder = |_, _: &str| MirrorResponder(Arc::clone(&counters));
        let options = ServerOptions::default();
        let servers = server::start(&options, vec![ServerSchedule::default()], responder)
            .expect("a server");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let socket = TcpStream::connect(servers.addresses()[0]).await.expect("it listens");
            socket.set_nodelay(true).expect("a socket option");
            perform_all(socket, &client, cases).await;
        });
        servers.stop().expect("an orderly end");
        prop_assert_eq!((counters.refused.read(), counters.malformed.read()), (0, 0));
    }
}
