//! A call as both protocols see it: what is sent, and how it ends. Knows no auction.

use std::fmt::Display;
use std::io::IoSlice;

use exchange_core::record::CallOutcome;

use crate::fanout::answer::Coding;

/// What is sent to a DSP.
pub(in crate::fanout) trait CallMessage {
    /// Passes the whole HTTP/1.1 request to `write`, in parts.
    fn http1<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T;
    /// Passes the body to `write`.
    fn body<T>(&self, write: impl FnOnce(&[u8]) -> T) -> T;
}

/// How a call has ended on its connection.
pub(super) enum ConnectionCallEnd<'b> {
    /// A whole answer.
    Answer { status: u16, coding: Coding, body: &'b [u8] },
    /// The DSP has not seen the call, or may not have: it can be repeated once.
    Unseen { error: &'static str },
    /// The answer is unusable.
    Failed { outcome: CallOutcome, error: &'b dyn Display },
    /// The connection has ended.
    Lost { error: &'static str },
}
