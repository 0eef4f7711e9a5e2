//! Serves the requests of one connection, over HTTP/1.1 or HTTP/2, to its end. It must not know the
//! origin of the connection, nor its idle limits: the caller enforces them.

pub mod page;

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::head::HeadLimits;
use crate::interim::{InterimSlot, WithInterim};
use crate::plain::{MadeResponses, PlainFirst, PlainHandler};

/// An error of a connection or a body.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Most concurrent requests of one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;

/// Answers the requests of one connection.
pub trait HttpHandler: 'static {
    /// Response body. It is streamed as fast as the client reads.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static;

    /// Answers a request, whose body arrives as a stream.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>>;
}

/// Serves HTTP/1.1 until the connection ends or, once `drain` completes, has no request under way.
///
/// # Errors
/// If the client violates the protocol or the connection fails.
pub async fn serve_http1<S, H>(
    stream: S,
    limits: HeadLimits,
    handler: &Rc<H>,
    drain: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: HttpHandler,
{
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(handler.answer(request).await) });
    let mut connection =
        pin!(http1_builder(limits).serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        served = connection.as_mut() => served,
        () = drain => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// Like [`serve_http1`], for a cache or another intermediary (RFC 9110, section 3.7): plain GETs may
/// be answered before hyper sees them, messages with two framings are refused, and what comes into
/// `interim` is sent.
///
/// # Errors
/// If the client violates the protocol or the connection fails.
pub async fn serve_intermediary<S, H>(
    stream: S,
    limits: HeadLimits,
    interim: InterimSlot,
    handler: &Rc<H>,
    drain: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: HttpHandler + PlainHandler,
{
    let made = MadeResponses::default();
    let plain = PlainFirst::new(stream, limits, Rc::clone(handler), made.clone());
    let stream = TokioIo::new(WithInterim::new(plain.clone(), interim));
    let service = service_fn(|request| async {
        let response = handler.answer(request).await;
        let count = |body| CountedBody { body, made: made.clone() };
        Ok::<_, Infallible>(response.map(count))
    });
    let mut connection = pin!(http1_builder(limits).serve_connection(stream, service));
    let mut drain = pin!(drain);
    let mut is_draining = false;
    std::future::poll_fn(|cx| {
        if !is_draining && drain.as_mut().poll(cx).is_ready() {
            is_draining = true;
            plain.stop();
            connection.as_mut().graceful_shutdown();
        }
        ready!(plain.poll_plain(cx));
        connection.as_mut().poll(cx)
    })
    .await
}

/// A body that counts its response once hyper needs it no more.
struct CountedBody<B> {
    body: B,
    made: MadeResponses,
}

impl<B> Drop for CountedBody<B> {
    fn drop(&mut self) {
        self.made.count();
    }
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves HTTP/2 until the connection ends or, once `drain` completes, has no request under way.
/// Concurrent requests are answered concurrently, by local tasks of the calling thread.
///
/// # Errors
/// If the client violates the protocol or the connection fails.
pub async fn serve_http2<S, H>(
    stream: S,
    limits: HeadLimits,
    handler: &Rc<H>,
    drain: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    H: HttpHandler,
{
    let service = service_fn(|request| {
        let handler = Rc::clone(handler);
        async move { Ok::<_, Infallible>(handler.answer(request).await) }
    });
    let bytes_max = u32::try_from(limits.bytes_max).unwrap_or(u32::MAX);
    let mut connection = pin!(
        http2::Builder::new(LocalTasks)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(bytes_max)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        served = connection.as_mut() => served,
        () = drain => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// A connection that has switched to another protocol (RFC 9110, section 7.8).
pub struct Upgraded<S> {
    /// The connection.
    pub stream: S,
    /// Bytes of the new protocol that arrived with the request.
    pub read: Bytes,
}

type Upgrade<S> = Box<dyn FnOnce(Upgraded<S>) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Takes over the connection after the response to a request.
pub struct UpgradeSlot<S>(Rc<Cell<Option<Upgrade<S>>>>);

impl<S> Clone for UpgradeSlot<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S> Default for UpgradeSlot<S> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<S: 'static> UpgradeSlot<S> {
    /// After the 101 response, `run` owns the connection until it ends. After any other response
    /// the connection continues with HTTP, and `run` is dropped.
    pub fn set<F: Future<Output = ()> + 'static>(
        &self,
        run: impl FnOnce(Upgraded<S>) -> F + 'static,
    ) {
        self.0.set(Some(Box::new(move |upgraded| Box::pin(run(upgraded)))));
    }
}

/// Like [`serve_http1`], for requests that may upgrade the connection through `slot`.
///
/// # Errors
/// If the client violates the protocol or the connection fails.
pub async fn serve_upgradable<S, H>(
    stream: S,
    limits: HeadLimits,
    slot: &UpgradeSlot<S>,
    handler: &Rc<H>,
    drain: impl Future<Output = ()>,
) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    H: HttpHandler,
{
    let service = service_fn(|request| {
        let (handler, slot) = (Rc::clone(handler), slot.clone());
        Box::pin(async move {
            let response = handler.answer(request).await;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                slot.0.take();
            }
            Ok::<_, Infallible>(response)
        })
    });
    // What HTTP needs is freed before the other protocol begins.
    let Upgraded { mut stream, read } = Box::pin(async {
        let mut connection = http1_builder(limits).serve_connection(TokioIo::new(stream), service);
        let mut drain = pin!(drain);
        let mut is_draining = false;
        std::future::poll_fn(|cx| {
            if !is_draining && drain.as_mut().poll(cx).is_ready() {
                is_draining = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            connection.poll_without_shutdown(cx)
        })
        .await?;
        let parts = connection.into_parts();
        Ok::<_, BoxError>(Upgraded { stream: parts.io.into_inner(), read: parts.read_buf })
    })
    .await?;
    match slot.0.take() {
        Some(run) => run(Upgraded { stream, read }).await,
        None => stream.shutdown().await?,
    }
    Ok(())
}

fn http1_builder(limits: HeadLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // The caller has its own timeout: hyper's starts while the connection is idle.
    builder.header_read_timeout(None).max_headers(limits.fields_max).max_buf_size(limits.bytes_max);
    builder
}

/// Runs hyper's tasks on the connection's shard.
#[derive(Clone, Copy, Debug)]
struct LocalTasks;

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalTasks {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
