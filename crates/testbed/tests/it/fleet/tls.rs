//! The fleet under TLS, as a rustls client on a raw socket meets it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use testbed::dsp::{self, BidFault, DspAct, DspBehaviour, DspProfile, Fleet};
use testbed::server::{Cut, ServedVersions, ServerOptions, ServerTls};

use super::fixture::{BODY, answer, ask, assert_bid, assert_closed, bidding, connect, post, until};
use super::http2::FrameClient;

type Client = StreamOwned<ClientConnection, TcpStream>;

fn secure(profile: DspProfile) -> (Fleet, String) {
    secure_with(profile, ServedVersions::Both)
}

fn secure_with(profile: DspProfile, http: ServedVersions) -> (Fleet, String) {
    let (tls, authority) =
        ServerTls::generated(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a certificate");
    let options = ServerOptions { tls: Some(tls), http, ..ServerOptions::default() };
    (dsp::start(vec![profile], &options).expect("a fleet"), authority)
}

fn client_of(
    fleet: &Fleet,
    authority: &str,
    versions: &[&'static SupportedProtocolVersion],
    name: &'static str,
) -> Client {
    offering(fleet, authority, ClientOffer { versions, name, protocols: &[] })
}

/// What a client asks for.
#[derive(Clone, Copy)]
struct ClientOffer<'a> {
    versions: &'a [&'static SupportedProtocolVersion],
    name: &'static str,
    protocols: &'a [&'a str],
}

fn offering(fleet: &Fleet, authority: &str, offer: ClientOffer<'_>) -> Client {
    let ClientOffer { versions, name, protocols } = offer;
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM");
    roots.add(certificate).expect("an authority");
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name).expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    StreamOwned::new(session, connect(fleet))
}

fn client(fleet: &Fleet, authority: &str) -> Client {
    client_of(fleet, authority, rustls::ALL_VERSIONS, "localhost")
}

#[test]
fn bids_are_served_under_both_versions_and_names() {
    let (fleet, authority) = secure(bidding());
    assert!(fleet.url(0).starts_with("https://127.0.0.1:"), "{}", fleet.url(0));
    for versions in [&[&rustls::version::TLS12], &[&rustls::version::TLS13]] {
        for name in ["localhost", "127.0.0.1"] {
            let mut client = client_of(&fleet, &authority, versions, name);
            for id in ["req-1", "req-2", "req-3"] {
                ask(&mut client, id);
                assert_bid(answer(&mut client), id);
            }
        }
    }
    until(&fleet, "closed", |stats| stats.connections_open == 0);
    assert_eq!(fleet.stats().total().requests, 12);
}

#[test]
fn more_than_any_buffer_holds_arrives_in_order() {
    let (fleet, authority) = secure(DspProfile { bid_bytes: 512 * 1024, ..bidding() });
    let mut client = client(&fleet, &authority);
    let ids: Vec<_> = (0..30).map(|n| format!("req-{n}")).collect();
    for id in &ids {
        ask(&mut client, id);
    }
    for id in &ids {
        assert_bid(answer(&mut client), id);
    }
    // One request in many records, all of them sent before the first is read.
    let padded = format!("{BODY}{}", " ".repeat(200_000));
    client.write_all(post(&padded).as_bytes()).expect("sent");
    assert_bid(answer(&mut client), "req-1");
    client.conn.send_close_notify();
    client.flush().expect("sent");
    assert_closed(&mut client);
}

