//! The keys of `[tracing]`.

use std::time::Duration;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use units::Ppm;

use crate::config::{HttpUrl, Required, Secret, Section};

/// Header fields that the exporter writes itself.
const OWN_HEADERS: [HeaderName; 5] =
    [HOST, CONTENT_TYPE, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

/// What is traced, and where traces are sent.
#[derive(Clone, Debug)]
pub struct TracingOptions {
    /// URL of the collector.
    pub endpoint: HttpUrl,
    /// The share of work that is traced.
    pub sample: Ppm,
    /// Whether callers may ask for more traces.
    pub callers: bool,
    /// Name of this process in traces.
    pub service_name: String,
    /// Extra header fields of every request; their values are secrets.
    pub headers: HeaderMap,
    /// Longest attempt to send a batch.
    pub timeout: Duration,
}

/// Longest attempt to send a batch, as the OTLP exporter specification has it.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

impl TracingOptions {
    /// Declares and reads the keys of `[tracing]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        let endpoint = s.url(
            "endpoint",
            Required("http://127.0.0.1:4318/v1/traces"),
            "URL of the OpenTelemetry collector (OTLP over HTTP, protobuf).",
        );
        let headers = s.secret_map(
            "headers",
            &[("authorization", "env:OTLP_AUTHORIZATION")],
            header,
            "Extra header fields for every request to the collector. Their values are secrets.",
        );
        Self {
            endpoint,
            sample: s.ppm("sample", "0.1%", "Share of auctions to trace."),
            callers: s.boolean(
                "callers",
                true,
                "Whether to also trace every auction whose `traceparent` has the sampled flag. \
                 Such a trace continues the caller's.",
            ),
            service_name: s.text(
                "service_name",
                "vickrey",
                "Name of this process in traces (`service.name`).",
            ),
            headers: headers.into_iter().collect(),
            timeout: ATTEMPT_MAX,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `secret_map` asks for")]
fn header(name: &str, value: Secret) -> Result<(HeaderName, HeaderValue), String> {
    let parsed =
        HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header name"))?;
    if OWN_HEADERS.contains(&parsed) {
        return Err("is written by the exporter itself, remove it".to_owned());
    }
    let mut value =
        HeaderValue::try_from(value.expose()).map_err(|_| "is not a header value".to_owned())?;
    value.set_sensitive(true);
    Ok((parsed, value))
}
