//! One HTTP/2 connection to a DSP, which the calls of all auctions share.
//!
//! The least of RFC 9113 and RFC 7541: calls are prebuilt frames, of an answer only the length, the
//! type and the stream of each frame are looked at, and every violation ends the program. Windows
//! are assumed to be large enough.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::io::{Errno, read, write};

use crate::dsp::Dsp;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const PAYLOAD_BYTES_MAX: usize = 16_384;
const WINDOW: u32 = (1 << 31) - 1;
/// Answers' bytes after which the window is enlarged again.
const CREDIT_BYTES: u32 = 1 << 28;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) struct Pipe {
    pub(crate) socket: OwnedFd,
    /// Frames that the socket has not taken.
    out: Vec<u8>,
    sent: usize,
    /// An incomplete frame.
    partial: Vec<u8>,
    /// The constant fields of the first call's head, then of the others'.
    fields: [Vec<u8>; 2],
    next_stream: u32,
    /// Clients of the streams from `first_stream` on. None once answered.
    calls: VecDeque<Option<usize>>,
    first_stream: u32,
    received: u32,
    /// Whether it waits for the end of the turn.
    pub(crate) is_dirty: bool,
}

impl Pipe {
    /// Connects, and prepares the preface.
    pub(crate) fn open(dsp: &Dsp) -> Result<Self> {
        ensure!(dsp.peer.is_none(), "--http2 is spoken without TLS here");
        let socket = TcpStream::connect(dsp.address)
            .with_context(|| format!("cannot connect to {}", dsp.address))?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut out = PREFACE.to_vec();
        // ENABLE_PUSH 0, INITIAL_WINDOW_SIZE.
        let [w1, w2, w3, w4] = WINDOW.to_be_bytes();
        append(&mut out, SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0, 0, 4, w1, w2, w3, w4]);
        append(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW - 65_535).to_be_bytes());
        Ok(Self {
            socket: socket.into(),
            out,
            sent: 0,
            partial: Vec::new(),
            fields: fields(dsp),
            next_stream: 1,
            calls: VecDeque::new(),
            first_stream: 1,
            received: 0,
            is_dirty: true,
        })
    }

    /// Adds a call; `length` begins with the digits of the body's length.
    pub(crate) fn call(&mut self, client: usize, length: &[u8], body: &[u8]) {
        let stream = self.next_stream;
        let fields = &self.fields[usize::from(stream > 1)];
        self.next_stream += 2;
        self.calls.push_back(Some(client));
        let digits = length.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let head_bytes = fields.len() + 3 + digits.len();
        self.out.extend_from_slice(&header(head_bytes, HEADERS, END_HEADERS, stream));
        self.out.extend_from_slice(fields);
        // `content-length`, not indexed.
        self.out.extend_from_slice(&[0x0f, 0x0d, u8::try_from(digits.len()).unwrap_or(0)]);
        self.out.extend_from_slice(digits);
        let mut chunks = body.chunks(PAYLOAD_BYTES_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            let flags = if chunks.peek().is_none() { END_STREAM } else { 0 };
            append(&mut self.out, DATA, flags, stream, chunk);
        }
    }

    /// Writes what the turn has added.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while self.sent < self.out.len() {
            match write(&self.socket, &self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => bail!("a DSP's connection fails: {error}"),
            }
        }
        self.sent = 0;
        self.out.clear();
        Ok(())
    }

    /// Reads once, and passes client and body of each answer to `on_answer`: the body is that of
    /// its last frame. Returns whether there may be more to read.
    pub(crate) fn receive(
        &mut self,
        room: &mut [u8],
        on_answer: &mut impl FnMut(usize, &[u8]),
    ) -> Result<bool> {
        let read = match read(&self.socket, &mut *room) {
            Ok(0) => bail!("a DSP has closed its connection"),
            Ok(read) => read,
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => bail!("a DSP's connection fails: {error}"),
        };
        let bytes = &room[..read];
        if self.partial.is_empty() {
            let rest = self.frames(bytes, on_answer)?;
            self.partial.extend_from_slice(rest);
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            let rest = self.frames(&whole, on_answer)?.len();
            whole.drain(..whole.len() - rest);
            self.partial = whole;
        }
        Ok(read == room.len())
    }

    fn frames<'b>(
        &mut self,
        mut bytes: &'b [u8],
        on_answer: &mut impl FnMut(usize, &[u8]),
    ) -> Result<&'b [u8]> {
        while let Some(&[a, b, c, kind, flags, s1, s2, s3, s4]) = bytes.first_chunk() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let stream = u32::from_be_bytes([s1, s2, s3, s4]);
            let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + length) else { break };
            match kind {
                DATA | HEADERS => {
                    let body = if kind == DATA { payload } else { &[] };
                    self.received += u32::try_from(body.len())?;
                    if flags & END_STREAM != 0 {
                        on_answer(self.end(stream)?, body);
                    }
                }
                SETTINGS if flags & ACK == 0 => append(&mut self.out, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => append(&mut self.out, PING, ACK, 0, payload),
                RESET | GO_AWAY => bail!("a DSP ends a stream or its connection"),
                _ => (),
            }
            bytes = &bytes[HEADER_BYTES + length..];
        }
        if self.received >= CREDIT_BYTES {
            append(&mut self.out, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
        Ok(bytes)
    }

    /// The client of a stream that ends.
    fn end(&mut self, stream: u32) -> Result<usize> {
        let place = stream.checked_sub(self.first_stream).map(|above| (above / 2) as usize);
        let call = place.and_then(|place| self.calls.get_mut(place)?.take());
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
            self.first_stream += 2;
        }
        call.context("a DSP answers what was not asked")
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }
}

/// The constant fields of a head: with literals that are kept, then with their indexes.
fn fields(dsp: &Dsp) -> [Vec<u8>; 2] {
    // POST, http.
    let (mut first, mut later) = (vec![0x83, 0x86], vec![0x83, 0x86]);
    // Names by their static index, with incremental indexing.
    let mut literals = vec![
        (vec![0x44], dsp.path.clone()),
        (vec![0x41], dsp.authority.clone()),
        (vec![0x5f], "application/json".to_owned()),
        ([b"\x40\x11".as_slice(), b"x-openrtb-version"].concat(), "2.6".to_owned()),
    ];
    if dsp.accepts_gzip {
        literals.push((vec![0x50], "gzip".to_owned()));
    }
    let newest = 61 + literals.len();
    for (place, (name, value)) in literals.into_iter().enumerate() {
        first.extend(name);
        first.push(u8::try_from(value.len().min(126)).unwrap_or(0));
        first.extend_from_slice(&value.as_bytes()[..value.len().min(126)]);
        later.push(0x80 | u8::try_from(newest - place).unwrap_or(0));
    }
    [first, later]
}

fn append(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&header(payload.len(), kind, flags, stream));
    out.extend_from_slice(payload);
}

fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER_BYTES] {
    let [_, l1, l2, l3] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    [l1, l2, l3, kind, flags, s1, s2, s3, s4]
}
