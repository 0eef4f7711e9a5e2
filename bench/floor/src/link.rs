//! A connection to a DSP, and the call it carries.
//!
//! Knows how to push one call out and take one answer in; whom to call, and what an answer means
//! for the auction, is the floor's affair.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use memchr::memchr;
use rustix::io::{Errno, read, writev};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::head::{self, Scan};
use crate::inflate::Inflater;

/// Bytes that the body of an answer may have, inflated or not.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 10;

pub(crate) struct Link {
    pub(crate) socket: OwnedFd,
    pub(crate) dsp: usize,
    /// None while the link is idle.
    pub(crate) call: Option<Call>,
    /// The beginning of an answer that did not come in one read.
    inbox: Vec<u8>,
}

pub(crate) struct Call {
    pub(crate) client: usize,
    sent: usize,
    /// The link carried a call before this one, so the DSP may have been about to close it.
    reused: bool,
}

/// What became of a call once nothing more can be done for it now.
pub(crate) enum Progress {
    Blocked,
    /// Whether the link can carry another call.
    Answered {
        reusable: bool,
    },
    Failed,
}

impl Link {
    /// Begins to connect; the first event says that it may send.
    pub(crate) fn open(dsp: usize, address: &SocketAddr, client: usize) -> Result<Self, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {
                let call = Some(Call { client, sent: 0, reused: false });
                Ok(Self { socket, dsp, call, inbox: Vec::new() })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn reuse(&mut self, client: usize) {
        self.call = Some(Call { client, sent: 0, reused: true });
    }

    /// Not a byte came back on a link that had served before: the DSP closed it as we wrote, and
    /// a fresh one deserves a try.
    pub(crate) fn is_stale(&self) -> bool {
        self.inbox.is_empty() && self.call.as_ref().is_some_and(|call| call.reused)
    }

    /// Sends what is left of the call: one `writev` unless the socket's buffer is full.
    pub(crate) fn send(&mut self, parts: [&[u8]; 3]) -> Result<(), Errno> {
        let call = self.call.as_mut().expect("only a link with a call sends");
        let total = parts.iter().map(|part| part.len()).sum();
        while call.sent < total {
            let mut slices = parts.map(IoSlice::new);
            let mut rest = &mut slices[..];
            IoSlice::advance_slices(&mut rest, call.sent);
            call.sent += writev(&self.socket, rest)?;
        }
        Ok(())
    }

    /// Reads the answer: one `read` unless it comes in pieces. It replaces the winner if larger.
    pub(crate) fn receive(
        &mut self,
        (buffer, inflater): (&mut [u8], &mut Inflater),
        hung_up: bool,
        winner: &mut Vec<u8>,
    ) -> Progress {
        loop {
            let bytes = match read(&self.socket, &mut *buffer) {
                Ok(0) => return Progress::Failed,
                Ok(bytes) => bytes,
                Err(Errno::AGAIN) => return Progress::Blocked,
                Err(_) => return Progress::Failed,
            };
            let first = self.inbox.is_empty();
            if !first {
                self.inbox.extend_from_slice(&buffer[..bytes]);
            }
            let answer = if first { &buffer[..bytes] } else { &self.inbox };
            match head::answer(answer, BODY_BYTES_MAX) {
                Scan::Whole(body) => {
                    let reusable = !hung_up && body.end == answer.len();
                    let body = &answer[body];
                    // JSON begins otherwise.
                    let is_gzip = body.starts_with(&[0x1f, 0x8b]);
                    let Some(body) = (if is_gzip { inflater.gunzip(body) } else { Some(body) })
                    else {
                        return Progress::Failed;
                    };
                    keep_larger(body, winner);
                    self.inbox.clear();
                    self.call = None;
                    return Progress::Answered { reusable };
                }
                Scan::Malformed => return Progress::Failed,
                Scan::Partial if first => self.inbox.extend_from_slice(&buffer[..bytes]),
                Scan::Partial => (),
            }
            // A read that left room emptied the socket: the rest comes with an event of its own.
            if bytes < buffer.len() && !hung_up {
                return Progress::Blocked;
            }
        }
    }
}

/// The scan stands for the one that any parser must make. It always runs to the end, for JSON
/// text has no NUL in it; a body that has one is no bid.
fn keep_larger(body: &[u8], winner: &mut Vec<u8>) {
    if memchr(0, body).is_none() && body.len() > winner.len() {
        winner.clear();
        winner.extend_from_slice(body);
    }
}
