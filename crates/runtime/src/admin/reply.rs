//! Responses of the admin listener: text, JSON, and errors of a single shape. It must not know the
//! routes.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Error codes for programs, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 421: the request is for a host that is not ours.
    MisdirectedRequest,
    /// 401: the bearer token is missing or wrong.
    Unauthorized,
    /// 404: no such resource.
    NotFound,
    /// 404: the configuration does not enable the part that the resource belongs to.
    NotConfigured,
    /// 405: the resource does not support this method; `allow` lists those it does.
    MethodNotAllowed,
    /// 400: the path is not valid text, or the request is unreadable.
    BadRequest,
    /// 403: a web page of another origin asks for a change.
    CrossOrigin,
    /// 413: the body is too large.
    BodyTooLarge,
    /// 408: the body did not arrive in time.
    BodyTimeout,
    /// 415: the media type of the body is not supported.
    UnsupportedMediaType,
    /// 409: the resource is not in a state that allows this.
    Conflict,
    /// 412: the resource is not at the given version.
    PreconditionFailed,
    /// 422: the idempotency key was used before with another body.
    #[serde(rename = "idempotency_key_reused")]
    KeyReused,
    /// 422: the definition has problems, all of which are listed; nothing was changed.
    InvalidDefinition,
    /// 429: too many requests; `retry-after` says when to try again.
    TooManyRequests,
    /// 503: temporarily unavailable, for example while the process drains.
    Unavailable,
    /// 422: the configuration has problems, all of which are listed; nothing was changed.
    InvalidConfiguration,
    /// 422: the files of accounts and campaigns have problems, all of which are listed. Their
    /// previous definitions stay in force, and the new configuration is in force.
    InvalidCampaignFiles,
    /// 500: a bug in the exchange.
    Defect,
}

impl ErrorCode {
    /// Its HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::NotConfigured => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Conflict => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::KeyReused
            | Self::InvalidDefinition
            | Self::InvalidConfiguration
            | Self::InvalidCampaignFiles => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Defect => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{M}")]
pub(super) struct ErrorBody<M> {
    error: ErrorDetail<M>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ErrorDetail<M> {
    /// For programs.
    code: ErrorCode,
    /// For people.
    message: String,
    #[serde(flatten)]
    members: M,
}

/// Further members of most errors.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorField {
    /// The part of the request that is wrong: a key of the body, a header, or a query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl ErrorField {
    /// Names a key of the body, a header, or a name of the query.
    pub fn at(field: &str) -> Self {
        Self { field: Some(field.to_owned()) }
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    status: StatusCode,
    media_type: &'static str,
    body: Bytes,
    /// Besides those of every response.
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A response; the error is a response too, a refusal.
pub type ReplyResult = Result<Reply, Reply>;

/// JSON, members sorted by name.
fn line(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("the names of members are text");
    format!("{value}\n")
}

impl Reply {
    /// 200 with `value`.
    pub fn json(value: &impl Serialize) -> Self {
        Self::new(StatusCode::OK, JSON, line(value))
    }

    /// One line of text.
    pub fn text(status: StatusCode, line: &str) -> Self {
        Self::new(status, TEXT, format!("{line}\n"))
    }

    /// 200 with text of any media type.
    pub fn page(media_type: &'static str, text: String) -> Self {
        Self::new(StatusCode::OK, media_type, text)
    }

    /// 204.
    pub fn nothing() -> Self {
        Self::new(StatusCode::NO_CONTENT, "", "")
    }

    /// `{"error": {"code": …, "message": …}}`. The message is for people.
    pub fn error(code: ErrorCode, message: &str) -> Self {
        Self::error_with(code, message, ErrorField::default())
    }

    /// The same with further members of `error`.
    pub fn error_with(code: ErrorCode, message: &str, members: impl Serialize) -> Self {
        let error = ErrorDetail { code, message: message.to_owned(), members };
        Self::new(code.status(), JSON, line(&ErrorBody { error }))
    }

    fn new(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, media_type, body: body.into(), headers: Vec::new() }
    }

    /// Changes the status to 201, with the path of the new resource.
    #[must_use]
    pub fn created(self, path: &str) -> Self {
        Self { status: StatusCode::CREATED, ..self }.with(LOCATION, path)
    }

    /// Adds the resource's version as `etag` (RFC 9110, section 8.8.3).
    #[must_use]
    pub fn with_version(self, version: u64) -> Self {
        self.with(ETAG, &format!("\"{version}\""))
    }

    pub(super) fn with_allow(self, methods: &str) -> Self {
        self.with(ALLOW, methods)
    }

    /// Says in how many seconds to ask again.
    #[must_use]
    pub fn with_retry_after(self, seconds: u64) -> Self {
        self.with(RETRY_AFTER, &seconds.to_string())
    }

    pub(super) fn and_close(self) -> Self {
        self.with(CONNECTION, "close")
    }

    /// Adds a header, unless its value is not valid in one.
    fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        self
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if !self.media_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        }
        headers.extend(self.headers);
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The content is momentary, and partly for operators only.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
