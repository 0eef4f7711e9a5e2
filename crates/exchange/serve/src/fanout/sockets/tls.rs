//! TLS to DSPs: trust and handshakes.
//!
//! Must not know what follows the handshake.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_kit::tls::{Authorities, client_config};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection};
use tokio::net::TcpStream;

/// The name of HTTP/2 in ALPN (RFC 9113, section 3.2).
pub(super) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Versions of HTTP that a DSP may be spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/2 if the DSP offers it under TLS, else HTTP/1.1.
    Auto,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone, also without TLS.
    Http2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The name that the certificate must have.
    pub server_name: ServerName<'static>,
    /// Trusted signers. None: the system's.
    pub authorities: Option<Authorities>,
}

impl TlsOptions {
    /// Options for a DSP at `host`.
    ///
    /// # Errors
    /// `host` is neither a DNS name nor an address.
    pub fn new(host: &str, authorities: Option<Authorities>) -> Result<Self, InvalidDnsNameError> {
        Ok(Self { server_name: ServerName::try_from(host.to_owned())?, authorities })
    }
}

#[derive(Debug)]
pub(in crate::fanout) struct TlsPeer {
    server_name: ServerName<'static>,
    config: Arc<ClientConfig>,
    versions: HttpVersions,
}

impl TlsPeer {
    pub(in crate::fanout) fn new(options: &TlsOptions, versions: HttpVersions) -> Self {
        // Unreadable system certificates are skipped; the configuration checked ours.
        let mut config = client_config(options.authorities.as_deref());
        let offered: &[&[u8]] = match versions {
            HttpVersions::Auto => &[ALPN_HTTP2, ALPN_HTTP1],
            HttpVersions::Http1 => &[ALPN_HTTP1],
            HttpVersions::Http2 => &[ALPN_HTTP2],
        };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Self { server_name: options.server_name.clone(), config: Arc::new(config), versions }
    }

    /// Shakes hands on an open socket. Adds the thread's time to `took`.
    ///
    /// # Errors
    /// The peer's certificate is invalid, it does not speak the version of HTTP that is required,
    /// or the connection breaks.
    pub(in crate::fanout) async fn shake_hands(
        &self,
        socket: &TcpStream,
        took: &Cell<Duration>,
    ) -> io::Result<ClientConnection> {
        let mut busy_since = Instant::now();
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let session = ClientConnection::new(Arc::clone(&self.config), self.server_name.clone());
        let mut session = session.map_err(invalid)?;
        // Requests are bounded on arrival, so none is cut here.
        session.set_buffer_limit(None);
        let mut socket = NonBlocking(socket);
        while session.is_handshaking() || session.wants_write() {
            took.set(took.get() + busy_since.elapsed());
            if session.wants_write() {
                socket.0.writable().await?;
                busy_since = Instant::now();
                would_block_is_zero(session.write_tls(&mut socket))?;
                continue;
            }
            socket.0.readable().await?;
            busy_since = Instant::now();
            match session.read_tls(&mut socket) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => would_block_is_zero(read)?,
            };
            if let Err(error) = session.process_new_packets() {
                // Send the alert, if the peer still reads.
                drop(session.write_tls(&mut socket));
                took.set(took.get() + busy_since.elapsed());
                return Err(invalid(error));
            }
        }
        took.set(took.get() + busy_since.elapsed());
        if self.versions == HttpVersions::Http2 && session.alpn_protocol() != Some(ALPN_HTTP2) {
            return Err(invalid_data("it does not offer HTTP/2, which `http` requires"));
        }
        Ok(session)
    }
}

fn invalid_data(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn would_block_is_zero(done: io::Result<usize>) -> io::Result<usize> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        done => done,
    }
}

struct NonBlocking<'s>(&'s TcpStream);

impl Read for NonBlocking<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
