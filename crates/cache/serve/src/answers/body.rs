//! The body of an answer: from the store, from a fetch that others share, or passed on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use cache_core::rules::ranges::ByteRange;
use cache_core::store::answer::AnswerBody;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use runtime::metrics::Padded;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::counters::RouteCounts;
use crate::fill::FillReader;
use crate::origin::OriginError;
use crate::origin::body::OriginBody;

/// The body of an answer.
pub(crate) enum CacheBody {
    /// In memory; empty once it is sent.
    Whole(Bytes),
    /// Likewise, in pieces.
    Pieces(VecDeque<Bytes>),
    /// As it is fetched.
    Shared(SharedBody),
    /// As the origin sends it.
    Passed(Box<PassedBody>),
}

impl CacheBody {
    pub const fn empty() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl From<Bytes> for CacheBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<SharedBody> for CacheBody {
    fn from(body: SharedBody) -> Self {
        Self::Shared(body)
    }
}

impl From<AnswerBody> for CacheBody {
    fn from(body: AnswerBody) -> Self {
        match body {
            AnswerBody::Whole(bytes) => bytes.into(),
            AnswerBody::Pieces(pieces) => Self::Pieces(pieces.into()),
        }
    }
}

/// A body that is fetched, or a part of it.
pub(crate) struct SharedBody {
    reader: FillReader,
    /// Bytes before the part.
    skipped: u64,
    /// Bytes that are left to send. None if the origin does not say how many there are.
    left: Option<u64>,
}

impl SharedBody {
    /// All of it. The length is what the origin says.
    pub const fn whole(reader: FillReader, length: Option<u64>) -> Self {
        Self { reader, skipped: 0, left: length }
    }

    /// A part.
    pub const fn part(reader: FillReader, range: ByteRange) -> Self {
        Self { reader, skipped: range.start, left: Some(range.bytes()) }
    }

    fn poll_piece(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, OriginError>>> {
        loop {
            if self.left == Some(0) {
                return Poll::Ready(None);
            }
            let Some(mut piece) = ready!(self.reader.poll_piece(cx)?) else {
                return Poll::Ready(None);
            };
            let skipped = index(self.skipped).min(piece.len());
            piece.advance(skipped);
            self.skipped -= skipped as u64;
            if let Some(left) = &mut self.left {
                piece.truncate(index(*left));
                *left -= piece.len() as u64;
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece)));
            }
        }
    }
}

/// As far as an index goes: pieces are in memory.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A body of the origin, of which each piece must come in time.
pub(crate) struct PassedBody {
    incoming: OriginBody,
    timeout: Duration,
    until: Pin<Box<Sleep>>,
    counts: Arc<Padded<RouteCounts>>,
    /// Bytes that must still come. None if the end of the message is that of the body.
    left: Option<u64>,
}

impl PassedBody {
    pub fn new(incoming: OriginBody, timeout: Duration, counts: Arc<Padded<RouteCounts>>) -> Self {
        let until = Box::pin(sleep_until(Instant::now() + timeout));
        Self { incoming, timeout, until, counts, left: None }
    }

    /// It must have this length, whatever the framing of its message says.
    pub fn of_length(self, length: u64) -> Self {
        Self { left: Some(length), ..self }
    }

    /// The next piece or the trailers. None at the end.
    pub fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OriginError>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.until.as_mut().reset(Instant::now() + self.timeout);
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.counts.fetched_bytes.add(bytes);
                match self.left.as_mut().map(|left| left.checked_sub(bytes).map(|now| *left = now))
                {
                    Some(None) => broken_off("it is longer than it says"),
                    None | Some(Some(())) => Poll::Ready(Some(Ok(frame))),
                }
            }
            Poll::Ready(Some(Err(error))) => broken_off(&error.to_string()),
            Poll::Ready(None) if self.left.is_some_and(|left| 0 < left) => {
                broken_off("it is shorter than it says")
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.until.as_mut().poll(cx).map(|()| Some(Err(OriginError::Stalled))),
        }
    }

    /// Waits for the next piece; trailers are dropped. None at the end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, OriginError>> {
        loop {
            match std::future::poll_fn(|cx| self.poll_piece(cx)).await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// None if the origin does not say.
    pub fn length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }
}

impl Body for CacheBody {
    type Data = Bytes;
    type Error = OriginError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OriginError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Pieces(pieces) => {
                Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
            }
            Self::Shared(body) => {
                body.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
            Self::Passed(body) => body.poll_piece(cx).map(|frame| {
                frame.map(|frame| {
                    frame.map(|mut frame| {
                        if let Some(trailers) = frame.trailers_mut() {
                            remove_forbidden_trailers(trailers);
                        }
                        frame
                    })
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Shared(_) | Self::Passed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Shared(SharedBody { left: Some(left), .. }) => SizeHint::with_exact(*left),
            Self::Shared(_) => SizeHint::default(),
            Self::Passed(body) => body.incoming.size_hint(),
        }
    }
}

fn broken_off<T>(why: &str) -> Poll<Option<Result<T, OriginError>>> {
    Poll::Ready(Some(Err(OriginError::BrokenOff(why.into()))))
}

/// What frames or routes a message is not for its trailers (RFC 9110, section 6.5.1).
fn remove_forbidden_trailers(trailers: &mut HeaderMap) {
    use hyper::header::{
        CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, SET_COOKIE, TRAILER,
        TRANSFER_ENCODING,
    };
    for name in [
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        CONTENT_TYPE,
        HOST,
        SET_COOKIE,
        TRAILER,
        TRANSFER_ENCODING,
    ] {
        trailers.remove(name);
    }
}
