//! A TCP stream that knows when the kernel received the bytes read from it, so that a late reader
//! can tell how late it is.
//!
//! The kernel stamps each packet with the wall clock (`SO_TIMESTAMPNS`, which listeners of
//! [`crate::listen`] set and their sockets inherit). This module must not know what is read.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::shards::delegate_writes;

/// Longest wait to believe: the wall clock may change between receipt and reading.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// When the kernel received the request being read. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ArrivalClock(Rc<Cell<Option<Instant>>>);

impl ArrivalClock {
    /// When the kernel received the last bytes read; after a complete head, its arrival. None if
    /// nothing was read since the last call, since two requests arrived together, or if reads are not
    /// dated.
    pub fn take(&self) -> Option<Instant> {
        self.0.take()
    }

    /// When the kernel received the last bytes read. For requests that overlap: it stays available to
    /// the next one.
    pub fn last(&self) -> Option<Instant> {
        self.0.get()
    }

    /// Forgets the bytes of a finished request.
    pub fn reset(&self) {
        self.0.set(None);
    }

    /// Records a read of bytes that the kernel received at `stamp`, by the wall clock.
    fn note(&self, stamp: Option<TimeSpec>) {
        let waited = stamp.and_then(waited_since).unwrap_or_default();
        let now = Instant::now();
        self.0.set(Some(now.checked_sub(waited.min(WAIT_MAX)).unwrap_or(now)));
    }
}

/// Time since `stamp`, by the wall clock. None if the clock was set back meanwhile.
fn waited_since(stamp: TimeSpec) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    now.checked_sub(Duration::from(stamp))
}

/// A stream whose reads set its [`ArrivalClock`], if they are dated.
#[derive(Debug)]
pub struct StampedStream {
    stream: TcpStream,
    clock: ArrivalClock,
    /// Room for the kernel's stamp. None if reads are not dated.
    control: Option<Vec<u8>>,
}

impl StampedStream {
    /// Wraps `stream`.
    pub fn new(stream: TcpStream, is_dated: bool) -> Self {
        let control = is_dated.then(|| nix::cmsg_space!(TimeSpec));
        Self { stream, clock: ArrivalClock::default(), control }
    }

    /// The wrapped stream.
    pub const fn get_ref(&self) -> &TcpStream {
        &self.stream
    }

    /// The clock that its reads set.
    pub fn clock(&self) -> ArrivalClock {
        self.clock.clone()
    }
}

/// Reads once; returns the number of bytes and, if known, when the kernel received the last one.
fn receive(
    stream: &TcpStream,
    into: &mut [u8],
    control: &mut [u8],
) -> io::Result<(usize, Option<TimeSpec>)> {
    let mut into = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut into, Some(control), flags)?;
    let stamp = message.cmsgs().ok().and_then(|mut messages| {
        messages.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
            _ => None,
        })
    });
    Ok((message.bytes, stamp))
}

impl AsyncRead for StampedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, clock, control } = self.get_mut();
        let Some(control) = control else { return Pin::new(stream).poll_read(cx, into) };
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let room = into.initialize_unfilled();
            let wanted = room.len();
            match stream.try_io(Interest::READABLE, || receive(stream, room, control)) {
                Ok((read, stamp)) => {
                    if 0 < read {
                        clock.note(stamp);
                    }
                    if 0 < read && read < wanted {
                        // Nothing is left: clear readiness to save the next read a system call.
                        let drained = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
                        let _ = stream.try_io(Interest::READABLE, drained);
                    }
                    into.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for StampedStream {
    delegate_writes!(stream);

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
