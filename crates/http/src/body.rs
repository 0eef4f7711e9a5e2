//! Reads a request's body into memory, within limits, and decompresses it.

use std::io::Read as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use tokio::time::timeout;

/// Limits on the size and time of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most bytes, compressed and decompressed.
    pub bytes_max: usize,
    /// From the end of the head to the end of the body.
    pub timeout: Duration,
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It exceeds the limit.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It exceeds the limit after decompression.
    #[error("the body is larger than {0} bytes once decompressed")]
    TooLargeInflated(usize),
    /// The client did not send all of it.
    #[error("the body is broken off")]
    BrokenOff,
    /// It is not valid gzip.
    #[error("the body is not gzip")]
    NotGzip,
    /// Its `content-encoding` is not supported.
    #[error("content-encoding is gzip, identity or absent")]
    Encoding,
    /// It was not complete in time.
    #[error("the body did not come within {0:?}")]
    TimedOut(Duration),
}

impl BodyError {
    /// The HTTP status of the error (RFC 9110, section 15.5).
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooLargeInflated(_) | Self::BrokenOff | Self::NotGzip => StatusCode::BAD_REQUEST,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TimedOut(_) => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Reads a body and decompresses it if `headers` declare gzip.
///
/// # Errors
/// The first [`BodyError`] detected. The rest of the body is not read.
pub async fn read(
    headers: &HeaderMap,
    body: Incoming,
    limits: BodyLimits,
) -> Result<Bytes, BodyError> {
    let is_gzip = match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None => false,
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => false,
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => true,
        Some(_) => return Err(BodyError::Encoding),
    };
    let collected = read_encoded(body, limits).await?;
    if is_gzip { gunzip(&collected, limits.bytes_max) } else { Ok(collected) }
}

/// Reads a body without decompressing it.
///
/// # Errors
/// The first [`BodyError`] detected. The rest of the body is not read.
pub async fn read_encoded(body: Incoming, limits: BodyLimits) -> Result<Bytes, BodyError> {
    let collected = timeout(limits.timeout, collect(body, limits.bytes_max)).await;
    collected.unwrap_or(Err(BodyError::TimedOut(limits.timeout)))
}

async fn collect(mut body: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge(bytes_max));
    }
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(bytes_max);
    let mut joined: Option<BytesMut> = None;
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::BrokenOff)?;
        let Ok(data) = frame.into_data() else { continue };
        let held = joined.as_ref().map_or(0, BytesMut::len) + first.as_ref().map_or(0, Bytes::len);
        if held + data.len() > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        // The usual body arrives in one piece and is not copied.
        match (&mut joined, first.take()) {
            (Some(joined), _) => joined.extend_from_slice(&data),
            (None, None) => first = Some(data),
            (None, Some(earlier)) => {
                // Reserve the final size: growing could take twice the limit.
                let mut both = BytesMut::with_capacity(length);
                both.extend_from_slice(&earlier);
                both.extend_from_slice(&data);
                joined = Some(both);
            }
        }
    }
    Ok(joined.map(BytesMut::freeze).or(first).unwrap_or_default())
}

fn gunzip(compressed: &[u8], bytes_max: usize) -> Result<Bytes, BodyError> {
    // One byte beyond the limit reveals a larger body. Growing could take twice the limit.
    let mut body = Vec::with_capacity(bytes_max + 1);
    let mut decoder = flate2::read::MultiGzDecoder::new(compressed).take(bytes_max as u64 + 1);
    decoder.read_to_end(&mut body).map_err(|_| BodyError::NotGzip)?;
    if body.len() > bytes_max {
        return Err(BodyError::TooLargeInflated(bytes_max));
    }
    Ok(body.into())
}
