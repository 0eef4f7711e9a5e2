//! A listener's certificate, the authority of its clients' certificates, and those of the servers that
//! a service asks, from the configuration. It must not know what is served.

use std::sync::Arc;

use http_kit::tls::Authorities;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::{Optional, Required, Secret, Section};

/// Whether a listener may demand certificates of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Never.
    None,
    /// If the configuration names their authority: the key `client_ca`.
    Configurable,
}

/// Reads `ca`: the authorities of servers. None if the system's are trusted.
pub fn read_authorities(s: &mut Section<'_>) -> Option<Authorities> {
    let pem = s.secret(
        "ca",
        Optional("file:/etc/vickrey/servers-ca.pem"),
        "CA certificates for verifying servers, in PEM. If absent, the system's CA certificates.",
    )?;
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.expose().as_bytes()).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Some(certificates.into()),
        _ => {
            s.problem("ca", "***", "holds no certificate in PEM");
            None
        }
    }
}

/// Reads `certificate`, `key` and perhaps `client_ca`. `protocols` are the names for ALPN, in order
/// of preference. None after a reported problem.
pub fn read_server(
    s: &mut Section<'_>,
    protocols: &[&str],
    clients: ClientCertificates,
) -> Option<Arc<ServerConfig>> {
    let certificate = s.secret(
        "certificate",
        Required("file:/etc/vickrey/certificate.pem"),
        "Certificate chain in PEM: the server certificate, followed by any intermediate \
         certificates.",
    );
    let key = s.secret(
        "key",
        Required("file:/etc/vickrey/key.pem"),
        "Private key of the certificate, in PEM.",
    );
    let verifier = match clients {
        ClientCertificates::None => Ok(None),
        ClientCertificates::Configurable => read_client_ca(s),
    };
    let identity = parse_identity(s, &certificate, &key);
    let builder = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions");
    let builder = match verifier.ok()? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = identity?;
    let mut config = builder
        .with_single_cert(chain, key)
        .inspect_err(|error| {
            s.problem("certificate", "***", format!("does not go with `key`: {error}"));
        })
        .ok()?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Some(Arc::new(config))
}

/// Parses a certificate chain and its private key, which the keys `certificate` and `key` gave. None
/// after a reported problem.
pub fn parse_identity(
    s: &mut Section<'_>,
    certificate: &Secret,
    key: &Secret,
) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    if certificate.expose().is_empty() || key.expose().is_empty() {
        return None; // Already reported as missing.
    }
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificate.expose().as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    if chain.is_none() {
        s.problem("certificate", "***", "holds no certificate in PEM");
    }
    let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).ok();
    if key.is_none() {
        s.problem("key", "***", "holds no private key in PEM");
    }
    chain.zip(key)
}

/// Reads the authority whose certificates clients must present. An error was reported.
fn read_client_ca(s: &mut Section<'_>) -> Result<Option<Arc<dyn ClientCertVerifier>>, ()> {
    let pem = s.secret(
        "client_ca",
        Optional("file:/etc/vickrey/client-ca.pem"),
        "CA certificates in PEM. If given, a client must present a certificate that one of them \
         has signed.",
    );
    let Some(pem) = pem else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.expose().as_bytes()).collect();
    for certificate in certificates.unwrap_or_default() {
        // Reported below if none is left.
        let _refused = roots.add(certificate);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
    verifier.map(|verifier| Some(verifier as _)).map_err(|error| {
        s.problem("client_ca", "***", format!("cannot verify clients: {error}"));
    })
}
