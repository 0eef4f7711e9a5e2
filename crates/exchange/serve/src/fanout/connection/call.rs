//! A call as both versions of HTTP see it: what is sent, and how it ends. Knows no auction.

use std::fmt::Display;
use std::io::IoSlice;

use exchange_core::record::CallOutcome;

use crate::fanout::answer::AnswerFields;

/// What is sent.
pub(crate) trait CallMessage {
    /// Passes the whole HTTP/1.1 request to `write`, in parts.
    fn http1<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T;
    /// Passes the body to `write`, with the header fields that HTTP/2 sends for this call alone.
    fn http2<T>(&self, write: impl FnOnce(&[(&str, &str)], &[u8]) -> T) -> T;
    /// Length of the body in bytes.
    fn body_len(&self) -> usize;
}

/// How a call has ended on its connection.
pub(crate) enum ConnectionCallEnd<'b> {
    /// A whole answer.
    Answer { status: u16, fields: AnswerFields, body: &'b [u8] },
    /// The server has not seen the call, or may not have: it can be repeated once.
    Unseen { error: &'static str },
    /// The answer is unusable; its head may have come.
    Failed { outcome: CallOutcome, status: Option<u16>, error: &'b dyn Display },
    /// The connection has ended, before an answer began.
    Lost { error: &'static str },
}
