//! The fleet with the client of the `h2` crate, and with our own.

use std::io::{Read, Write};

use bytes::Bytes;
use http2::{Http2Client, Http2ClientOptions, RequestHead, StreamCall, StreamEnd};
use testbed::dsp::{DspAct, DspBehaviour, DspProfile, LatencySpread};

use super::super::fixture::{BODY, assert_bid, bidding, connect, fleet_of};
use super::fixture::HEAD;
use std::time::Duration;

/// Sends one bid request with the `h2` crate, and returns the body of its answer.
async fn h2_bid(mut sender: h2::client::SendRequest<Bytes>, id: String) -> String {
    let request = hyper::Request::post("http://dsp/bid").header("accept-encoding", "gzip");
    let request = request.body(()).expect("a request");
    let (response, mut stream) = sender.send_request(request, false).expect("sent");
    stream.send_data(BODY.replace("req-1", &id).into(), true).expect("sent");
    let response = response.await.expect("an answer");
    assert_eq!(response.status(), 200);
    let (mut body, mut text) = (response.into_body(), Vec::new());
    while let Some(data) = body.data().await {
        let data = data.expect("a body");
        body.flow_control().release_capacity(data.len()).expect("it was taken");
        text.extend_from_slice(&data);
    }
    String::from_utf8(text).expect("UTF-8")
}

/// Sends 300 requests at once with the `h2` crate.
fn check_h2(profile: DspProfile, behaviour: Option<DspBehaviour>, window: u32) {
    let fleet = fleet_of(profile);
    if let Some(behaviour) = behaviour {
        fleet.set_behaviour(0, behaviour).expect("it makes sense");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let socket =
            tokio::net::TcpStream::connect(fleet.addresses()[0]).await.expect("it listens");
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_max_send_streams(300);
        let (sender, connection) = builder.handshake(socket).await.expect("a handshake");
        let connection = tokio::spawn(connection);
        let ids: Vec<_> = (0..300).map(|n| format!("req-{n}")).collect();
        let bids: Vec<_> =
            ids.iter().map(|id| tokio::spawn(h2_bid(sender.clone(), id.clone()))).collect();
        for (id, bid) in ids.iter().zip(bids) {
            assert_bid((200, bid.await.expect("joined")), id);
        }
        drop(sender);
        connection.await.expect("joined").expect("an orderly end");
    });
    let total = fleet.stats().total();
    assert_eq!((total.bids, total.malformed), (300, 0));
}

#[test]
fn the_client_of_h2_gets_its_answers() {
    let ms = Duration::from_millis;
    let uneven = LatencySpread { min: Duration::ZERO, median: ms(3), p99: ms(20) };
    check_h2(DspProfile { latency: uneven, ..bidding() }, None, 65_535);
    check_h2(DspProfile { chunked_ppm: 500_000, ..bidding() }, None, 65_535);
    // Larger than the windows of its streams and of its connection.
    check_h2(DspProfile { bid_bytes: 100_000, latency: uneven, ..bidding() }, None, 1_000);
    let half = DspBehaviour { share_ppm: 500_000, ..DspAct::Chunked { bytes: 400 }.into() };
    check_h2(bidding(), Some(half), 1_000);
}

/// The id of a request.
struct Call(String);

impl StreamCall for Call {
    fn on_field(&mut self, _: &[u8], _: &[u8]) {}
}

#[test]
fn our_own_client_gets_its_answers() {
    let ms = Duration::from_millis;
    let uneven = LatencySpread { min: Duration::ZERO, median: ms(2), p99: ms(10) };
    let fleet = fleet_of(DspProfile { latency: uneven, ..bidding() });
    let mut socket = connect(&fleet);
    let options =
        Http2ClientOptions { body_bytes_max: 1 << 16, streams_max: 200, small_frames_max: 8 };
    let mut client = Http2Client::new(&RequestHead::new(HEAD), options);
    let (mut asked, mut ended, mut in_order) = (0, 0, true);
    let mut buffer = vec![0; 1 << 16];
    while ended < 3_000 {
        // Large requests, so that the connection's window is given back more than once.
        while asked < 3_000 {
            let id = format!("req-{asked}");
            let body = format!("{}{}", BODY.replace("req-1", &id), " ".repeat(3_500));
            let parts = [body.as_bytes()].into_iter();
            if client.request(Call(id), &[], body.len(), parts).is_err() {
                break;
            }
            asked += 1;
        }
        socket.write_all(client.output()).expect("sent");
        client.mark_sent();
        let count = socket.read(&mut buffer).expect("answers");
        assert!(count > 0, "the server closes");
        let mut on_end = |Call(id): Call, end: StreamEnd<'_>| {
            let StreamEnd::Response { status, body } = end else { panic!("{end:?}") };
            assert_bid((status, String::from_utf8(body.to_vec()).expect("UTF-8")), &id);
            in_order &= id == format!("req-{ended}");
            ended += 1;
        };
        client.receive(&buffer[..count], &mut on_end).expect("the server is right");
    }
    assert!(!in_order, "answers leave as they become due");
    let total = fleet.stats().total();
    assert_eq!((total.requests, total.malformed, total.connections_open), (3_000, 0, 1));
}
