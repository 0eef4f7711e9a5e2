//! Certificates: `[exchange.tls]`, ours towards callers, and whom to trust.

use std::sync::Arc;

use runtime::config::{Optional, Required, Section};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::fanout::Authorities;

/// Reads the table. None after a reported problem.
pub(super) fn read(s: &mut Section<'_>) -> Option<Arc<ServerConfig>> {
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
    let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_no_client_auth()
        .with_single_cert(chain?, key?)
        .inspect_err(|error| {
            s.problem("certificate", "***", format!("does not go with `key`: {error}"));
        })
        .ok()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(Arc::new(config))
}

/// Certificate authorities, as PEM.
pub(super) fn read_authorities(s: &mut Section<'_>) -> Option<Authorities> {
    let pem = s.secret(
        "ca",
        Optional("file:/etc/vickrey/dsp-ca.pem"),
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
