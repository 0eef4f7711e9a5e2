//! A connection to a DSP, and the call it carries.
//!
//! Knows how to push one call out and take one answer in; whom to call, and what an answer means
//! for the auction, is the floor's affair.

use std::os::fd::OwnedFd;

use memchr::memchr;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};

use crate::dsp::Dsp;
use crate::head::{self, Scan};
use crate::inflate::Inflater;
use crate::tls::{self, Session};

/// Bytes that the body of an answer may have, inflated or not.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Room for one answer; a larger one comes in pieces. At least twice what a TLS record takes.
const ANSWER_BYTES: usize = 64 << 10;

/// Buffers that all links share.
pub(crate) struct Room {
    /// Where every answer is read to.
    buffer: Box<[u8]>,
    /// A call in one piece.
    whole: Vec<u8>,
    tls: tls::Room,
    inflater: Inflater,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; ANSWER_BYTES].into_boxed_slice(),
            whole: Vec::new(),
            tls: tls::Room::default(),
            inflater: Inflater::new(BODY_BYTES_MAX),
        }
    }
}

pub(crate) struct Link {
    pub(crate) socket: OwnedFd,
    /// None for a DSP that speaks plain text.
    session: Option<Box<Session>>,
    pub(crate) dsp: usize,
    /// Whether a call can be sent: the handshake is done.
    pub(crate) is_open: bool,
    /// None while the link is opened, or idle.
    pub(crate) call: Option<Call>,
    /// It carried a call before, so the DSP may be about to close it.
    has_served: bool,
    /// The beginning of an answer that did not come in one read, opened.
    inbox: Vec<u8>,
}

pub(crate) struct Call {
    pub(crate) client: usize,
    /// Bytes of it that were sent; under TLS, that were sealed to be sent.
    sent: usize,
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
    /// Begins to connect; events say when to go on. `at` is the place of `dsp`.
    pub(crate) fn open(at: usize, dsp: &Dsp) -> Result<Self, Errno> {
        let ipv4 = dsp.address.is_ipv4();
        let family = if ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        let session = dsp.peer.as_ref().map(Session::new).transpose()?.map(Box::new);
        match connect(&socket, &dsp.address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self {
                socket,
                session,
                dsp: at,
                is_open: false,
                call: None,
                has_served: false,
                inbox: Vec::new(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Goes on with opening, now that the socket is connected.
    pub(crate) fn go_on_opening(&mut self, room: &mut Room) -> Result<(), Errno> {
        if let Some(session) = &mut self.session {
            session.shake_hands(&self.socket, (&mut room.buffer, &mut room.tls))?;
        }
        self.is_open = true;
        Ok(())
    }

    pub(crate) fn begin(&mut self, client: usize) {
        self.call = Some(Call { client, sent: 0 });
    }

    /// Not a byte came back on a link that had served before: the DSP closed it as we wrote, and
    /// another deserves a try.
    pub(crate) fn is_stale(&self) -> bool {
        self.inbox.is_empty()
            && self.session.as_deref().is_none_or(Session::is_between_records)
            && self.has_served
    }

    /// Sends what is left of the call: one `send`, or under TLS one `write`, unless the socket's
    /// buffer is full.
    pub(crate) fn send(&mut self, parts: [&[u8]; 3], room: &mut Room) -> Result<(), Errno> {
        let call = self.call.as_mut().expect("only a link with a call sends");
        let total = parts.iter().map(|part| part.len()).sum();
        if let Some(session) = &mut self.session {
            if call.sent == total {
                return session.flush(&self.socket);
            }
            call.sent = total;
            return session.send(&self.socket, parts, &mut room.tls);
        }
        // Joining three parts costs less than what `writev` does more than `send`.
        let whole = &mut room.whole;
        whole.clear();
        parts.iter().for_each(|part| whole.extend_from_slice(part));
        while call.sent < total {
            call.sent += send(&self.socket, &whole[call.sent..], SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Reads the answer: one `read` unless it comes in pieces. It replaces the winner if larger.
    pub(crate) fn receive(
        &mut self,
        room: &mut Room,
        hung_up: bool,
        winner: &mut Vec<u8>,
    ) -> Progress {
        let Room { buffer, tls, inflater, .. } = room;
        loop {
            let (fresh, is_drained) = match self.read(buffer, tls) {
                Ok(read) => read,
                Err(Errno::AGAIN) => return Progress::Blocked,
                Err(_) => return Progress::Failed,
            };
            let ends = hung_up || self.session.as_deref().is_some_and(Session::is_over);
            let first = self.inbox.is_empty();
            if !first {
                self.inbox.extend_from_slice(fresh);
            }
            let answer = if first { fresh } else { &self.inbox };
            match head::answer(answer, BODY_BYTES_MAX) {
                Scan::Whole(body) => {
                    let at_rest = self.session.as_deref().is_none_or(Session::is_between_records);
                    let reusable = !ends && at_rest && body.end == answer.len();
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
                    self.has_served = true;
                    return Progress::Answered { reusable };
                }
                Scan::Malformed => return Progress::Failed,
                Scan::Partial if first => self.inbox.extend_from_slice(fresh),
                Scan::Partial => (),
            }
            // The rest comes with an event of its own.
            if is_drained && !ends {
                return Progress::Blocked;
            }
        }
    }

    /// What one `recv` brings, and whether it emptied the socket, as one that leaves room does.
    fn read<'r>(
        &mut self,
        buffer: &'r mut [u8],
        tls: &'r mut tls::Room,
    ) -> Result<(&'r [u8], bool), Errno> {
        if let Some(session) = &mut self.session {
            return session.receive(&self.socket, (buffer, tls));
        }
        match recv(&self.socket, &mut *buffer, RecvFlags::empty())?.1 {
            0 => Err(Errno::CONNRESET),
            bytes => Ok((&buffer[..bytes], bytes < buffer.len())),
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
