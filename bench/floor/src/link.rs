//! A connection to a DSP, and the call that it carries.
//!
//! Knows how to send one call and receive one answer; the floor decides whom to call, and what an
//! answer means.

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

/// Longest body of an answer, inflated or not.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Buffer for one answer; a larger one comes in pieces. At least two TLS records.
const ANSWER_BYTES: usize = 64 << 10;

/// Buffers that all links share.
pub(crate) struct Room {
    /// The buffer for reading answers.
    buffer: Box<[u8]>,
    /// The buffer for a joined call.
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
    /// None without TLS.
    session: Option<Box<Session>>,
    pub(crate) dsp: usize,
    /// Whether the handshake is done, so a call can be sent.
    pub(crate) is_open: bool,
    /// None while the link is opening or idle.
    pub(crate) call: Option<Call>,
    /// Whether it carried a call before, so the DSP may be about to close it.
    has_served: bool,
    /// The decrypted beginning of an answer that needs more reads.
    inbox: Vec<u8>,
}

pub(crate) struct Call {
    pub(crate) client: usize,
    /// Bytes sent; under TLS, bytes sealed to be sent.
    sent: usize,
}

/// The state of a call after all work that needs no waiting.
pub(crate) enum Progress {
    Blocked,
    /// Whether the link can carry another call.
    Answered {
        reusable: bool,
    },
    Failed,
}

impl Link {
    /// Begins to connect; events report the progress. `at` is the index of `dsp`.
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

    /// Continues opening once the socket is connected.
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

    /// No byte came back on a reused link: the DSP closed it while we wrote, so the call deserves
    /// another attempt.
    pub(crate) fn is_stale(&self) -> bool {
        self.inbox.is_empty()
            && self.session.as_deref().is_none_or(Session::is_between_records)
            && self.has_served
    }

    /// Sends the rest of the call: one `send`, or under TLS one `write`, unless the socket's buffer
    /// is full.
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
        // Joining three parts costs less than `writev` costs more than `send`.
        let whole = &mut room.whole;
        whole.clear();
        parts.iter().for_each(|part| whole.extend_from_slice(part));
        while call.sent < total {
            call.sent += send(&self.socket, &whole[call.sent..], SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Reads the answer, with one `read` unless it comes in pieces. It replaces a smaller winner.
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
                    // JSON never begins like this.
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
            // The rest has an event of its own.
            if is_drained && !ends {
                return Progress::Blocked;
            }
        }
    }

    /// The bytes of one `recv`, and whether it emptied the socket: a short read does.
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

/// This scan represents the one that any parser must make. It always runs to the end, because JSON
/// text has no NUL; a body with one is no bid.
fn keep_larger(body: &[u8], winner: &mut Vec<u8>) {
    if memchr(0, body).is_none() && body.len() > winner.len() {
        winner.clear();
        winner.extend_from_slice(body);
    }
}
