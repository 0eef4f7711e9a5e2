//! Certificates of simulated servers, given or generated for one run. Installs nothing
//! process-wide; knows no socket.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rcgen::{ExtendedKeyUsagePurpose, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The configuration of TLS 1.2 and 1.3. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<ServerConfig>);

/// Why TLS is unavailable. The caller can fix all of these.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text is not PEM, or contains something else.
    #[error("{what} cannot be read: {source}; expected PEM")]
    Pem {
        /// The certificates or the key.
        what: &'static str,
        /// The reader's error.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificates and key do not match, or are not supported.
    #[error("certificates and key are refused: {0}")]
    Refused(#[from] rustls::Error),
    /// No certificate could be generated.
    #[error("no certificate can be made: {0}")]
    Generated(#[from] rcgen::Error),
}

impl ServerTls {
    /// Uses certificates (the server's own first) and their private key, both as PEM text.
    ///
    /// # Errors
    ///
    /// If either is not PEM, or they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| TlsError::Pem { what: "the certificates", source })?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::Pem { what: "the private key", source })?;
        Self::new(chain, key)
    }

    /// Generates a certificate for `localhost`, the loopback addresses and `also`. Also returns, as
    /// PEM, the certificate of the authority that signed it, which clients must trust.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn generated(also: IpAddr) -> Result<(Self, String), TlsError> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "simulated DSPs' authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !names.contains(&also.to_string()) {
            names.push(also.to_string());
        }
        let mut own = CertificateParams::new(names)?;
        own.distinguished_name.push(DnType::CommonName, "simulated DSP");
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = own.signed_by(&key, &authority)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let tls = Self::new(vec![certificate.der().clone()], key.into())?;
        Ok((tls, authority.pem()))
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self(Arc::new(config)))
    }

    /// The configuration of a server that offers `protocols` by ALPN, the preferred one first.
    pub(super) fn config(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.0);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_or_key_is_named() {
        let check = |certificates: &str, key: &str, want: &str| {
            let error =
                ServerTls::from_pem(certificates.as_bytes(), key.as_bytes()).expect_err(want);
            assert!(error.to_string().contains(want), "{error}");
        };
        let (_, pem) = ServerTls::generated([127, 0, 0, 2].into()).expect("a certificate");
        let key = KeyPair::generate().expect("a key").serialize_pem();
        check(&pem, "", "private key");
        check("-----BEGIN CERTIFICATE-----\n~", &key, "the certificates");
        check(&pem, &key, "refused"); // Another's key.
        check("", &key, "refused");
    }
}
