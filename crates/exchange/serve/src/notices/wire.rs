//! Requests and answers of notices on one open connection.
//!
//! It must not know whom they are for.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::client::Answered;
use crate::fanout::answer::{AnswerError, AnswerReader, Progress};

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
    /// The connection broke.
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

    /// Sends heads of requests.
    pub async fn send(&mut self, heads: &[u8]) -> io::Result<()> {
        self.stream.write_all(heads).await?;
        self.stream.flush().await
    }

    /// The next answer, with its body unless `body_max` is 0, and whether the connection goes on.
    pub async fn receive(&mut self, body_max: usize) -> Result<(Answered, bool), ReceiveError> {
        let wanted = body_max > 0;
        let mut reader = AnswerReader::new(if wanted { body_max } else { DROPPED_BYTES_MAX });
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
            let status = match progress {
                Ok(Progress::Partial) => continue,
                Ok(Progress::Done { head, body, surplus }) => {
                    let body = if wanted { body.to_vec() } else { Vec::new() };
                    self.pending.extend_from_slice(&scratch[scratch.len() - surplus..]);
                    let goes_on = head.keep_alive && !ended;
                    return Ok((Answered { status: head.status, body }, goes_on));
                }
                // The status says all that is asked; the connection is out of step.
                Err(AnswerError::BodyTooLarge) if !wanted => reader.status(),
                Err(error) => return Err(error.into()),
            };
            return Ok((Answered { status, body: Vec::new() }, false));
        }
    }
}
