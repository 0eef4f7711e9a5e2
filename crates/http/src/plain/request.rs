//! Plain GETs: what one is, and how it is read.

use std::mem::MaybeUninit;

use crate::head::{HeadLimits, is_plain_host};

/// Header fields of a plain GET; with more, it is left to hyper.
const FIELDS_MAX: usize = 48;

/// A GET that wants the whole current representation and nothing else: over HTTP/1.1, for one host,
/// with a path in its normal characters, without a body, conditions, ranges, credentials, directives
/// for caches, or wishes about the connection.
#[derive(Clone, Copy, Debug)]
pub struct PlainGet<'r> {
    /// Host, and perhaps a port.
    pub authority: &'r str,
    /// Begins with a slash.
    pub path: &'r str,
    /// Without its question mark. None if the target has no query.
    pub query: Option<&'r str>,
    fields: &'r [httparse::Header<'r>],
}

impl<'r> PlainGet<'r> {
    /// Reads the head at the beginning of `bytes`, and returns what `then` makes of it with the
    /// head's length. None if it is incomplete, malformed, or not plain.
    pub fn read<R>(
        bytes: &[u8],
        limits: HeadLimits,
        then: impl FnOnce(PlainGet<'_>) -> R,
    ) -> Option<(R, usize)> {
        if !bytes.starts_with(b"GET /") {
            return None;
        }
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut []);
        let read = head.parse_with_uninit_headers(bytes, &mut fields);
        let Ok(httparse::Status::Complete(length)) = read else { return None };
        let is_within = length <= limits.bytes_max && head.headers.len() <= limits.fields_max;
        let target = head.path.filter(|target| target.bytes().all(is_of_plain_target));
        let target = target.filter(|_| is_within && head.version == Some(1))?;
        let authority = plain_authority(head.headers)?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        Some((then(PlainGet { authority, path, query, fields: head.headers }), length))
    }

    /// The lines of a header field, whose name is in lower case.
    pub fn lines(&self, name: &str) -> impl Iterator<Item = &'r [u8]> {
        let is_it = move |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
        self.fields.iter().filter(is_it).map(|field| field.value)
    }
}

/// The host. None if there is not exactly one, or another field makes the request more than plain.
fn plain_authority<'r>(fields: &[httparse::Header<'r>]) -> Option<&'r str> {
    let mut authority = None;
    for field in fields {
        match kind_of(field) {
            FieldKind::Host if authority.is_none() && is_plain_host(field.value) => {
                authority = str::from_utf8(field.value).ok();
            }
            FieldKind::Host | FieldKind::Demanding => return None,
            FieldKind::Other => (),
        }
    }
    authority
}

enum FieldKind {
    Host,
    /// It asks for more than the representation.
    Demanding,
    Other,
}

/// Compares only names of the same length: most fields fit none.
fn kind_of(field: &httparse::Header<'_>) -> FieldKind {
    let demanding: &[&str] = match field.name.len() {
        4 if field.name.eq_ignore_ascii_case("host") => return FieldKind::Host,
        5 => &["range"],
        6 => &["expect", "pragma"],
        7 => &["upgrade", "trailer"],
        8 => &["cdn-loop", "if-match", "if-range"],
        10 if field.name.eq_ignore_ascii_case("connection") => {
            return match field.value.eq_ignore_ascii_case(b"keep-alive") {
                true => FieldKind::Other,
                false => FieldKind::Demanding,
            };
        }
        13 => &["authorization", "cache-control", "if-none-match"],
        14 => &["content-length"],
        17 => &["if-modified-since", "transfer-encoding"],
        19 => &["if-unmodified-since"],
        _ => &[],
    };
    match demanding.iter().any(|name| field.name.eq_ignore_ascii_case(name)) {
        true => FieldKind::Demanding,
        false => FieldKind::Other,
    }
}

/// Whether a byte means the same to every reader of a path or query (RFC 3986, sections 3.3 and 3.4).
fn is_of_plain_target(byte: u8) -> bool {
    PLAIN_TARGET[usize::from(byte)]
}

const PLAIN_TARGET: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        plain[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"/-._~%!$&'()*+,;=:@?";
    let mut at = 0;
    while at < others.len() {
        plain[others[at] as usize] = true;
        at += 1;
    }
    plain
};
