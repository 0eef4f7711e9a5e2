//! Options of a client.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;

/// TLS towards the pacer.
pub(crate) type ClientTls = (Arc<rustls::ClientConfig>, ServerName<'static>);

/// How a client connects, and what it sends together.
#[derive(Clone)]
pub struct PacerClientOptions {
    /// Host and port of the pacer.
    pub address: String,
    /// The client's id.
    pub id: String,
    pub(crate) secret: String,
    pub(crate) tls: Option<ClientTls>,
    /// Most requests of a batch.
    pub batch_max: usize,
    /// Most requests that wait to be sent; further ones get no decision.
    pub waiting_max: usize,
    /// Most settlements without a result; further ones are refused.
    pub settlements_max: usize,
    /// Longest time for a connection and its handshake.
    pub connect_timeout: Duration,
    /// First delay between two attempts to connect. It doubles, with a random part.
    pub retry_min: Duration,
    /// Longest delay.
    pub retry_max: Duration,
    /// Time for a batch's way back, which is taken off its deadline at the server.
    pub return_time: Duration,
}

impl PacerClientOptions {
    /// Batches of at most 64 requests; reconnects after 50 ms to 2 s.
    pub fn new(
        address: impl Into<String>,
        id: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        Self {
            address: address.into(),
            id: id.into(),
            secret: secret.into(),
            tls: None,
            batch_max: 64,
            waiting_max: 65_536,
            settlements_max: 1 << 20,
            connect_timeout: Duration::from_secs(2),
            retry_min: Duration::from_millis(50),
            retry_max: Duration::from_secs(2),
            return_time: Duration::from_micros(500),
        }
    }

    /// Encrypts the connection. `config` has the authorities, and the client's certificate if the
    /// server asks for one.
    #[must_use]
    pub fn with_tls(
        mut self,
        config: Arc<rustls::ClientConfig>,
        server: ServerName<'static>,
    ) -> Self {
        self.tls = Some((config, server));
        self
    }
}

impl std::fmt::Debug for PacerClientOptions {
    /// The secret is never shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacerClientOptions")
            .field("address", &self.address)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
