//! The transport to a simulated DSP: a socket, or a rustls session on it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{
    ALL_VERSIONS, HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

/// Self-signed for the DSPs' address, so it is its own authority.
static CERTIFICATE: LazyLock<CertifiedKey<KeyPair>> = LazyLock::new(|| signed_for("127.0.0.1"));

/// A self-signed certificate.
pub(crate) fn signed_for(name: &str) -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([name.to_owned()]).expect("a name or an address")
}

/// The transport of all connections to a DSP.
#[derive(Clone)]
pub(crate) enum Wire {
    Plain,
    Tls(Tls),
}

impl Wire {
    /// TLS with usual settings.
    pub(crate) fn tls() -> Self {
        Self::Tls(Tls::new(ALL_VERSIONS, None))
    }

    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls(_) => "https",
        }
    }

    pub(crate) fn accept(&self, socket: TcpStream) -> Stream {
        socket.set_nodelay(true).expect("a TCP socket");
        match self {
            Self::Plain => Stream::Plain(socket),
            Self::Tls(tls) => {
                let session = ServerConnection::new(Arc::clone(&tls.config)).expect("a session");
                let socket = Socket { socket, in_crumbs: tls.in_crumbs };
                let log = Arc::clone(&tls.handshakes);
                Stream::Tls(Box::new(StreamOwned::new(session, socket)), log)
            }
        }
    }
}

/// A handshake as seen by the DSP.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Handshake {
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) kind: Option<HandshakeKind>,
    pub(crate) protocol: Option<Vec<u8>>,
}

#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    /// Whether each byte is sent in a segment of its own.
    pub(crate) in_crumbs: bool,
    handshakes: Arc<Mutex<Vec<Handshake>>>,
}

impl Tls {
    /// With these versions; handshake messages are split into records of at most `fragment_max`
    /// bytes.
    pub(crate) fn new(
        versions: &[&'static SupportedProtocolVersion],
        fragment_max: Option<usize>,
    ) -> Self {
        Self::with(&CERTIFICATE, versions, fragment_max)
    }

    pub(crate) fn with(
        certificate: &CertifiedKey<KeyPair>,
        versions: &[&'static SupportedProtocolVersion],
        fragment_max: Option<usize>,
    ) -> Self {
        let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key.into())
            .expect("they go together");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.max_fragment_size = fragment_max;
        Self { config: Arc::new(config), in_crumbs: false, handshakes: Arc::default() }
    }

    /// The DSPs' authority, as PEM.
    pub(crate) fn authority() -> String {
        CERTIFICATE.cert.pem()
    }

    pub(crate) fn handshakes(&self) -> Vec<Handshake> {
        self.handshakes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One connection of a DSP.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, Socket>>, Arc<Mutex<Vec<Handshake>>>),
}

impl Stream {
    /// Logs the completed handshake.
    pub(crate) fn log_handshake(&self) {
        let Self::Tls(stream, log) = self else { return };
        let handshake = Handshake {
            version: stream.conn.protocol_version(),
            kind: stream.conn.handshake_kind(),
            protocol: stream.conn.alpn_protocol().map(<[u8]>::to_vec),
        };
        log.lock().unwrap_or_else(PoisonError::into_inner).push(handshake);
    }

    /// Sends close_notify, if the transport has it.
    pub(crate) fn say_farewell(&mut self) {
        let Self::Tls(stream, _) = self else { return };
        stream.conn.send_close_notify();
        // The floor may have gone.
        drop(stream.flush());
    }

    /// Reads until the floor closes the connection.
    pub(crate) fn wait_for_the_end(&mut self) {
        drop(io::copy(self, &mut io::sink()));
    }

    /// Updates the keys of both directions.
    pub(crate) fn change_keys(&mut self) {
        let Self::Tls(stream, _) = self else { return };
        stream.conn.refresh_traffic_keys().expect("TLS 1.3");
    }

    /// Sends `whole` and the first half of the sealed `cut` in one write.
    pub(crate) fn write_and_half(&mut self, whole: &[u8], cut: &[u8]) -> io::Result<()> {
        let Self::Tls(stream, _) = self else {
            return self.write_all(&[whole, &cut[..cut.len() / 2]].concat());
        };
        let (mut sealed, mut cut_sealed) = (Vec::new(), Vec::new());
        stream.conn.writer().write_all(whole)?;
        stream.conn.write_tls(&mut sealed)?;
        stream.conn.writer().write_all(cut)?;
        stream.conn.write_tls(&mut cut_sealed)?;
        sealed.extend_from_slice(&cut_sealed[..cut_sealed.len() / 2]);
        stream.sock.write_all(&sealed)
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream, _) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream, _) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream, _) => stream.flush(),
        }
    }
}

/// A socket that may send single bytes.
pub(crate) struct Socket {
    socket: TcpStream,
    in_crumbs: bool,
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.read(bytes)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = if self.in_crumbs { bytes.len().min(1) } else { bytes.len() };
        self.socket.write(&bytes[..most])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
