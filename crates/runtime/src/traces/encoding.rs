//! Traces as messages of OTLP 1.x. It must not know how they are sent.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use prost::Message as _;

use super::queue::{FinishedTrace, PlacedSpan};
use super::span::{SpanRole, SpanValue};

/// Bit 0 of the flags of W3C Trace Context.
const SAMPLED: u32 = 1;

/// One moment on both clocks: spans are measured on the first and exported on the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceClocks {
    pub(super) instant: Instant,
    pub(super) system: SystemTime,
}

impl TraceClocks {
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), system: SystemTime::now() }
    }

    fn unix_nanos(&self, moment: Instant) -> u64 {
        let since = self.system.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let unix = match moment.checked_duration_since(self.instant) {
            Some(later) => since.saturating_add(later),
            None => since.saturating_sub(self.instant.saturating_duration_since(moment)),
        };
        u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(super) fn request(service_name: &str, clocks: TraceClocks, traces: &[FinishedTrace]) -> Bytes {
    let spans = |trace: &FinishedTrace| {
        trace.spans.iter().map(|placed| span(trace, placed, clocks)).collect::<Vec<_>>()
    };
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![text("service.name", service_name), text("service.version", version)],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "vickrey".to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans {
        scope: Some(scope),
        spans: traces.iter().flat_map(spans).collect(),
        schema_url: String::new(),
    };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        schema_url: String::new(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec().into()
}

/// How many spans the collector's response rejects.
pub(super) fn rejected(answer: &[u8]) -> usize {
    // Ignore other content: the collector accepted the batch.
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    usize::try_from(rejected).unwrap_or(0)
}

fn span(trace: &FinishedTrace, placed: &PlacedSpan, clocks: TraceClocks) -> Span {
    let measured = &placed.span;
    let above = placed.parent.or(trace.caller);
    let is_remote = placed.parent.is_none() && trace.caller.is_some();
    let mut flags = SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32;
    if is_remote {
        flags |= SpanFlags::ContextIsRemoteMask as u32;
    }
    let kind = match measured.kind {
        SpanRole::Internal => SpanKind::Internal,
        SpanRole::Server => SpanKind::Server,
        SpanRole::Client => SpanKind::Client,
    };
    let failed = Status { code: StatusCode::Error.into(), message: String::new() };
    Span {
        trace_id: trace.trace_id.to_be_bytes().to_vec(),
        span_id: placed.id.bytes().to_vec(),
        parent_span_id: above.map_or_else(Vec::new, |above| above.bytes().to_vec()),
        flags,
        name: measured.name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: clocks.unix_nanos(measured.start),
        end_time_unix_nano: clocks.unix_nanos(measured.end.max(measured.start)),
        attributes: measured.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        status: measured.failed.then_some(failed),
        ..Span::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, &value.into())
}

fn attribute(key: &str, value: &SpanValue) -> KeyValue {
    let value = match value {
        SpanValue::Text(text) => any_value::Value::StringValue(text.clone()),
        SpanValue::Integer(number) => any_value::Value::IntValue(*number),
        SpanValue::Boolean(value) => any_value::Value::BoolValue(*value),
    };
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
