//! What a hit allocates, beside hyper alone with the same answer: counts, in a process without other
//! work.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use ::faults::process::isolated;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use stats_alloc::Region;

use super::fixtures::Proxy;
use crate::ALLOCATOR;

const REQUESTS: usize = 1_000;
/// One that is answered before hyper sees it, and one that is not.
const PLAIN: &str = "accept: */*";
const OTHER: &str = "pragma: x";
const BODY: &str = "a creative";

/// Allocations and reallocations of one request on a connection that has had others. The client does
/// not allocate.
fn allocations(address: SocketAddr, line: &str) -> f64 {
    let request = format!("GET /creative/17.png HTTP/1.1\r\nhost: cdn.example\r\n{line}\r\n\r\n");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut read = [0; 4_096];
    let mut ask = || {
        stream.write_all(request.as_bytes()).expect("an open connection");
        let mut length = 0;
        while !read[..length].ends_with(BODY.as_bytes()) {
            let count = stream.read(&mut read[length..]).expect("an answer");
            assert!(count > 0, "the connection ended");
            length += count;
        }
    };
    (0..100).for_each(|_| ask());
    let region = Region::new(ALLOCATOR);
    (0..REQUESTS).for_each(|_| ask());
    let change = region.change();
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let each = (change.allocations + change.reallocations) as f64 / REQUESTS as f64;
    each
}

/// The fields of a hit. Hyper adds the date.
const FIELDS: [(&str, &str); 6] = [
    ("content-type", "image/png"),
    ("cache-control", "max-age=600"),
    ("etag", "\"v1\""),
    ("age", "0"),
    ("via", "1.1 vickrey"),
    ("cache-status", "vickrey; hit; ttl=600"),
];

/// Hyper alone, with these fields made anew for each answer: its address.
fn bare_hyper() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    // It ends with the test's process.
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_nonblocking(true).expect("a socket option");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).expect("a socket"));
            let service = service_fn(|_: Request<Incoming>| async {
                let mut response = Response::new(Full::new(Bytes::from_static(BODY.as_bytes())));
                for (name, value) in FIELDS {
                    let value = HeaderValue::from_str(value).expect("text");
                    response.headers_mut().insert(HeaderName::from_static(name), value);
                }
                Ok::<_, Infallible>(response)
            });
            drop(http1::Builder::new().serve_connection(stream, service).await);
        });
    });
    address
}

#[test]
fn a_hit_allocates_nothing_or_no_more_than_hyper_with_the_same_fields() {
    isolated(|| {
        let bare = allocations(bare_hyper(), OTHER);
        let proxy = Proxy::start("");
        let head =
            "200 OK\r\ncontent-type: image/png\r\ncache-control: max-age=600\r\netag: \"v1\"\r\n";
        proxy.origin.answer(head, BODY);
        assert_eq!(proxy.get("/creative/17.png", &[]).text(), BODY);
        let [plain, other] = [PLAIN, OTHER].map(|line| allocations(proxy.address, line));
        assert_eq!(proxy.origin.received().len(), 1, "all were hits");
        // What ends on other threads meanwhile may allocate a little, but not for each hit.
        assert!(plain < 0.1, "a plain hit takes {plain} allocations");
        // Hyper's two for any request; the copy of head and body; the counter of who has a part of it.
        assert!(
            other <= bare && other < 4.1,
            "a hit takes {other} allocations, hyper alone {bare}"
        );
    });
}
