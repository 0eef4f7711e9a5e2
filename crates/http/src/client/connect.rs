//! Opens connections to servers: resolves names, checks addresses right before they are used, and
//! shakes hands. Must not know what is sent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::stream::{HTTP2, TransportStream};
use crate::address::is_public;
use crate::dns::Resolve;

/// Addresses that the client may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// All: the operator chose the host.
    Any,
    /// Public ones and these: somebody else chose the host.
    PublicAnd(Vec<IpNet>),
}

impl AddressRule {
    fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::PublicAnd(networks) => {
                is_public(address) || networks.iter().any(|network| network.contains(&address))
            }
        }
    }
}

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The name does not resolve.
    #[error("the host cannot be resolved: {0}")]
    Unresolved(String),
    /// No address is public or explicitly allowed.
    #[error("{0} is not a public address")]
    Forbidden(IpAddr),
    /// No connection could be opened.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Too many connections are open, to all servers.
    #[error("too many connections are open")]
    TooManyConnections,
    /// The timeout passed.
    #[error("no answer in time")]
    TimedOut,
    /// The response broke off, is too large, or is not HTTP.
    #[error("no usable answer: {0}")]
    Broken(String),
}

/// Where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAt<'h> {
    /// Whether it is spoken to by TLS.
    pub is_tls: bool,
    /// A name, or an IP address, without the brackets of IPv6.
    pub host: &'h str,
    /// Of TCP.
    pub port: u16,
}

/// How connections are opened.
#[derive(Clone, Debug)]
pub struct ConnectorOptions {
    /// Addresses that may be connected to.
    pub addresses: AddressRule,
    /// Until a connection is open.
    pub timeout: Duration,
    /// Trusted certificates.
    pub tls: Arc<ClientConfig>,
}

/// Opens connections, of HTTP/2 where the server agrees on it by ALPN.
pub struct Connector {
    resolver: Arc<dyn Resolve>,
    addresses: AddressRule,
    tls: TlsConnector,
    timeout: Duration,
}

impl Connector {
    /// Resolves names with `resolver`.
    pub fn new(options: ConnectorOptions, resolver: Arc<dyn Resolve>) -> Self {
        let ConnectorOptions { addresses, timeout, tls } = options;
        let mut tls = (*tls).clone();
        tls.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Self { resolver, addresses, tls: TlsConnector::from(Arc::new(tls)), timeout }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn connect(&self, server: &ServerAt<'_>) -> Result<TransportStream, RequestError> {
        let connected = timeout(self.timeout, self.connect_to_any(server)).await;
        connected.unwrap_or(Err(RequestError::TimedOut))
    }

    /// Tries the server's addresses in turn.
    async fn connect_to_any(
        &self,
        &ServerAt { is_tls, host, port }: &ServerAt<'_>,
    ) -> Result<TransportStream, RequestError> {
        let name = is_tls.then(|| ServerName::try_from(host.to_owned())).transpose();
        let name = name.map_err(|error| RequestError::Unreachable(error.to_string()))?;
        let addresses = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host).await.map_err(RequestError::Unresolved)?,
        };
        let mut last = RequestError::Unresolved("it has no address".to_owned());
        // Check the addresses in use: a second lookup could return others.
        let (allowed, forbidden): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(|address| self.addresses.allows(*address));
        if let Some(address) = forbidden.last() {
            last = RequestError::Forbidden(*address);
        }
        let until = Instant::now() + self.timeout;
        for (at, address) in allowed.iter().enumerate() {
            // An unresponsive address must leave time for the next ones.
            let left = until.saturating_duration_since(Instant::now());
            let share = if at + 1 < allowed.len() { left / 2 } else { left };
            let connecting = self.connect_to(SocketAddr::new(*address, port), name.clone());
            last = match timeout(share, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => RequestError::Unreachable(error.to_string()),
                Err(_) => RequestError::TimedOut,
            };
        }
        Err(last)
    }

    /// With TLS if the server has a `name` to verify.
    async fn connect_to(
        &self,
        address: SocketAddr,
        name: Option<ServerName<'static>>,
    ) -> io::Result<TransportStream> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(match name {
            None => TransportStream::Plain(socket),
            Some(name) => {
                let stream = self.tls.connect(name, socket).await?;
                TransportStream::Tls(Box::new(stream))
            }
        })
    }
}
