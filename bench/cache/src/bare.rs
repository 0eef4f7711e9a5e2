//! The least that hyper does for the answer of a hit: the same head and body as through a cache from a
//! simulated origin, made anew for each request, and nothing else.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Args;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, VIA,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use testbed::origin::ObjectBody;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::Say;

#[derive(Args)]
pub struct Options {
    /// Address for clients.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Bytes of the body.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// The path that its body is of, as a simulated origin's.
    #[arg(long, default_value = "/0")]
    path: String,
    /// Threads, which take connections in turn.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Serves until it is killed. Says its address first.
pub fn run(options: &Options, say: Say<'_>) -> Result<()> {
    let body = Bytes::from(ObjectBody::new(&options.path, None, options.bytes).to_bytes());
    let listener = TcpListener::bind(options.listen);
    let listener = listener.with_context(|| format!("listening on {}", options.listen))?;
    say(&json!({ "listening": listener.local_addr()? }))?;
    let threads: Vec<_> = (0..options.threads.max(1)).map(|_| serving(body.clone())).collect();
    for (at, stream) in listener.incoming().enumerate() {
        threads[at % threads.len()].send(stream?).context("a thread has ended")?;
    }
    Ok(())
}

/// A thread that serves the connections that are sent to it.
fn serving(body: Bytes) -> UnboundedSender<TcpStream> {
    let (sender, mut streams) = unbounded_channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(tokio::task::LocalSet::new().run_until(async {
            while let Some(stream) = streams.recv().await {
                tokio::task::spawn_local(serve(stream, body.clone()));
            }
            Ok(())
        }))
    });
    sender
}

async fn serve(stream: TcpStream, body: Bytes) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
    let service = service_fn(|_: Request<Incoming>| {
        let response = answer(body.clone());
        async { Ok::<_, Infallible>(response) }
    });
    // The client ends it.
    let _ended = http1::Builder::new().serve_connection(stream, service).await;
    Ok(())
}

/// The fields of a hit, with a date by hyper.
fn answer(body: Bytes) -> Response<Full<Bytes>> {
    let length = body.len();
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("text/plain"));
    headers.insert(CACHE_CONTROL, text("max-age=86400"));
    headers.insert(ETAG, text("\"0123456789abcdef-1024\""));
    headers.insert(CONTENT_LENGTH, length.into());
    headers.insert(AGE, 17.into());
    headers.insert(VIA, text("1.1 vickrey"));
    headers.insert(HeaderName::from_static("cache-status"), text("vickrey; hit; ttl=86383"));
    response
}
