//! The bytes of one connection, plain or under TLS. Knows neither HTTP nor when the socket is
//! ready.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// Most plain bytes that a TLS session buffers while its socket is full.
const HELD_BYTES: usize = 64 * 1024;

/// A connection's socket.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsWire>),
}

#[derive(Debug)]
pub(super) struct TlsWire {
    stream: TcpStream,
    session: ServerConnection,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        let Some(config) = tls else { return Ok(Self::Plain(stream)) };
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(HELD_BYTES));
        Ok(Self::Tls(Box::new(TlsWire { stream, session })))
    }

    /// Whether a short read leaves the socket dry (epoll(7)): not under TLS, which reads records.
    pub(super) const fn runs_dry(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// The protocol that the handshake has chosen. None if there is no such protocol, or not yet.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(wire) => wire.session.alpn_protocol(),
        }
    }

    /// Plain bytes; 0 is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(wire) => wire.read(buffer),
        }
    }

    /// Takes some of `bytes`, or would block.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(wire) => wire.write(bytes),
        }
    }

    /// Whether the socket has taken everything.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(wire) => wire.flush(),
        }
    }

    /// Shuts our side cleanly, once all is flushed.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(wire) => {
                wire.session.send_close_notify();
                wire.flush()?;
                wire.stream.shutdown(Shutdown::Write)
            }
        }
    }

    /// Makes the next close a reset.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(wire) => &wire.stream,
        };
        Ok(rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
    }
}

impl TlsWire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                // The peer left without a TLS close, as many do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.session.read_tls(&mut self.stream)? == 0 {
                // The session may hold more bytes, but the peer will not read them.
                return Ok(0);
            }
            let processed = self.session.process_new_packets();
            // Replies of the handshake, or the alert that reports its failure.
            self.flush()?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
