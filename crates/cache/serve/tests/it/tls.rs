//! The cache over TLS, to a client that speaks HTTP/2.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::channel;

use http_body_util::Full;
use http_kit::client::{AddressRule, ClientOptions, HttpClient};
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use hyper::body::Bytes;
use hyper::{Request, Response, Version};

use super::fixtures::{PATIENCE, Proxy};

/// A cache with a certificate of its own, and a client that trusts it.
pub struct TlsProxy {
    pub proxy: Proxy,
    /// PEM.
    pub certificate: String,
    client: HttpClient,
    runtime: tokio::runtime::Runtime,
}

impl TlsProxy {
    pub fn start() -> Self {
        Self::named("vickrey")
    }

    pub fn named(name: &str) -> Self {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let own = own.expect("a certificate");
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let tls = format!(
            "name = \"{name}\"\n[cache.tls]\ncertificate = \"\"\"{certificate}\"\"\"\nkey = \"\"\"{key}\"\"\"\n"
        );
        let proxy = Proxy::with(&tls, "host = \"localhost\"");
        let options = ClientOptions {
            timeout: PATIENCE,
            idle_timeout: PATIENCE,
            idle_per_host_max: 4,
            connections_max: 4,
            addresses: AddressRule::Any,
            tls: Arc::new(client_config(Some(&[own.cert.der().clone()]))),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = {
            let _within = runtime.enter();
            HttpClient::new(options, Arc::new(SystemNames::new()))
        };
        Self { proxy, certificate, client, runtime }
    }

    async fn ask(&self, method: &str, path: &str, field: Option<(&str, &str)>) -> Response<Bytes> {
        let url = format!("https://localhost:{}{path}", self.proxy.address.port());
        let mut request = Request::builder().method(method).uri(url);
        if let Some((name, value)) = field {
            request = request.header(name, value);
        }
        let request = request.body(Full::default()).expect("a request");
        let answer = self.client.request(request, 4 << 20).await.expect("an answer");
        assert_eq!(answer.version(), Version::HTTP_2);
        answer
    }

    fn get(&self, path: &str, field: Option<(&str, &str)>) -> Response<Bytes> {
        self.runtime.block_on(self.ask("GET", path, field))
    }
}

fn field<'a>(answer: &'a Response<Bytes>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[test]
fn http_2_gets_what_http_1_gets() {
    let tls = TlsProxy::start();
    let head =
        "200 OK\r\ncache-control: max-age=60\r\netag: \"v1\"\r\nconnection: x-own\r\nx-own: 1\r\n";
    tls.proxy.origin.answer(head, "0123456789");
    let miss = tls.get("/a", None);
    assert_eq!((miss.status().as_u16(), &**miss.body()), (200, &b"0123456789"[..]));
    assert_eq!(field(&miss, "cache-status"), "vickrey; fwd=uri-miss; fwd-status=200; stored");
    assert_eq!((field(&miss, "x-own"), field(&miss, "connection")), ("", ""));
    let hit = tls.get("/a", None);
    assert!(field(&hit, "cache-status").starts_with("vickrey; hit"), "{hit:?}");
    assert_eq!(&**hit.body(), b"0123456789");
    assert_eq!(tls.get("/a", Some(("if-none-match", "\"v1\""))).status(), 304);
    let part = tls.get("/a", Some(("range", "bytes=2-4")));
    assert_eq!((part.status().as_u16(), &**part.body()), (206, &b"234"[..]));
    assert_eq!(field(&part, "content-range"), "bytes 2-4/10");
    let head = tls.runtime.block_on(tls.ask("HEAD", "/a", None));
    assert_eq!((field(&head, "content-length"), head.body().len()), ("10", 0));
    // The origin sees HTTP/1.1, and a host.
    let asked = tls.proxy.origin.received().remove(0);
    let host = format!("localhost:{}", tls.proxy.address.port());
    assert_eq!(asked.field("host").as_deref(), Some(&*host));
    assert_eq!(asked.field("via").as_deref(), Some("2.0 vickrey"));
}

#[test]
fn streams_of_one_connection_share_a_fetch_of_a_large_body() {
    let tls = TlsProxy::start();
    let large = "x".repeat(2 << 20);
    let (release, released) = channel();
    let body = large.clone();
    tls.proxy.origin.script(move |_, stream| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncache-control: max-age=60\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        released.recv().unwrap();
        stream.write_all(body.as_bytes()).is_ok()
    });
    let asked = async {
        let one = || tls.ask("GET", "/large", None);
        let release = async {
            // All have asked before the body comes.
            tokio::task::yield_now().await;
            release.send(()).expect("the origin waits");
        };
        tokio::join!(one(), one(), one(), one(), release)
    };
    let (a, b, c, d, ()) = tls.runtime.block_on(asked);
    for answer in [a, b, c, d, tls.get("/large", None)] {
        assert!(answer.status() == 200 && **answer.body() == *large.as_bytes());
    }
    assert_eq!(tls.proxy.origin.received().len(), 1);
}

#[test]
fn an_origin_is_trusted_by_its_routes_own_authority() {
    // A cache is the origin of another.
    let origin = TlsProxy::named("nearer");
    origin.proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\n", "hello");
    let port = origin.proxy.address.port();
    let keys = format!(
        "origin_host = \"localhost\"\nca = \"\"\"{}\"\"\"\n[[cache.route]]\nid = \"untrusted\"\n\
         path = \"/untrusted\"\norigin = \"https://localhost:{port}\"",
        origin.certificate
    );
    let trusting = Proxy::before_url(&format!("https://localhost:{port}"), &keys);
    let answer = trusting.get("/a", &[]);
    assert_eq!((answer.status, answer.text()), (200, "hello"));
    let refused = trusting.get("/untrusted", &[]);
    assert_eq!(refused.status, 502);
    assert!(refused.text().contains("certificate"), "{}", refused.text());
}
