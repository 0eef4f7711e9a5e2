//! Requests and answers of notices on one open connection.
//!
//! It must not know whom they are for.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use super::client::Answered;
use crate::fanout::answer::{AnswerError, AnswerReader, Head, Progress};

/// Room to read into; what is left of it waits for the next answer.
const SCRATCH_BYTES: usize = 16 * 1024;
/// Bodies that nobody wants are read up to here, so that their connection serves on.
const DROPPED_BYTES_MAX: usize = 64 * 1024;

/// A stream of bytes, plain or within TLS.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// An open connection.
pub struct Socket {
    stream: Box<dyn Stream>,
    /// Read and not yet understood.
    pending: Vec<u8>,
}

/// Why an answer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The connection ended before any of the answer came.
    #[error("the connection ended before the answer")]
    Unanswered,
    /// No answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The connection broke within the answer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It says something that is not an answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl Socket {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// Whether nothing has come that no call asked for, the connection's end included: the next
    /// call would take it for its own answer.
    pub async fn is_quiet(&mut self) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let stream = &mut self.stream;
        let look = |context: &mut Context<'_>| {
            Poll::Ready(Pin::new(&mut *stream).poll_read(context, &mut room).is_pending())
        };
        poll_fn(look).await
    }

    /// Sends heads of requests.
    pub async fn send(&mut self, heads: &[u8]) -> io::Result<()> {
        self.stream.write_all(heads).await?;
        self.stream.flush().await
    }

    /// The next answer, with its body unless `body_max` is 0, and whether the connection goes on;
    /// it does not after an error.
    pub async fn receive(
        &mut self,
        body_max: usize,
        patience: Duration,
    ) -> Result<(Answered, bool), ReceiveError> {
        let wanted = body_max > 0;
        let mut reader = AnswerReader::new(if wanted { body_max } else { DROPPED_BYTES_MAX });
        let read = timeout(patience, self.read(&mut reader, wanted)).await;
        match read.unwrap_or(Err(ReceiveError::TimedOut)) {
            // The status says all that is asked; the connection is out of step.
            Err(_) if !wanted && reader.head().status != 0 => {
                let Head { status, node, .. } = reader.head();
                Ok((Answered { status, node, body: Vec::new() }, false))
            }
            Err(ReceiveError::Io(_) | ReceiveError::Answer(AnswerError::Truncated))
                if !reader.has_begun() =>
            {
                Err(ReceiveError::Unanswered)
            }
            read => read,
        }
    }

    async fn read(
        &mut self,
        reader: &mut AnswerReader,
        wanted: bool,
    ) -> Result<(Answered, bool), ReceiveError> {
        let mut scratch = Vec::new();
        loop {
            if self.pending.is_empty() {
                self.pending.resize(SCRATCH_BYTES, 0);
                let read = self.stream.read(&mut self.pending).await?;
                self.pending.truncate(read);
            }
            std::mem::swap(&mut scratch, &mut self.pending);
            self.pending.clear();
            let ended = scratch.is_empty();
            let progress = if ended { reader.end() } else { reader.read(&scratch) };
            let Progress::Done { head, body, surplus } = progress? else { continue };
            let body = if wanted { body.to_vec() } else { Vec::new() };
            self.pending.extend_from_slice(&scratch[scratch.len() - surplus..]);
            let goes_on = head.keep_alive && !ended;
            return Ok((Answered { status: head.status, node: head.node, body }, goes_on));
        }
    }
}
