//! A call of a notice URL: what is sent, and how it ends.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IoSlice;
use std::rc::Rc;

use exchange_core::NoticeTarget;
use http_kit::client::{RequestError, ServerAt};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::fanout::connection::call::CallMessage;

/// A host, as connections are kept by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoticeHost {
    pub is_tls: bool,
    /// In lower case, without the brackets of IPv6.
    pub host: String,
    pub port: u16,
}

impl NoticeHost {
    pub(super) fn server(&self) -> ServerAt<'_> {
        ServerAt { is_tls: self.is_tls, host: &self.host, port: self.port }
    }

    pub(super) const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// As in a URL (RFC 3986, section 3.2), without the scheme's own port.
    pub(super) fn authority(&self) -> String {
        let Self { is_tls, host, port } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let usual = if *is_tls { 443 } else { 80 };
        if *port == usual { host } else { format!("{host}:{port}") }
    }
}

/// A GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRequest {
    pub host: NoticeHost,
    /// Path and query.
    pub path: String,
    fields: Vec<(&'static str, Cow<'static, str>)>,
}

impl NoticeRequest {
    /// A request to `target` for `path_and_query`.
    pub fn get(target: &NoticeTarget<'_>, path_and_query: &str) -> Self {
        let mut path = String::with_capacity(path_and_query.len() + 16);
        if !path_and_query.starts_with('/') {
            path.push('/');
        }
        let mut rest = path_and_query;
        // Nearly all URLs are printable, and copied at once.
        while let Some(at) = rest.bytes().position(is_not_in_uris) {
            path.push_str(&rest[..at]);
            let letter = rest[at..].chars().next().expect("a letter begins behind ASCII");
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(path, "%{byte:02X}");
            }
            rest = &rest[at + letter.len_utf8()..];
        }
        path.push_str(rest);
        let host = target.host.to_ascii_lowercase();
        let host = NoticeHost { is_tls: target.is_tls, host, port: target.port };
        Self { host, path, fields: vec![("accept", Cow::Borrowed("*/*"))] }
    }

    /// Adds a header field, unless its value is not printable: a line's end would begin another.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        let value = value.into();
        if value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            self.fields.push((name, value));
        }
        self
    }
}

/// Whether a URI must encode this byte (RFC 3986, appendix A).
fn is_not_in_uris(byte: u8) -> bool {
    !byte.is_ascii_graphic() || matches!(byte, b'"' | b'<' | b'>' | b'`')
}

/// How a call ends.
pub type CallResult = Result<ServerAnswer, CallError>;

/// Who waits for a call.
pub enum CallWaiter {
    /// May go on without the answer: the call is not made then.
    Fetch(oneshot::Sender<CallResult>),
    Delivery(Box<dyn FnOnce(CallResult)>),
}

impl CallWaiter {
    /// Whether nobody waits any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Fetch(done) if done.is_closed())
    }

    pub fn tell(self, result: CallResult) {
        match self {
            Self::Fetch(done) => drop(done.send(result)),
            Self::Delivery(done) => done(result),
        }
    }
}

pub struct NoticeCall {
    pub request: Rc<NoticeRequest>,
    /// Most bytes of the answer's body; at 0 the body is dropped, even if it is broken.
    pub body_max: usize,
    /// It fails if it has no answer by then.
    pub until: Instant,
    pub waiter: CallWaiter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer {
    pub status: u16,
    /// The exchange's node that answered. None for other servers.
    pub node: Option<u32>,
    /// Empty if `body_max` is 0.
    pub body: Vec<u8>,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Too many hosts, or too many calls to this one.
    #[error("too many calls are under way")]
    Saturated,
}

/// A request on the wire.
pub(super) struct RequestMessage<'r> {
    pub(super) request: &'r NoticeRequest,
    pub(super) authority: &'r str,
}

impl CallMessage for RequestMessage<'_> {
    fn http1<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let NoticeRequest { path, fields, .. } = self.request;
        let mut head = String::with_capacity(path.len() + 256);
        head.extend(["GET ", path, " HTTP/1.1\r\nhost: ", self.authority, "\r\n"]);
        for (name, value) in fields {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        write(&[IoSlice::new(head.as_bytes())])
    }

    fn http2<T>(&self, write: impl FnOnce(&[(&str, &str)], &[u8]) -> T) -> T {
        let NoticeRequest { path, fields, .. } = self.request;
        let own = fields.iter().map(|(name, value)| (*name, &**value));
        let fields: Vec<_> = [(":path", path.as_str())].into_iter().chain(own).collect();
        write(&fields, &[])
    }

    fn body_len(&self) -> usize {
        0
    }
}
