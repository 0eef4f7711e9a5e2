//! What one connection is doing, on the thread that serves it: whether a request is under way, and
//! how long it may idle or take for a head. It must not know what is served, nor choose which
//! connection is evicted: the table does.

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::table::TableEntry;
use crate::shutdown::Shutdown;

/// How long a connection is still read after its shutdown.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes discarded by one read.
const DISCARD_BYTES: usize = 16 * 1024;

/// Limits on the time that a connection spends without a complete head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// Without a byte, since the last response or the start.
    pub idle: Duration,
    /// For a head or a TLS handshake, since its first byte.
    pub head: Duration,
}

/// Why we closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionEnd {
    /// It was idle, and a new connection needed its place.
    #[error("it was idle and made place for another")]
    Evicted,
    /// No byte arrived within [`ConnectionTimeouts::idle`].
    #[error("it was idle for too long")]
    Idle,
    /// A head or handshake was incomplete after [`ConnectionTimeouts::head`].
    #[error("a head or handshake took too long")]
    Head,
}

#[derive(Clone, Copy, Debug)]
enum ConnectionPhase {
    /// No byte since then.
    Idle(Instant),
    /// Bytes since then, but no complete head.
    Head(Instant),
    Request,
}

/// What one connection is doing. Clones share it.
#[derive(Clone, Debug)]
pub struct Activity(Rc<ActivityState>);

#[derive(Debug)]
struct ActivityState {
    entry: TableEntry,
    phase: Cell<ConnectionPhase>,
    /// Requests under way: HTTP/2 allows several.
    requests: Cell<u32>,
}

/// A request is under way until this is dropped.
#[derive(Debug)]
pub struct RequestActivity(Activity);

impl Drop for RequestActivity {
    fn drop(&mut self) {
        let left = self.0.0.requests.get() - 1;
        self.0.0.requests.set(left);
        if left == 0 {
            self.0.set_idle();
        }
    }
}

impl Activity {
    pub(crate) fn new(entry: TableEntry) -> Self {
        let phase = Cell::new(ConnectionPhase::Idle(Instant::now()));
        Self(Rc::new(ActivityState { entry, phase, requests: Cell::new(0) }))
    }

    /// Records a complete head. Until the result is dropped, there is no eviction and no timeout.
    #[must_use = "the request is over once it is dropped"]
    pub fn request(&self) -> RequestActivity {
        self.0.requests.set(self.0.requests.get() + 1);
        self.0.entry.set_busy();
        self.0.phase.set(ConnectionPhase::Request);
        RequestActivity(self.clone())
    }

    /// When the current head began to arrive. None while the connection is idle or answers a request.
    pub fn begun(&self) -> Option<Instant> {
        match self.0.phase.get() {
            ConnectionPhase::Head(since) => Some(since),
            ConnectionPhase::Idle(_) | ConnectionPhase::Request => None,
        }
    }

    /// Records that a handshake or a request is complete.
    pub fn set_idle(&self) {
        let now = Instant::now();
        self.0.entry.set_idle(now.into_std());
        self.0.phase.set(ConnectionPhase::Idle(now));
    }

    /// Records that a request was answered as soon as it was read.
    pub fn answered_at_once(&self) {
        if let ConnectionPhase::Head(since) = self.0.phase.get() {
            self.0.entry.set_idle(since.into_std());
            self.0.phase.set(ConnectionPhase::Idle(since));
        }
    }