#[test]
fn sick_answers_pass_through_tls() {
    let (fleet, authority) = secure(bidding());
    fleet.set_behaviour(0, BidFault::Huge { bytes: Some(2_000_000) }).expect("set");
    let mut huge = client(&fleet, &authority);
    ask(&mut huge, "req-1");
    assert_eq!(answer(&mut huge).1.len(), 2_000_000);
    fleet.set_behaviour(0, DspAct::Reset { at: Cut::Before }).expect("set");
    ask(&mut huge, "req-1");
    let error = huge.read(&mut [0; 64]).expect_err("reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    fleet.set_behaviour(0, DspAct::Close { at: Cut::Body }).expect("set");
    let mut cut = client(&fleet, &authority);
    ask(&mut cut, "req-1");
    let mut rest = Vec::new();
    cut.read_to_end(&mut rest).expect("an orderly end");
    assert!(rest.starts_with(b"HTTP/1.1 200 OK") && rest.len() < 1_000);
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("set");
    let mut well = client(&fleet, &authority);
    ask(&mut well, "req-1");
    assert_bid(answer(&mut well), "req-1");
}

#[test]
fn strangers_are_turned_away_and_harm_nobody() {
    let (fleet, authority) = secure(bidding());
    let (_, another) =
        ServerTls::generated(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a certificate");
    let mut distrusting = client(&fleet, &another);
    let error = distrusting.write_all(b"x").expect_err("an unknown authority").to_string();
    assert!(error.contains("certificate"), "{error}");
    drop(distrusting);
    let mut plain = connect(&fleet);
    ask(&mut plain, "req-1");
    let mut alert = Vec::new();
    // An alert and the end: a clean close, or a reset if the request was not read to its end.
    drop(plain.read_to_end(&mut alert));
    assert!(!alert.starts_with(b"HTTP"), "{alert:?}");
    until(&fleet, "gone", |stats| stats.connections_open == 0);
    assert_eq!(fleet.stats().total().requests, 0);
    let mut known = client(&fleet, &authority);
    ask(&mut known, "req-1");
    assert_bid(answer(&mut known), "req-1");
}

#[test]
fn certificates_can_be_given_and_notices_lead_back_under_tls() {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("signed");
    let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
    let tls =
        ServerTls::from_pem(certificate.as_bytes(), key.as_bytes()).expect("they go together");
    let profile = DspProfile { notices: true, ..bidding() };
    let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
    let fleet = dsp::start(vec![profile], &options).expect("a fleet");
    let mut client = client(&fleet, &certificate);
    ask(&mut client, "req-1");
    let (_, body) = answer(&mut client);
    let response: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let url = response["seatbid"][0]["bid"][0]["nurl"].as_str().expect("a URL").to_owned();
    let origin = format!("https://{}", fleet.addresses()[0]);
    let target = url.strip_prefix(&origin).expect("its own address, under TLS");
    write!(client, "GET {target} HTTP/1.1\r\n\r\n").expect("sent");
    assert_eq!(answer(&mut client).0, 204);
    assert_eq!(fleet.stats().total().win.calls, 1);
}

#[test]
fn alpn_chooses_the_version_of_http() {
    let check = |http: ServedVersions, protocols: &[&str], want: Option<&str>| {
        let (fleet, authority) = secure_with(DspProfile { bid_bytes: 50_000, ..bidding() }, http);
        let versions = rustls::ALL_VERSIONS;
        let offer = ClientOffer { versions, name: "localhost", protocols };
        let mut client = offering(&fleet, &authority, offer);
        while client.conn.is_handshaking() {
            if client.conn.complete_io(&mut client.sock).is_err() {
                return assert_eq!(want, None, "{http:?} {protocols:?}");
            }
        }
        let chosen = client.conn.alpn_protocol().map(<[u8]>::to_vec);
        if chosen.as_deref() == Some(b"h2") {
            assert_eq!(want, Some("h2"));
            let settings = [(4, 1 << 20)];
            let mut client = FrameClient::over(client, &settings);
            client.ask(1, "req-1");
            assert_bid((200, client.answer(1).text()), "req-1");
        } else {
            assert_eq!(want, Some("http/1.1"));
            ask(&mut client, "req-1");
            assert_bid(answer(&mut client), "req-1");
        }
    };
    check(ServedVersions::Both, &["h2", "http/1.1"], Some("h2"));
    check(ServedVersions::Both, &["http/1.1", "h2"], Some("h2"));
    check(ServedVersions::Both, &["http/1.1"], Some("http/1.1"));
    check(ServedVersions::Both, &[], Some("http/1.1"));
    check(ServedVersions::Http1, &["h2", "http/1.1"], Some("http/1.1"));
    check(ServedVersions::Http1, &["h2"], None);
    check(ServedVersions::Http2, &["h2", "http/1.1"], Some("h2"));
    check(ServedVersions::Http2, &["http/1.1"], None);
}
