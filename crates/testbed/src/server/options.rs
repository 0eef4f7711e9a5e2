//! Options of simulated servers, and the errors of starting them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use runtime::listen::ListenError;

use super::tls::ServerTls;

/// Where servers listen, and their limits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address that all of them listen on.
    pub listen: IpAddr,
    /// Server `i` listens on this port plus `i`. None lets the system choose.
    pub base_port: Option<u16>,
    /// Threads that share the servers, at least 1.
    pub threads: usize,
    /// Core of the first thread, the others following. None leaves them to the scheduler.
    pub core: Option<usize>,
    /// Largest request body, in bytes; larger is answered 413.
    pub body_bytes_max: usize,
    /// Most connections of one thread; more are closed at once.
    pub connections_max: usize,
    /// Serves only TLS. None serves plain HTTP.
    pub tls: Option<ServerTls>,
    /// The versions of HTTP that clients may speak.
    pub http: ServedVersions,
}

/// The versions of HTTP that servers speak. Under TLS, ALPN chooses. Without it, a connection that
/// begins with the preface of HTTP/2 speaks HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServedVersions {
    /// HTTP/1.1 and HTTP/2, which ALPN prefers.
    #[default]
    Both,
    /// HTTP/1.1 only: the preface of HTTP/2 is a malformed request.
    Http1,
    /// HTTP/2 only: a connection that begins with anything but its preface is closed.
    Http2,
}

impl Default for ServerOptions {
    /// Loopback, ports chosen by the system, one thread, 256 KiB bodies, both versions of HTTP.
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            base_port: None,
            threads: 1,
            core: None,
            body_bytes_max: 256 * 1024,
            connections_max: 65_536,
            tls: None,
            http: ServedVersions::Both,
        }
    }
}

impl ServerOptions {
    /// Checks the options for `count` servers.
    pub(super) fn check(&self, count: usize) -> Result<(), ServerError> {
        if count == 0 {
            return Err(ServerError::Options("at least one server"));
        }
        if self.threads == 0 {
            return Err(ServerError::Options("at least one thread"));
        }
        match self.base_port {
            Some(base) if usize::from(base) + count > usize::from(u16::MAX) + 1 => {
                let problem = "a base port that leaves room for every server below 65536";
                Err(ServerError::Options(problem))
            }
            _ => Ok(()),
        }
    }

    /// Address of server `index`, from checked options.
    pub(super) fn address(&self, index: usize) -> SocketAddr {
        let port = self.base_port.map_or(0, |base| {
            u16::try_from(usize::from(base) + index).expect("every port was checked to fit")
        });
        SocketAddr::new(self.listen, port)
    }

    /// The origins of the `count` servers: `http://<address>` or `https://<address>`.
    ///
    /// # Errors
    ///
    /// If the options make no sense, or if they let the system choose the ports.
    pub fn origins(&self, count: usize) -> Result<Vec<String>, ServerError> {
        self.check(count)?;
        self.base_port.ok_or(ServerError::Options("a base port"))?;
        Ok((0..count).map(|index| self.origin(self.address(index))).collect())
    }

    pub(super) fn origin(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }
}

/// Why servers did not start, or a running one was not changed. The caller can fix all but the last
/// two. No server is left half started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The options make no sense.
    #[error("simulated servers need {0}")]
    Options(&'static str),
    /// A server cannot listen, most often because the port is in use.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread cannot be placed on its core.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The requested core.
        core: usize,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such server.
    #[error("there is no server {index} among {count}")]
    Unknown {
        /// The requested index.
        index: usize,
        /// The number of servers.
        count: usize,
    },
    /// The behaviour or another change makes no sense.
    #[error("server {index}: {problem}")]
    Change {
        /// Index of the server.
        index: usize,
        /// The problem and the valid limits.
        problem: &'static str,
    },
    /// The server's thread has ended early; [`super::Servers::stop`] returns why.
    #[error("the thread of server {index} has failed")]
    Gone {
        /// Index of the server.
        index: usize,
    },
    /// The system refused a thread or a poll.
    #[error("cannot start a thread for simulated servers: {0}")]
    System(#[from] io::Error),
}