    /// Runs `serve`, which must read the connection through an [`ActiveStream`], to its end.
    ///
    /// # Errors
    /// If the connection is evicted or too slow. This drops `serve` and its socket.
    pub async fn limited<T>(
        &self,
        timeouts: &ConnectionTimeouts,
        serve: impl Future<Output = T>,
    ) -> Result<T, ConnectionEnd> {
        let mut serve = pin!(serve);
        let mut evicted = pin!(self.0.entry.evicted());
        let due = || self.due(timeouts);
        let soonest = timeouts.idle.min(timeouts.head);
        let mut timer = pin!(sleep_until(due().unwrap_or_else(|| Instant::now() + soonest)));
        let mut is_evicted = false;
        std::future::poll_fn(|cx| {
            is_evicted = is_evicted || evicted.as_mut().poll(cx).is_ready();
            // A request that began at the same moment is answered; no further one begins.
            if is_evicted && due().is_some() {
                return Poll::Ready(Err(ConnectionEnd::Evicted));
            }
            if let Poll::Ready(output) = serve.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if is_evicted && due().is_some() {
                return Poll::Ready(Err(ConnectionEnd::Evicted));
            }
            // A later deadline is noticed when the timer fires, so most requests set no timer.
            if let Some(due) = due().filter(|due| *due < timer.deadline()) {
                timer.as_mut().reset(due);
            }
            while timer.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                match due() {
                    Some(due) if due <= now => return Poll::Ready(Err(self.lateness())),
                    Some(due) => timer.as_mut().reset(due),
                    None => timer.as_mut().reset(now + soonest),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// When the connection times out. None while a request is under way.
    fn due(&self, timeouts: &ConnectionTimeouts) -> Option<Instant> {
        match self.0.phase.get() {
            ConnectionPhase::Idle(since) => Some(since + timeouts.idle),
            ConnectionPhase::Head(since) => Some(since + timeouts.head),
            ConnectionPhase::Request => None,
        }
    }

    fn lateness(&self) -> ConnectionEnd {
        match self.0.phase.get() {
            ConnectionPhase::Head(_) => ConnectionEnd::Head,
            ConnectionPhase::Idle(_) | ConnectionPhase::Request => ConnectionEnd::Idle,
        }
    }

    fn on_bytes(&self) {
        if let ConnectionPhase::Idle(_) = self.0.phase.get() {
            self.0.phase.set(ConnectionPhase::Head(Instant::now()));
        }
    }

    pub(super) fn leave(&self) {
        self.0.entry.leave();
    }
}

/// The methods of `AsyncWrite` but `poll_shutdown`, for a wrapper of the stream in `$field`.
macro_rules! delegate_writes {
    ($field:ident) => {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.$field).poll_write(cx, bytes)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            parts: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.$field).poll_write_vectored(cx, parts)
        }

        fn is_write_vectored(&self) -> bool {
            self.$field.is_write_vectored()
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.$field).poll_flush(cx)
        }
    };
}
pub(crate) use delegate_writes;

/// A socket that reports its bytes to an [`Activity`], and that lingers: after its shutdown it
/// discards what arrives until the client closes, for at most two seconds. Closing both directions at
/// once resets the connection, and a client that is still sending loses the response (RFC 9112,
/// section 9.6).
#[derive(Debug)]
pub struct ActiveStream<S> {
    stream: S,
    activity: Activity,
    /// While it drains, connections do not linger.
    shutdown: Shutdown,
    lingering: Option<Lingering>,
}

#[derive(Debug)]
struct Lingering {
    end: Pin<Box<Sleep>>,
    discarded: Box<[u8]>,
}

impl<S> ActiveStream<S> {
    /// Wraps the connection's socket.
    pub fn new(stream: S, activity: Activity, shutdown: Shutdown) -> Self {
        Self { stream, activity, shutdown, lingering: None }
    }

    /// The wrapped socket.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActiveStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if before < buffer.filled().len() {
            self.activity.on_bytes();
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ActiveStream<S> {
    delegate_writes!(stream);

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, shutdown, lingering, .. } = self.get_mut();
        if lingering.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if shutdown.is_started() {
                return Poll::Ready(Ok(()));
            }
        }
        let Lingering { end, discarded } = lingering.get_or_insert_with(|| Lingering {
            end: Box::pin(sleep(LINGER)),
            discarded: vec![0; DISCARD_BYTES].into_boxed_slice(),
        });
        while end.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(discarded);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => (),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
