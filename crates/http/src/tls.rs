//! The certificates that a client trusts.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Certificate authorities, as DER.
pub type Authorities = Arc<[CertificateDer<'static>]>;

/// Trusts `authorities`, or the system's if None. The handshake offers no ALPN protocol.
pub fn client_config(authorities: Option<&[CertificateDer<'static>]>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    // An unreadable certificate is not trusted; the others are.
    match authorities {
        Some(authorities) => roots.add_parsable_certificates(authorities.iter().cloned()),
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
