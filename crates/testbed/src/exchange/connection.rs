//! One kept-alive connection to the target, opened on first use and again after a failure. Knows
//! HTTP, but neither when to send nor what the answer means.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::load::CallFailure;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where requests go.
#[derive(Clone, Debug)]
pub(super) struct AuctionEndpoint {
    pub(super) address: SocketAddr,
    pub(super) host: String,
    /// Path and query.
    pub(super) path: Uri,
}

/// A connection, open or not.
#[derive(Debug, Default)]
pub struct HttpConnection {
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl HttpConnection {
    /// Connects before the first request.
    pub(super) async fn open(&mut self, target: &AuctionEndpoint) -> Result<(), CallFailure> {
        self.sender = Some(self.sender(target).await?);
        Ok(())
    }

    /// Sends `body` and waits for the whole answer. A caller that stops waiting drops the
    /// connection: a late answer must not be taken for the next request's.
    pub(super) async fn post(
        &mut self,
        target: &AuctionEndpoint,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), CallFailure> {
        let request = Request::post(target.path.clone())
            .header(header::HOST, &target.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-openrtb-version", "2.6")
            .body(Full::new(body));
        self.send(target, request).await
    }

    /// Calls another path of the target, under the same rule.
    pub(super) async fn get(
        &mut self,
        target: &AuctionEndpoint,
        path: &str,
    ) -> Result<(StatusCode, Bytes), CallFailure> {
        let request = Request::get(path).header(header::HOST, &target.host);
        self.send(target, request.body(Full::default())).await
    }

    async fn send(
        &mut self,
        target: &AuctionEndpoint,
        request: Result<Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<(StatusCode, Bytes), CallFailure> {
        let request = request.map_err(|error| CallFailure::Unconnected(error.to_string()))?;
        let mut sender = self.sender(target).await?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| CallFailure::Broken(error.to_string()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| CallFailure::Broken(error.to_string()))?.to_bytes();
        self.sender = Some(sender);
        Ok((status, body))
    }

    /// The open connection, or a new one. Taken out of `self`, so it is gone if the call fails.
    async fn sender(
        &mut self,
        target: &AuctionEndpoint,
    ) -> Result<SendRequest<Full<Bytes>>, CallFailure> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let connected = async {
            let stream = TcpStream::connect(target.address).await?;
            stream.set_nodelay(true)?;
            std::io::Result::Ok(stream)
        };
        let stream =
            connected.await.map_err(|error| CallFailure::Unconnected(error.to_string()))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| CallFailure::Unconnected(error.to_string()))?;
        // Its error also reaches the call that is waiting for it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(sender)
    }
}
