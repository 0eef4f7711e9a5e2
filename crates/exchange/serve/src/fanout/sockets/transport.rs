//! Bytes of one connection to a DSP: plain, or TLS (RFC 8446, RFC 5246).
//!
//! Knows which version of HTTP was agreed on, but not HTTP itself, nor the connection's use.

use std::io::{self, IoSlice, Read, Write as _};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::ClientConnection;

use super::permit::SocketPermit;
use super::tls::ALPN_HTTP2;

pub(crate) struct Transport {
    socket: TcpStream,
    kind: TransportKind,
    is_http2: bool,
    _permit: SocketPermit,
}

enum TransportKind {
    Plain {
        /// Not yet taken by the socket.
        unsent: Vec<u8>,
    },
    Tls {
        session: Box<ClientConnection>,
        /// Whether the last read of the socket was short, and so emptied it.
        is_emptied: bool,
    },
}

impl Transport {
    pub(crate) fn plain(socket: TcpStream, is_http2: bool, permit: SocketPermit) -> Self {
        let kind = TransportKind::Plain { unsent: Vec::new() };
        Self { socket, kind, is_http2, _permit: permit }
    }

    /// After the handshake.
    pub(crate) fn tls(socket: TcpStream, session: ClientConnection, permit: SocketPermit) -> Self {
        let is_http2 = session.alpn_protocol() == Some(ALPN_HTTP2);
        let kind = TransportKind::Tls { session: Box::new(session), is_emptied: false };
        Self { socket, kind, is_http2, _permit: permit }
    }

    /// Whether HTTP/2 is spoken.
    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2
    }

    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends `parts`; keeps what the socket does not take.
    ///
    /// # Errors
    /// The connection is dead.
    pub(crate) fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match &mut self.kind {
            // In order: earlier bytes first.
            TransportKind::Plain { unsent } if !unsent.is_empty() => {
                parts.iter().for_each(|part| unsent.extend_from_slice(part));
                Ok(())
            }
            TransportKind::Plain { unsent } => {
                let written = match parts {
                    // `send` costs less than `writev`.
                    [whole] => self.socket.write(whole),
                    parts => self.socket.write_vectored(parts),
                };
                let mut skip = match written {
                    Ok(written) => written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) => return Err(error),
                };
                for part in parts {
                    let skipped = skip.min(part.len());
                    unsent.extend_from_slice(&part[skipped..]);
                    skip -= skipped;
                }
                Ok(())
            }
            TransportKind::Tls { session, .. } => {
                let mut writer = session.writer();
                for part in parts {
                    writer.write_all(part)?;
                }
                flush_tls(session, &mut self.socket)
            }
        }
    }

    /// Sends kept bytes to a writable socket.
    ///
    /// # Errors
    /// The connection is dead.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            TransportKind::Plain { unsent } if unsent.is_empty() => Ok(()),
            TransportKind::Plain { unsent } => {
                while !unsent.is_empty() {
                    match self.socket.write(unsent) {
                        Ok(written) => drop(unsent.drain(..written)),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
                // The next request most likely fits the socket.
                *unsent = Vec::new();
                Ok(())
            }
            TransportKind::Tls { session, .. } => flush_tls(session, &mut self.socket),
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match &self.kind {
            TransportKind::Plain { unsent } => !unsent.is_empty(),
            TransportKind::Tls { session, .. } => session.wants_write(),
        }
    }

    /// Reads available bytes; 0 if the peer has closed its side.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if no bytes have arrived. Other errors
    /// end the connection.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        let TransportKind::Tls { session, is_emptied } = &mut self.kind else {
            return self.socket.read(scratch);
        };
        loop {
            match session.reader().read(scratch) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                read => return read,
            }
            let mut socket = ShortReads { socket: &mut self.socket, is_short: false };
            if session.read_tls(&mut socket)? == 0 {
                return Ok(0); // Without `close_notify`: an unfinished answer is cut off.
            }
            *is_emptied = socket.is_short;
            let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            session.process_new_packets().map_err(malformed)?;
            if session.wants_write() {
                flush_tls(session, &mut self.socket)?;
            }
        }
    }

    /// Whether a read that does not fill the buffer has emptied the socket.
    pub(crate) fn short_read_empties(&self) -> bool {
        match self.kind {
            TransportKind::Plain { .. } => true,
            // It has taken all plaintext, too.
            TransportKind::Tls { is_emptied, .. } => is_emptied,
        }
    }

    pub(crate) fn shut_down(&mut self) {
        if let TransportKind::Tls { session, .. } = &mut self.kind {
            session.send_close_notify();
            drop(flush_tls(session, &mut self.socket));
        }
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

/// Notices a read that does not fill its buffer.
struct ShortReads<'s> {
    socket: &'s mut TcpStream,
    is_short: bool,
}

impl Read for ShortReads<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.read(buffer)?;
        self.is_short = read < buffer.len();
        Ok(read)
    }
}

fn flush_tls(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        match session.write_tls(socket) {
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
