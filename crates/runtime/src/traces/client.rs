//! Posts to the collector. It must not know what is posted.

use std::sync::Arc;

use http_body_util::Full;
use http_kit::client::{AddressRule, ClientOptions, HttpClient, RequestError};
use http_kit::dns::SystemNames;
use http_kit::tls::client_config;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};

use super::options::TracingOptions;
use crate::config::secs;

const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(super) struct CollectorClient {
    uri: String,
    headers: HeaderMap,
    http: HttpClient,
}

impl CollectorClient {
    /// Must run within a runtime. Ignores the options about sampling.
    pub(super) fn new(options: &TracingOptions) -> Self {
        let endpoint = &options.endpoint;
        let scheme = if endpoint.secure { "https" } else { "http" };
        let uri = format!("{scheme}://{}{}", endpoint.authority(), endpoint.path);
        let mut headers = options.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let options = ClientOptions {
            timeout: options.timeout,
            idle_timeout: secs(30),
            idle_per_host_max: 1,
            connections_max: 2,
            addresses: AddressRule::Any,
            tls: Arc::new(client_config(None)),
        };
        Self { uri, headers, http: HttpClient::new(options, Arc::new(SystemNames::new())) }
    }

    /// Posts `body`; returns the status and body of the response. Fails without one in time.
    pub(super) async fn post(&self, body: Bytes) -> Result<(StatusCode, Bytes), RequestError> {
        let request = Request::post(&self.uri).body(Full::new(body));
        let mut request = request.expect("a URL that was parsed is a URI");
        *request.headers_mut() = self.headers.clone();
        let answer = self.http.request(request, ANSWER_BYTES_MAX).await?;
        Ok((answer.status(), answer.into_body()))
    }
}
