//! A connection's socket: whether it has something to read, and the bytes that it has not taken
//! yet. Knows no HTTP.

use std::io;

use super::wire::Wire;

/// What a read has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketInput {
    /// This many bytes.
    Bytes(usize),
    /// Nothing for now.
    Dry,
    /// The peer has shut its side.
    End,
}

#[derive(Debug)]
pub(super) struct ServedSocket {
    wire: Wire,
    /// Whether the socket may have bytes: an edge was seen since it last ran dry.
    readable: bool,
    /// Whether the peer has shut its side, so a short read does not mean a dry socket.
    half_closed: bool,
    /// Bytes that the socket has not taken yet.
    outbox: Vec<u8>,
}

impl ServedSocket {
    pub(super) const fn new(wire: Wire) -> Self {
        Self { wire, readable: false, half_closed: false, outbox: Vec::new() }
    }

    /// Notes an event. Returns whether the socket is still of use.
    pub(super) fn note(&mut self, event: &mio::event::Event) -> bool {
        self.readable |= event.is_readable();
        self.half_closed |= event.is_read_closed();
        !event.is_error() && !event.is_write_closed()
    }

    pub(super) const fn is_readable(&self) -> bool {
        self.readable
    }

    pub(super) const fn is_half_closed(&self) -> bool {
        self.half_closed
    }

    /// The protocol that the TLS handshake has chosen. None without TLS, before the handshake is
    /// over, and if the peer offers no protocol.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.wire.protocol()
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<SocketInput> {
        loop {
            match self.wire.read(buffer) {
                Ok(0) => {
                    self.readable = false;
                    return Ok(SocketInput::End);
                }
                Ok(count) => {
                    // A short read leaves a stream socket dry (epoll(7)), which saves a second call.
                    self.readable =
                        self.half_closed || count == buffer.len() || !self.wire.runs_dry();
                    return Ok(SocketInput::Bytes(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(SocketInput::Dry);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes `bytes`; the outbox keeps what the socket does not take.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        if self.outbox.is_empty() {
            while sent < bytes.len() {
                match self.wire.write(&bytes[sent..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    Err(error) => return Err(error),
                }
            }
        }
        self.outbox.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Whether the outbox keeps bytes.
    pub(super) const fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Writes the outbox. Returns whether the socket has taken everything.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if !self.outbox.is_empty() {
            let outbox = std::mem::take(&mut self.outbox);
            self.send(&outbox)?;
        }
        Ok(self.wire.flush()? && self.outbox.is_empty())
    }

    /// Shuts our side cleanly, once all is flushed.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.wire.finish()
    }

    /// Makes the next close a reset.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        self.wire.reset()
    }

    /// Discards input until the socket is dry. Returns how much more may be discarded. None once the
    /// peer has closed or the limit is reached.
    pub(super) fn discard(
        &mut self,
        mut left: usize,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        loop {
            match self.read(buffer)? {
                SocketInput::Bytes(count) if count < left => left -= count,
                SocketInput::Bytes(_) | SocketInput::End => return Ok(None),
                SocketInput::Dry => return Ok(Some(left)),
            }
        }
    }
}
