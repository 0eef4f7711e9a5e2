//! The body of an origin's answer: from a connection, or from a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of one read of a file.
const PIECE_BYTES: u64 = 64 << 10;

/// The body of an answer.
pub(crate) enum OriginBody {
    /// As a server sends it.
    Received(Incoming),
    /// Of a file.
    Read(FileBody),
    /// None.
    Empty,
}

/// Bytes of a file from where it stands, read by another thread as they are wanted.
pub(crate) struct FileBody {
    /// None while it is read.
    file: Option<File>,
    reading: Option<JoinHandle<io::Result<(File, Bytes)>>>,
    left: u64,
}

impl FileBody {
    /// So many bytes.
    pub const fn new(file: File, length: u64) -> Self {
        Self { file: Some(file), reading: None, left: length }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let wanted = self.left.min(PIECE_BYTES);
        if let Some(file) = self.file.take() {
            self.reading = Some(spawn_blocking(move || read(file, wanted)));
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let (file, piece) = ready!(Pin::new(reading).poll(cx))??;
        self.reading = None;
        if piece.is_empty() {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.left -= piece.len() as u64;
        self.file = Some(file);
        Poll::Ready(Some(Ok(piece)))
    }
}

/// Up to so many bytes, and the file behind them.
fn read(file: File, wanted: u64) -> io::Result<(File, Bytes)> {
    let mut piece = Vec::new();
    (&file).take(wanted).read_to_end(&mut piece)?;
    Ok((file, piece.into()))
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Received(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
            Self::Read(body) => body
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(Into::into))),
            Self::Empty => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Received(body) => body.size_hint(),
            Self::Read(body) => SizeHint::with_exact(body.left),
            Self::Empty => SizeHint::with_exact(0),
        }
    }
}
