//! TLS to DSPs (RFC 8446, RFC 5246): trusted authorities, and one session per connection.
//!
//! All connections share the floor's buffers. A session itself keeps only unsent bytes and an
//! incomplete record. Must not know HTTP, nor the purpose of a connection.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rustix::io::{Errno, read, write};
use rustls::client::UnbufferedClientConnection;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{ClientConfig, RootCertStore};

/// The authorities in a PEM file.
pub(crate) fn authorities(pem: &[u8]) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.context("not PEM")?).context("not an authority")?;
    }
    ensure!(!roots.is_empty(), "holds no certificate in PEM");
    Ok(Arc::new(roots))
}

/// State shared by the sessions with one DSP, including resumption tickets.
pub(crate) struct Peer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Peer {
    /// A peer at `host`. Provider, versions, protocol and resumption are the exchange's.
    pub(crate) fn new(host: &str, roots: &Arc<RootCertStore>) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned())?;
        let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(Arc::clone(roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }
}

/// Buffers shared by all sessions.
#[derive(Default)]
pub(crate) struct Room {
    /// A joined call: one record, unless it is too long.
    joined: Vec<u8>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
}

pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    /// The beginning of an incomplete record or message.
    partial: Vec<u8>,
    /// Unsent bytes.
    unsent: Vec<u8>,
    has_shaken_hands: bool,
    /// Whether the DSP has sent close_notify, so nothing more will come.
    is_over: bool,
}

impl Session {
    /// A session whose first message is ready to be sent.
    pub(crate) fn new(peer: &Peer) -> Result<Self, Errno> {
        let config = Arc::clone(&peer.config);
        let connection = UnbufferedClientConnection::new(config, peer.name.clone());
        let mut session = Self {
            connection: connection.map_err(|_| Errno::PROTO)?,
            partial: Vec::new(),
            unsent: Vec::new(),
            has_shaken_hands: false,
            is_over: false,
        };
        session.take(&mut [], &mut Room::default())?;
        Ok(session)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether no incomplete record is buffered.
    pub(crate) fn is_between_records(&self) -> bool {
        self.partial.is_empty()
    }

    /// Continues the handshake, if it is not done; its last message leaves with the first call.
    pub(crate) fn shake_hands(
        &mut self,
        socket: &OwnedFd,
        (buffer, room): (&mut [u8], &mut Room),
    ) -> Result<(), Errno> {
        while !self.has_shaken_hands {
            self.flush(socket)?;
            self.fill(socket, buffer, room)?;
        }
        Ok(())
    }

    /// Seals a call and sends it with one `write`, unless the socket is full or there are unsent
    /// bytes.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        parts: [&[u8]; 3],
        room: &mut Room,
    ) -> Result<(), Errno> {
        room.joined.clear();
        for part in parts {
            room.joined.extend_from_slice(part);
        }
        // The incomplete record must precede the session's input until the rest comes.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.partial);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(Errno::PROTO);
        };
        let sealed = written(&mut room.sealed, |to| match traffic.encrypt(&room.joined, to) {
            Ok(bytes) => Ok(bytes),
            Err(EncryptError::InsufficientSize(error)) => Err(Some(error)),
            Err(EncryptError::EncryptExhausted) => Err(None),
        })?;
        let sent = if self.unsent.is_empty() { write_some(socket, sealed)? } else { 0 };
        self.unsent.extend_from_slice(&sealed[sent..]);
        self.flush(socket)
    }

    /// Sends the unsent bytes.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while !self.unsent.is_empty() {
            let sent = write(socket, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// The decrypted bytes of one `read`, possibly none, and whether it emptied the socket.
    pub(crate) fn receive<'r>(
        &mut self,
        socket: &OwnedFd,
        (buffer, room): (&mut [u8], &'r mut Room),
    ) -> Result<(&'r [u8], bool), Errno> {
        if self.is_over {
            return Err(Errno::CONNRESET);
        }
        let is_drained = self.fill(socket, buffer, room)?;
        Ok((&room.opened, is_drained))
    }

    /// Reads once, after the incomplete record, and processes what is complete.
    fn fill(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
        room: &mut Room,
    ) -> Result<bool, Errno> {
        let held = self.partial.len();
        buffer[..held].copy_from_slice(&self.partial);
        let bytes = read(socket, &mut buffer[held..])?;
        if bytes == 0 {
            return Err(Errno::CONNRESET);
        }
        room.opened.clear();
        let here = &mut buffer[..held + bytes];
        let taken = self.take(here, room)?;
        self.partial.clear();
        self.partial.extend_from_slice(&here[taken..]);
        Ok(held + bytes < buffer.len())
    }

    /// Processes all complete records of `bytes` and returns their length. Replies to them may wait
    /// until the next call, as TLS permits.
    fn take(&mut self, bytes: &mut [u8], room: &mut Room) -> Result<usize, Errno> {
        let mut taken = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(&mut bytes[taken..]);
            let mut is_idle = false;
            match state.map_err(|_| Errno::PROTO)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|_| Errno::PROTO)?;
                        taken += record.discard;
                        room.opened.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    let message = written(&mut room.sealed, |to| match message.encode(to) {
                        Ok(bytes) => Ok(bytes),
                        Err(EncodeError::InsufficientSize(error)) => Err(Some(error)),
                        Err(EncodeError::AlreadyEncoded) => Err(None),
                    })?;
                    self.unsent.extend_from_slice(message);
                }
                // It only has to be sent before everything that follows.
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.is_over = true,
                ConnectionState::WriteTraffic(_) => {
                    self.has_shaken_hands = true;
                    is_idle = true;
                }
                _ => is_idle = true,
            }
            taken += discard;
            if is_idle {
                return Ok(taken);
            }
        }
    }
}

/// The bytes that `write` has written into `room`, which grows as needed.
fn written(
    room: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<&[u8], Errno> {
    let bytes = match write(room) {
        Err(Some(InsufficientSizeError { required_size })) => {
            room.resize(required_size, 0);
            write(room)
        }
        done => done,
    };
    Ok(&room[..bytes.map_err(|_| Errno::PROTO)?])
}

/// Number of `bytes` that the socket takes at once.
fn write_some(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match write(socket, bytes) {
        Err(Errno::AGAIN) => Ok(0),
        done => done,
    }
}
