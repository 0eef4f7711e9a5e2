//! Certificate authorities that the exchange trusts.

use runtime::config::{Optional, Section};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::fanout::Authorities;

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
