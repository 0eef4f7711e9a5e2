//! One request to a provider, and what its answer means.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use http_kit::client::{HttpClient, RequestError};
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, DATE, HeaderMap, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri};
use serde_json::Value;
use tokio::time::timeout;

/// Why a request has no answer that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttemptFailure {
    /// The provider has too much to do, and may say for how long.
    Busy(Option<Duration>, String),
    /// It failed.
    Failed(String),
    /// It does not answer this question, and would not if it were asked again.
    Declined(String),
    /// It did not answer in time.
    TimedOut,
    /// It was not asked: this process has too many connections open.
    Unasked(String),
}

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerLimits {
    pub bytes_max: usize,
    pub timeout: Duration,
}

/// Requests a URL. Redirects are not followed: they could lead anywhere. None if the provider says that
/// there is nothing.
pub(crate) async fn get(
    client: &HttpClient,
    url: &str,
    headers: &HeaderMap,
    limits: AnswerLimits,
) -> Result<Option<Bytes>, AttemptFailure> {
    let uri = url.parse::<Uri>().map_err(|error| AttemptFailure::Declined(error.to_string()))?;
    let mut request = Request::new(Either::Left(Full::default()));
    *request.uri_mut() = uri;
    request.headers_mut().clone_from(headers);
    let asked = timeout(limits.timeout, async {
        let response = client.send(request).await.map_err(|error| match error {
            RequestError::TimedOut => AttemptFailure::TimedOut,
            RequestError::TooManyConnections => AttemptFailure::Unasked(error.to_string()),
            error => AttemptFailure::Failed(error.to_string()),
        })?;
        let (head, body) = response.into_parts();
        if let Err(failure) = check(head.status, &head.headers) {
            return Err(match failure {
                AttemptFailure::Declined(text) => {
                    AttemptFailure::Declined(match reason(body).await {
                        Some(reason) => format!("{text}: {reason}"),
                        None => text,
                    })
                }
                failure => failure,
            });
        }
        let body =
            Limited::new(body, limits.bytes_max).collect().await.map_err(|error| {
                match error.is::<LengthLimitError>() {
                    true => {
                        let most = limits.bytes_max;
                        AttemptFailure::Declined(format!("the answer has more than {most} bytes"))
                    }
                    false => AttemptFailure::Failed(format!("the answer broke off: {error}")),
                }
            })?;
        Ok((head.status != StatusCode::NO_CONTENT).then(|| body.to_bytes()))
    });
    asked.await.unwrap_or(Err(AttemptFailure::TimedOut))
}

/// Most bytes of an error that are read, and letters that are shown.
const ERROR_BYTES_MAX: usize = 16 << 10;
const REASON_LETTERS_MAX: usize = 200;

/// The reason that an error in JSON gives: `error.message`, `message` or `error`.
async fn reason<B>(body: B) -> Option<String>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = Limited::new(body, ERROR_BYTES_MAX).collect().await.ok()?.to_bytes();
    let error: Value = serde_json::from_slice(&body).ok()?;
    let mut texts = ["/error/message", "/message", "/error"].into_iter();
    let text = texts.find_map(|at| error.pointer(at)?.as_str())?;
    Some(text.chars().take(REASON_LETTERS_MAX).collect())
}

/// What a head says of the answer.
fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), AttemptFailure> {
    let text = format!("the provider answered {status}");
    match status {
        StatusCode::OK | StatusCode::NO_CONTENT => (),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            return Err(AttemptFailure::Busy(retry_after(headers), text));
        }
        _ if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            return Err(AttemptFailure::Failed(text));
        }
        _ if status.is_redirection() => {
            return Err(AttemptFailure::Declined(format!("{text}: redirects are not followed")));
        }
        _ => return Err(AttemptFailure::Declined(text)),
    }
    match headers.get(CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let text = "the answer is encoded, which was not asked for";
            Err(AttemptFailure::Declined(text.to_owned()))
        }
        _ => Ok(()),
    }
}

/// How long to wait, of `Retry-After` (RFC 9110, section 10.2.3). A date is compared with that of the
/// answer, so that clocks need not agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let sent = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    Some(until.duration_since(sent).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn what_a_status_means() {
        let mut headers = HeaderMap::new();
        let of = |status: u16, headers: &HeaderMap| check(status.try_into().unwrap(), headers);
        assert_eq!(of(200, &headers), Ok(()));
        assert_eq!(of(204, &headers), Ok(()));
        for status in [500, 502, 504, 408] {
            assert!(matches!(of(status, &headers), Err(AttemptFailure::Failed(_))), "{status}");
        }
        for status in [301, 302, 307, 400, 401, 404, 206] {
            assert!(matches!(of(status, &headers), Err(AttemptFailure::Declined(_))), "{status}");
        }
        assert!(matches!(of(429, &headers), Err(AttemptFailure::Busy(None, _))));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let seven = Some(Duration::from_secs(7));
        assert!(matches!(of(503, &headers), Err(AttemptFailure::Busy(after, _)) if after == seven));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("Fri, 31 Dec 1999 23:59:59 GMT"));
        assert!(matches!(of(503, &headers), Err(AttemptFailure::Busy(None, _))));
        headers.insert(DATE, HeaderValue::from_static("Fri, 31 Dec 1999 23:59:52 GMT"));
        assert!(matches!(of(503, &headers), Err(AttemptFailure::Busy(after, _)) if after == seven));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert!(matches!(of(200, &headers), Err(AttemptFailure::Declined(_))));
    }
}
