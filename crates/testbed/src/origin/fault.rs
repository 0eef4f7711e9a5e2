//! Lies of an origin: answers whose framing or head is wrong.

use std::fmt::Write as _;

use super::object::OriginObject;
use super::options::OriginOptions;
use crate::server::ContentFault;
use crate::server::script::{Flow, Script, ScriptEnd};

/// Bytes of a head that no client should accept.
const HUGE_HEAD_BYTES: usize = 1 << 20;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFault {
    /// The body ends before its length, and the connection with it.
    ShortBody,
    /// The body is longer than its length.
    LongBody,
    /// There are two different lengths.
    TwoLengths,
    /// The body has no length and no end.
    Endless,
    /// The head is a megabyte.
    HugeHead,
}

impl ContentFault for OriginFault {
    fn problem(&self) -> Option<&'static str> {
        None
    }
}

impl OriginFault {
    /// The answer.
    pub(super) fn script(self, object: &OriginObject, options: &OriginOptions) -> Script {
        let mut bytes = Vec::new();
        object.write_head("200 OK", options, &mut bytes);
        let mut body = Vec::new();
        object.write_body(&mut body);
        let length = body.len();
        let mut end = ScriptEnd::Next;
        let mut flow = None;
        let framing = match self {
            Self::ShortBody => {
                end = ScriptEnd::Close;
                body.truncate(length / 2);
                format!("Content-Length: {length}\r\n")
            }
            Self::LongBody => {
                body.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                format!("Content-Length: {length}\r\n")
            }
            Self::TwoLengths => {
                format!("Content-Length: {length}\r\nContent-Length: {}\r\n", length / 2)
            }
            Self::Endless => {
                let mut chunk = format!("{length:x}\r\n").into_bytes();
                chunk.append(&mut body);
                chunk.extend_from_slice(b"\r\n");
                flow = Some(Flow::new(&chunk, None));
                "Transfer-Encoding: chunked\r\n".to_owned()
            }
            Self::HugeHead => {
                let mut text = format!("Content-Length: {length}\r\n");
                while text.len() < HUGE_HEAD_BYTES {
                    let _infallible = write!(text, "x-{}: {}\r\n", text.len(), "x".repeat(8_000));
                }
                text
            }
        };
        bytes.extend_from_slice(framing.as_bytes());
        bytes.extend_from_slice(b"\r\n");
        bytes.append(&mut body);
        Script { flow, end, ..Script::whole(bytes, options.latency) }
    }
}
