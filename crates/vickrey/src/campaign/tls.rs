//! TLS towards an admin listener that is behind a proxy: which authorities are trusted.
//!
//! Knows neither HTTP nor what is asked.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::exit::Failure;

/// Whom a certificate must name, and who may have signed it.
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl Tls {
    /// For `host`, trusting the authorities of the PEM file `ca`, or the system's without one.
    pub(super) fn new(host: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let Ok(name) = ServerName::try_from(name) else {
            return Err(Failure::usage(format!("--admin: `{host}` is not the name of a host")));
        };
        let mut roots = RootCertStore::empty();
        match ca {
            Some(file) => {
                let wrong = |why: &dyn std::fmt::Display| {
                    Failure::usage(format!("--ca {}: {why}", file.display()))
                };
                let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"holds no certificate in PEM"));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: config.into(), host: name })
    }

    /// Encrypts a connection; the handshake comes with the first write.
    pub(super) fn over(
        &self,
        stream: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.host.clone());
        Ok(StreamOwned::new(connection.map_err(io::Error::other)?, stream))
    }
}
