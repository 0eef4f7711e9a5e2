//! Callers and DSPs that we did not write: hyper's client and server, curl, Go's server, and nghttpd.

mod go;
mod nghttpd;

use std::convert::Infallible;
use std::io::Write as _;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

use crate::fixtures::{Dsp, Host, ID, Running, Setup, banner, bid, bids};
use crate::notices::{RecordDir, beacons, bid_at, dsp};

/// Responds in chunks, as hyper does with a body of unknown length.
async fn bid_on(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    assert_eq!(request.headers()["x-openrtb-version"], "2.6");
    let body = request.into_body().collect().await.expect("a whole body").to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    Ok(Response::new(bids(&bid("1.50")).replace(ID, json["id"].as_str().expect("an id"))))
}

/// Serves connections of a DSP until the runtime ends.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let service = service_fn(bid_on);
            let server = hyper::server::conn::http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[test]
fn hyper_on_both_sides() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let dsps = [(listener.local_addr().expect("an address"), "")];
    runtime.spawn(serve(listener));
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    runtime.block_on(async {
        let stream = TcpStream::connect(exchange.address).await.expect("it listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = tokio::spawn(connection);
        for auction in 0..20 {
            let body = banner("").replace("caller-1", &format!("caller-{auction}"));
            let request = Request::post("/openrtb2/auction")
                .header("host", "exchange")
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body)))
                .expect("a request");
            sender.ready().await.expect("the connection is kept");
            let response = sender.send_request(request).await.expect("an answer");
            assert_eq!(response.status(), 200);
            let body = response.into_body().collect().await.expect("a whole body").to_bytes();
            let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!(json["id"], format!("caller-{auction}"));
            assert_eq!(json["seatbid"][0]["bid"][0]["price"].to_string(), "1.5");
        }
        drop(sender);
        let _ = connection.await;
    });
    assert_eq!(exchange.open(0), 1, "all on one connection");
}

/// Serves connections over HTTP/2 until the runtime ends.
async fn serve_http2(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let service = service_fn(bid_on);
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[test]
fn hyper_as_a_dsp_over_http2() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let dsps = [(listener.local_addr().expect("an address"), "http = \"2\"")];
    runtime.spawn(serve_http2(listener));
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    for more in ["".to_owned(), format!(r#","site":{{"ref":"{}"}}"#, "x".repeat(50_000))] {
        for _ in 0..20 {
            assert_eq!(exchange.auction(&banner(&more)).price(), "1.5");
        }
    }
    assert_eq!(exchange.open(0), 1, "all on one connection");
}

/// Twenty auctions at a time on one connection without TLS.
#[test]
fn hyper_as_a_caller_over_http2() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let dsp = Dsp::bidding("1.50");
    let exchange = Running::with(&[&dsp]);
    runtime.block_on(async {
        let stream = TcpStream::connect(exchange.address).await.expect("it listens");
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let auctions = (0..20).map(|auction| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let body = banner("").replace("caller-1", &format!("caller-{auction}"));
                let request = Request::post("http://exchange/openrtb2/auction")
                    .header("content-type", "application/json")
                    .body(Full::new(Bytes::from(body)))
                    .expect("a request");
                let response = sender.send_request(request).await.expect("an answer");
                assert_eq!(response.status(), 200);
                let body = response.into_body().collect().await.expect("a whole body").to_bytes();
                let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!(json["id"], format!("caller-{auction}"));
            })
        });
        for auction in auctions.collect::<Vec<_>>() {
            auction.await.expect("it is right");
        }
        drop(sender);
        let _ = connection.await;
    });
    assert_eq!(exchange.scraped("connections_accepted_total"), "1");
}

/// Posts with curl; returns status and body.
fn curl(exchange: &Running, options: &[&str], body: &[u8]) -> Option<(String, String)> {
    let url = format!("http://{}/openrtb2/auction", exchange.address);
    let mut child = Command::new("curl")
        .args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "--data-binary", "@-"])
        .args(options)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().expect("a pipe").write_all(body).expect("curl reads");
    let output = child.wait_with_output().expect("curl ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (body, status) = text.rsplit_once('\n').expect("a status");
    Some((status.to_owned(), body.to_owned()))
}

#[test]
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn curl_is_answered() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is not on the PATH");
        return;
    }
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let json = ["-H", "content-type: application/json"];
    let (status, body) = curl(&exchange, &json, banner("").as_bytes()).expect("curl runs");
    assert_eq!(status, "200", "{body}");
    assert!(body.contains(r#""id":"caller-1""#), "{body}");
    let form = curl(&exchange, &[], banner("").as_bytes()).expect("curl runs");
    assert_eq!(form.0, "415", "curl's default type");
    // It is refused while curl still sends it.
    let large = banner(&format!(r#","ext":"{}""#, "x".repeat(300 * 1024)));
    let too_large = curl(&exchange, &json, large.as_bytes()).expect("curl runs");
    assert_eq!(too_large.0, "413");
    let chunked = ["-H", "content-type: text/plain", "-H", "transfer-encoding: chunked"];
    let (status, _) = curl(&exchange, &chunked, banner("").as_bytes()).expect("curl runs");
    assert_eq!(status, "200");
}

#[test]
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn curl_calls_a_beacon() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is not on the PATH");
        return;
    }
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", serde_json::json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner]);
    let json = ["-H", "content-type: application/json"];
    let (status, body) = curl(&exchange, &json, banner("").as_bytes()).expect("curl runs");
    assert_eq!(status, "200", "{body}");
    let [beacon] = &beacons(&exchange, &body)[..] else { panic!("one beacon in {body}") };
    let url = format!("http://{}{beacon}", exchange.address);
    let called = |url: &str| {
        let told = "%{http_code} %{content_type} %{size_download}";
        let output = Command::new("curl").args(["-sS", "-o", "-", "-w", told, url]).output();
        output.expect("curl runs").stdout
    };
    let answer = called(&url);
    assert!(answer.starts_with(b"GIF89a"), "{answer:?}");
    assert!(answer.ends_with(b"200 image/gif 43"), "{answer:?}");
    assert!(host.call("/a/bill").head.contains("user-agent: curl/"), "who called is told");
    assert_eq!(called(&format!("{url}A")), b"404 text/plain 0");
}
