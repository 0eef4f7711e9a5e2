//! A client of the echo service that speaks TLS and HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;

/// A self-signed certificate, and what `start` makes of the key that configures it.
pub fn with_tls<T>(
    start: impl FnOnce(String) -> T,
) -> (rustls::pki_types::CertificateDer<'static>, T) {
    let issued =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let pem = format!("{}{}", issued.cert.pem(), issued.signing_key.serialize_pem());
    let started = start(format!("certificate = '''{pem}'''"));
    (issued.cert.der().clone(), started)
}

/// Posts over HTTP/2, as after ALPN; returns status and body.
pub fn post_http2(
    address: SocketAddr,
    certificate: &rustls::pki_types::CertificateDer<'static>,
    body: &'static str,
) -> (u16, String) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = rustls::ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        let stream = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        let driving = tokio::spawn(connection);
        let request = hyper::Request::post("https://localhost/echo");
        let request = request.body(Full::<Bytes>::from(body)).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        drop(sender);
        driving.await.unwrap().unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    })
}
