//! The fleet on real sockets, with well-behaved and odd clients. In modules: faulty DSPs, HTTP/2,
//! schedules, notices and TLS.

mod fixture;
mod hostile;
mod http2;
mod notices;
mod schedules;
mod tls;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use testbed::dsp::{self, DspProfile, LatencySpread};
use testbed::server::ServerOptions;

use self::fixture::{
    BODY, answer, assert_bid, assert_closed, bidding, connect, fleet_of, post, until,
};

#[test]
fn a_connection_is_kept_for_many_requests_however_they_are_cut() {
    let fleet = fleet_of(bidding());
    let mut stream = connect(&fleet);
    let request = post(BODY);
    for cut in [1, 5, request.find("\r\n\r\n").expect("a head") + 2, request.len() - 1] {
        stream.write_all(&request.as_bytes()[..cut]).expect("sent");
        stream.write_all(&request.as_bytes()[cut..]).expect("sent");
        assert_bid(answer(&mut stream), "req-1");
    }
    for byte in request.as_bytes() {
        stream.write_all(&[*byte]).expect("sent");
    }
    assert_bid(answer(&mut stream), "req-1");
    let total = fleet.stats().total();
    assert_eq!((total.requests, total.bids, total.connections_open), (5, 5, 1));
    drop(stream);
    until(&fleet, "closed", |stats| stats.connections_open == 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    // Later answers must not overtake delayed ones.
    let ms = Duration::from_millis;
    let uneven = LatencySpread { min: Duration::ZERO, median: ms(1), p99: ms(5) };
    for latency in [LatencySpread::default(), uneven] {
        let fleet = fleet_of(DspProfile { latency, ..bidding() });
        let mut stream = connect(&fleet);
        let ids: Vec<String> = (0..100).map(|n| format!("req-{n}")).collect();
        let requests: String = ids.iter().map(|id| post(&BODY.replace("req-1", id))).collect();
        stream.write_all(requests.as_bytes()).expect("sent");
        for id in &ids {
            assert_bid(answer(&mut stream), id);
        }
    }
}

#[test]
fn more_pipelined_answers_than_a_socket_holds_are_all_delivered() {
    let fleet = fleet_of(DspProfile { bid_bytes: 256 * 1024, ..bidding() });
    let mut stream = connect(&fleet);
    let mut writer = stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        for _ in 0..100 {
            writer.write_all(post(BODY).as_bytes()).expect("sent");
        }
    });
    for _ in 0..100 {
        assert_bid(answer(&mut stream), "req-1");
    }
    sender.join().expect("everything was sent");
}

#[test]
fn a_half_closed_client_still_gets_its_answers() {
    for latency in [Duration::ZERO, Duration::from_millis(3)] {
        let latency = LatencySpread::constant(latency);
        let fleet = fleet_of(DspProfile { latency, ..bidding() });
        let mut stream = connect(&fleet);
        stream.write_all(format!("{}{}", post(BODY), post(BODY)).as_bytes()).expect("sent");
        stream.shutdown(Shutdown::Write).expect("half closed");
        assert_bid(answer(&mut stream), "req-1");
        assert_bid(answer(&mut stream), "req-1");
        assert_closed(&mut stream);
        until(&fleet, "closed", |stats| stats.connections_open == 0);
    }
}

#[test]
fn close_is_honoured() {
    let fleet = fleet_of(bidding());
    let mut stream = connect(&fleet);
    let request = post(BODY).replacen("Host", "Connection: close\r\nHost", 1);
    stream.write_all(format!("{request}{}", post(BODY)).as_bytes()).expect("sent");
    assert_bid(answer(&mut stream), "req-1");
    assert_closed(&mut stream);
    assert_eq!(fleet.stats().total().requests, 1);
}

