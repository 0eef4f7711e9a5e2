//! Posts to the collector: one connection for each batch, over TLS if the endpoint is `https`.
//!
//! It must not know what is posted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::TracingOptions;
use crate::config::HttpUrl;

/// Most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("an answer that cannot be read: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
}

/// The collector, as it is reached.
pub(super) struct Client {
    endpoint: HttpUrl,
    headers: HeaderMap,
    timeout: Duration,
    tls: Option<TlsConnector>,
}

impl Client {
    /// Of these options all but what is traced matters.
    pub(super) fn new(options: &TracingOptions) -> Self {
        let endpoint = options.endpoint.clone();
        let mut headers = options.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let host = HeaderValue::try_from(endpoint.authority());
        headers.insert(HOST, host.expect("a URL's host and port are a header's value"));
        let tls = endpoint.secure.then(tls);
        Self { endpoint, headers, timeout: options.timeout, tls }
    }

    /// Posts `body`: the answer's status and its own body.
    ///
    /// # Errors
    ///
    /// When there is no answer in time.
    pub(super) async fn post(&self, body: Bytes) -> Result<(StatusCode, Bytes), PostError> {
        let posted = tokio::time::timeout(self.timeout, self.connect_and_post(body)).await;
        posted.unwrap_or(Err(PostError::Timeout(self.timeout)))
    }

    async fn connect_and_post(&self, body: Bytes) -> Result<(StatusCode, Bytes), PostError> {
        let HttpUrl { host, port, .. } = &self.endpoint;
        let socket = TcpStream::connect((host.as_str(), *port)).await?;
        let Some(tls) = &self.tls else { return self.post_on(socket, body).await };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = ServerName::try_from(host.clone()).map_err(invalid)?;
        self.post_on(tls.connect(name, socket).await?, body).await
    }

    async fn post_on<S>(&self, stream: S, body: Bytes) -> Result<(StatusCode, Bytes), PostError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::post(&self.endpoint.path)
            .body(Full::new(body))
            .expect("the path of a URL that was parsed is one");
        *request.headers_mut() = self.headers.clone();
        let exchange = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            Ok((status, body.map_err(PostError::Answer)?.to_bytes()))
        };
        let mut exchange = std::pin::pin!(exchange);
        // The exchange goes on only as the connection is driven, and may need it no more at its end.
        tokio::select! {
            answered = exchange.as_mut() => answered,
            ended = connection => {
                ended?;
                exchange.await
            }
        }
    }
}

fn tls() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
