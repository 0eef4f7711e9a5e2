//! A folder of files as an origin (RFC 9110): the creatives of one's own campaigns, say. Sends no file
//! outside of the folder, none whose name begins with a dot, and lists nothing.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cache_core::fields::dates::{UnixSeconds, format_date};
use cache_core::rules::control::RequestControl;
use cache_core::rules::ranges::{ByteRange, RequestedRanges};
use cache_core::rules::validation::validators::{
    Condition, Validators, evaluate, precondition_fails,
};
use cache_core::store::answer::ClientRequest;
use http_kit::query::percent_decoded;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED,
};
use hyper::{Method, Response, StatusCode};
use tokio::task::spawn_blocking;

use super::body::{FileBody, OriginBody};

/// A request for a file.
#[derive(Clone, Debug)]
pub(super) struct FileRequest {
    pub method: Method,
    /// Of the URI, with its escapes.
    pub path: String,
    pub headers: HeaderMap,
}

/// Answers a request from a folder. Opens the file on another thread.
pub(super) async fn answer(
    folder: PathBuf,
    request: FileRequest,
    now: UnixSeconds,
) -> io::Result<Response<OriginBody>> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    spawn_blocking(move || open(&folder, &request, now)).await?
}

fn open(
    folder: &Path,
    request: &FileRequest,
    now: UnixSeconds,
) -> io::Result<Response<OriginBody>> {
    let Some(relative) = relative_path(&request.path) else {
        return Ok(status(StatusCode::NOT_FOUND));
    };
    let opened = open_within(folder, &relative);
    match opened {
        Ok(Some((file, metadata))) => present(file, &metadata, &relative, request, now),
        Ok(None) => Ok(status(StatusCode::NOT_FOUND)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Ok(status(StatusCode::NOT_FOUND))
            }
            io::ErrorKind::PermissionDenied => Ok(status(StatusCode::FORBIDDEN)),
            _ => Err(error),
        },
    }
}

/// None if it is no file, or a link leads out of the folder.
fn open_within(folder: &Path, relative: &Path) -> io::Result<Option<(File, Metadata)>> {
    let path = folder.join(relative).canonicalize()?;
    if !path.starts_with(folder.canonicalize()?) {
        return Ok(None);
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// The path of a file below the folder. None if it names none: a segment is empty, begins with a dot,
/// or has an escape of a separator.
fn relative_path(path: &str) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for segment in path.strip_prefix('/')?.split('/') {
        let name = percent_decoded(segment)?;
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        if !is_name {
            return None;
        }
        relative.push(name);
    }
    Some(relative)
}

/// The file, as far as conditions and ranges want it.
fn present(
    mut file: File,
    metadata: &Metadata,
    relative: &Path,
    request: &FileRequest,
    now: UnixSeconds,
) -> io::Result<Response<OriginBody>> {
    let length = metadata.len();
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = UnixSeconds(changed.as_secs());
    let etag = format!("\"{:x}-{length:x}\"", changed.as_nanos());
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, text: String| {
        let value = HeaderValue::try_from(text).expect("it has visible characters alone");
        headers.insert(name, value);
    };
    set(ETAG, etag);
    set(LAST_MODIFIED, format_date(modified));
    set(ACCEPT_RANGES, "bytes".to_owned());
    set(CONTENT_TYPE, content_type(relative).to_owned());
    let validators = Validators::of(&headers, now);
    let control = RequestControl::default();
    let asked =
        ClientRequest { method: &request.method, headers: &request.headers, control: &control };
    if precondition_fails(&request.headers, &validators, now) {
        return Ok(status(StatusCode::PRECONDITION_FAILED));
    }
    if let Condition::Fails(_) = evaluate(&request.headers, &validators, now) {
        return Ok(with_fields(StatusCode::NOT_MODIFIED, headers, OriginBody::Empty));
    }
    let (code, range) = match asked.ranges(&validators, length, now) {
        RequestedRanges::Parts(parts) if parts.len() == 1 => {
            (StatusCode::PARTIAL_CONTENT, parts[0])
        }
        _ => (StatusCode::OK, ByteRange { start: 0, end: length }),
    };
    if code == StatusCode::PARTIAL_CONTENT {
        let content_range = HeaderValue::try_from(range.content_range(length));
        headers.insert(CONTENT_RANGE, content_range.expect("it has visible characters alone"));
        file.seek(SeekFrom::Start(range.start))?;
    }
    headers.insert(CONTENT_LENGTH, range.bytes().into());
    let body = match request.method {
        Method::HEAD => OriginBody::Empty,
        _ => OriginBody::Read(FileBody::new(file, range.bytes())),
    };
    Ok(with_fields(code, headers, body))
}

fn with_fields(code: StatusCode, headers: HeaderMap, body: OriginBody) -> Response<OriginBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    *response.headers_mut() = headers;
    response
}

/// A status without content.
fn status(code: StatusCode) -> Response<OriginBody> {
    let length = (CONTENT_LENGTH, HeaderValue::from_static("0"));
    with_fields(code, HeaderMap::from_iter([length]), OriginBody::Empty)
}

/// By the ending of the name.
fn content_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match &*ending.to_ascii_lowercase() {
        "avif" => "image/avif",
        "css" => "text/css",
        "gif" => "image/gif",
        "htm" | "html" => "text/html; charset=utf-8",
        "jpeg" | "jpg" => "image/jpeg",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "m4a" => "audio/mp4",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "ogg" => "audio/ogg",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "webm" => "video/webm",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "xml" => "application/xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
