//! TLS to DSPs: handshakes, session state, and fragmented records.

use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, HandshakeKind, ProtocolVersion};

use crate::harness::{Client, Floor, file_of, read_message, refusal, request};
use crate::stub::{Dsp, Manner, refused};
use crate::wire::{Handshake, Tls, Wire, signed_for};

/// Runs auctions one after the other with one DSP, and checks the floor's counts.
#[track_caller]
fn check(manner: Manner, tls: Tls, auctions: u64, (won, opened): (u64, u64)) {
    let floor = Floor::start(&[Dsp::start(manner, &Wire::Tls(tls))]);
    let mut client = Client::connect(floor.address);
    let body = "x".repeat(3000);
    let found = (0..auctions).filter(|_| client.auction(&body).is_some()).count() as u64;
    let tally = floor.stop();
    let counted = (found, tally["opened"], tally["failed"]);
    assert_eq!(counted, (won, opened, auctions - won), "won, opened, failed: {manner:?}");
}

#[test]
fn handshakes_and_answers_come_in_any_pieces() {
    for versions in [&[&TLS12], &[&TLS13]] {
        for fragment_max in [None, Some(64)] {
            for in_crumbs in [false, true] {
                let mut tls = Tls::new(versions, fragment_max);
                tls.in_crumbs = in_crumbs;
                check(Manner::Bid("{in pieces}"), tls.clone(), 3, (3, 1));
                check(Manner::BidAndClose("{in pieces}"), tls, 3, (3, 3));
            }
        }
    }
}

#[test]
fn sessions_are_as_the_exchange_makes_them_and_resumed() {
    let tls = Tls::new(ALL_VERSIONS, None);
    check(Manner::BidAndClose("{1}"), tls.clone(), 20, (20, 20));
    let shaken = |kind| Handshake {
        version: Some(ProtocolVersion::TLSv1_3),
        kind: Some(kind),
        protocol: Some(b"http/1.1".to_vec()),
    };
    let found = tls.handshakes();
    assert_eq!(found[0], shaken(HandshakeKind::Full));
    assert_eq!(found[1..], vec![shaken(HandshakeKind::Resumed); 19]);
}

#[test]
fn a_farewell_ends_a_connection_that_stays_open() {
    check(Manner::BidAndFarewell("{1}"), Tls::new(ALL_VERSIONS, None), 5, (5, 5));
    check(Manner::HalfAndFarewell, Tls::new(ALL_VERSIONS, None), 3, (0, 3));
}

#[test]
fn a_call_takes_what_is_free_first_and_not_the_link_that_is_opened_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("https://{}/bid", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        let accept = || listener.accept().expect("the floor connects").0;
        let mut first = BufReader::new(Wire::tls().accept(accept()));
        read_message(&mut first).expect("the first call");
        // A connection for the other call, without a handshake.
        let _second = accept();
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        first.get_mut().write_all(answer.as_bytes()).expect("the floor reads");
        read_message(&mut first).expect("the other call");
        first.get_mut().write_all(answer.as_bytes()).expect("the floor reads");
        first.get_mut().wait_for_the_end();
    });
    let floor = Floor::of([url], &[]);
    let mut clients = [(); 2].map(|()| Client::connect(floor.address));
    for client in &clients {
        client.send(request("{}").as_bytes());
    }
    for client in &mut clients {
        assert_eq!(client.answer().as_deref(), Some("{}"));
    }
    assert_eq!(floor.stop()["opened"], 2);
}

#[test]
fn keys_may_change_under_way() {
    check(Manner::BidUnderNewKeys("{1}"), Tls::new(&[&TLS13], None), 20, (20, 1));
}

#[test]
fn whom_the_floor_does_not_trust_it_does_not_call() {
    let stranger = signed_for("127.0.0.1");
    let elsewhere = signed_for("127.0.0.2");
    for (certificate, authority, won) in [
        (&stranger, stranger.cert.pem(), true),
        (&stranger, Tls::authority(), false),
        // Valid, but for another DSP.
        (&elsewhere, elsewhere.cert.pem(), false),
        (&elsewhere, elsewhere.cert.pem() + &stranger.cert.pem(), false),
        (&stranger, elsewhere.cert.pem() + &stranger.cert.pem(), true),
    ] {
        let tls = Tls::with(certificate, ALL_VERSIONS, None);
        let dsp = Dsp::start(Manner::Bid("{1}"), &Wire::Tls(tls.clone()));
        let floor = Floor::trusting(&authority, [dsp.url], &[]);
        let won_here = Client::connect(floor.address).auction("{}").is_some();
        assert_eq!(won_here, won);
        assert_eq!(floor.stop()["failed"], u64::from(!won));
        assert_eq!(tls.handshakes().len(), usize::from(won), "nothing is said to a stranger");
    }
}

#[test]
fn a_wire_that_is_not_as_the_url_says_is_a_failed_call() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let plain = format!("https://{}/bid", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"));
        }
    });
    let sealed = Dsp::start(Manner::Bid("{}"), &Wire::tls());
    let floor = Floor::of([plain, format!("http://{}/bid", sealed.address)], &[]);
    let mut client = Client::connect(floor.address);
    for _ in 0..3 {
        assert_eq!(client.auction("{}"), None);
    }
    assert_eq!(floor.stop()["failed"], 6);
}

#[test]
fn authorities_that_do_not_fit_are_refused() {
    let (authority, empty) = (file_of(&Tls::authority()), file_of(""));
    let broken = file_of("-----BEGIN CERTIFICATE-----\n~");
    let (secure, plain) = ("--dsp=https://127.0.0.1:1/bid", format!("--dsp={}", refused()));
    let path = |file: &tempfile::NamedTempFile| format!("--ca={}", file.path().display());
    for (arguments, want) in [
        (vec![secure.to_owned()], "https needs --ca FILE"),
        (vec![plain, path(&authority)], "--ca means nothing without a DSP at https"),
        (vec![secure.to_owned(), path(&empty)], "holds no certificate in PEM"),
        (vec![secure.to_owned(), path(&broken)], "not PEM"),
        (vec![secure.to_owned(), "--ca=absent.pem".to_owned()], "cannot read the authorities"),
    ] {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let said = refusal(&arguments);
        assert!(said.contains(want), "{arguments:?}: {said}");
    }
}