#[test]
fn refusals_arrive_before_the_connection_closes() {
    let fleet = fleet_of(bidding());
    let mut malformed = 0;
    let mut check = |request: String, status: u16| {
        let mut stream = connect(&fleet);
        stream.write_all(request.as_bytes()).expect("sent");
        assert_eq!(answer(&mut stream), (status, String::new()));
        assert_closed(&mut stream);
        malformed += 1;
        assert_eq!(fleet.stats().total().malformed, malformed);
    };
    check(post(&"x".repeat(4097)), 413);
    check(post(&"x".repeat(1024 * 1024)), 413); // Still being sent when it is refused.
    check("POST / HTTP/1.1\r\n\r\n".to_owned(), 411);
    check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), 411);
    check("DELETE / HTTP/1.1\r\n\r\n".to_owned(), 405);
    check("nonsense\r\n\r\n".to_owned(), 400);
    check(format!("POST / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(16 * 1024)), 431);
    assert_eq!(fleet.stats().total().requests, 0);
}

#[test]
fn bodies_up_to_the_cap_that_are_no_requests_leave_the_connection_open() {
    let fleet = fleet_of(bidding());
    let mut stream = connect(&fleet);
    stream.write_all(post(&"x".repeat(4096)).as_bytes()).expect("sent");
    assert_eq!(answer(&mut stream).0, 400);
    stream.write_all(b"GET /nowhere HTTP/1.1\r\n\r\n").expect("sent");
    assert_eq!(answer(&mut stream).0, 404);
    stream.write_all(post(BODY).as_bytes()).expect("sent");
    assert_bid(answer(&mut stream), "req-1");
}

#[test]
fn a_client_that_leaves_before_its_late_answer_harms_nobody() {
    let late_by = Duration::from_millis(20);
    let fleet = fleet_of(DspProfile { late_ppm: 1_000_000, late_by, ..bidding() });
    let mut leaving = connect(&fleet);
    leaving.write_all(post(BODY).as_bytes()).expect("sent");
    until(&fleet, "asked", |stats| stats.late == 1);
    drop(leaving);
    // A new connection takes its slot, and must get only its own answer.
    let mut staying = connect(&fleet);
    staying.write_all(post(&BODY.replace("req-1", "req-2")).as_bytes()).expect("sent");
    assert_bid(answer(&mut staying), "req-2");
    until(&fleet, "gone", |stats| stats.connections_open == 1);
}

#[test]
fn connections_past_the_cap_are_closed_and_counted() {
    let options = ServerOptions { connections_max: 2, ..ServerOptions::default() };
    let fleet = dsp::start(vec![bidding()], &options).expect("a fleet");
    let mut kept = [connect(&fleet), connect(&fleet)];
    until(&fleet, "accepted", |stats| stats.connections_open == 2);
    let mut refused = connect(&fleet);
    assert_eq!(refused.read(&mut [0]).map_err(|error| error.kind()), Ok(0));
    assert_eq!(fleet.stats().total().connections_refused, 1);
    for stream in &mut kept {
        stream.write_all(post(BODY).as_bytes()).expect("sent");
        assert_bid(answer(stream), "req-1");
    }
}

#[test]
fn every_dsp_of_every_thread_answers_for_itself() {
    let dsps = (0..7).map(|n| DspProfile { seats: vec![format!("s{n}")], ..bidding() }).collect();
    let options = ServerOptions { threads: 3, ..ServerOptions::default() };
    let fleet = dsp::start(dsps, &options).expect("a fleet");
    for (index, address) in fleet.addresses().iter().enumerate() {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(post(BODY).as_bytes()).expect("sent");
        let (_, body) = answer(&mut stream);
        assert!(body.contains(&format!("\"seat\":\"s{index}\"")), "{body}");
        assert_eq!(fleet.stats().dsps[index].requests, 1);
    }
    assert_eq!(fleet.stats().cpu.len(), 3);
}

#[test]
fn a_hyper_client_reads_whole_and_chunked_answers() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::TokioIo;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        for chunked_ppm in [0, 1_000_000] {
            let fleet = fleet_of(DspProfile { chunked_ppm, ..bidding() });
            let stream = tokio::net::TcpStream::connect(fleet.addresses()[0]).await;
            let io = TokioIo::new(stream.expect("the fleet listens"));
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(io).await.expect("a handshake");
            let connection = tokio::spawn(connection);
            for n in 0..20 {
                let id = format!("req-{n}");
                let body = Full::new(bytes::Bytes::from(BODY.replace("req-1", &id)));
                let request = hyper::Request::post("/bid").header("host", "dsp").body(body);
                sender.ready().await.expect("kept alive");
                let answer = sender.send_request(request.expect("a request")).await;
                let answer = answer.expect("an answer");
                let chunked = answer.headers().contains_key("transfer-encoding");
                assert_eq!(chunked, chunked_ppm > 0);
                let body = answer.into_body().collect().await.expect("a body").to_bytes();
                assert_bid((200, String::from_utf8(body.to_vec()).expect("UTF-8")), &id);
            }
            drop(sender);
            connection.await.expect("joined").expect("an orderly end");
        }
    });
}

#[test]
fn a_port_in_use_is_named_and_a_stopped_fleet_frees_its_own() {
    let fleet = fleet_of(bidding());
    let address = fleet.addresses()[0];
    let again = || {
        let base_port = Some(address.port());
        dsp::start(vec![bidding()], &ServerOptions { base_port, ..ServerOptions::default() })
    };
    let error = again().expect_err("the port is taken").to_string();
    assert!(error.contains(&address.to_string()), "{error}");
    fleet.stop().expect("an orderly end");
    let refused = TcpStream::connect(address).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(io::ErrorKind::ConnectionRefused));
    let fleet = again().expect("the port is free again");
    assert_eq!(fleet.addresses(), [address]);
}

#[test]
fn senseless_options_start_nothing() {
    let check = |want: &str, dsps: Vec<DspProfile>, options: ServerOptions| {
        let error = dsp::start(dsps, &options).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    let (two, options) = (|| vec![bidding(); 2], ServerOptions::default);
    check("one server", Vec::new(), options());
    check("one thread", two(), ServerOptions { threads: 0, ..options() });
    check("65536", two(), ServerOptions { base_port: Some(u16::MAX), ..options() });
    let broken = DspProfile { bids_max: 0, ..bidding() };
    check("dsp 1", vec![bidding(), broken], options());
    check("core 100000", two(), ServerOptions { core: Some(100_000), ..options() });
    let elsewhere: SocketAddr = "192.0.2.1:0".parse().expect("an address");
    check("192.0.2.1", two(), ServerOptions { listen: elsewhere.ip(), ..options() });
}
