//! The floor on real sockets: whole auctions, broken DSPs, limits at their edges, a clean stop.

mod harness;
mod stub;

use std::thread;

use crate::harness::{Client, Floor};
use crate::stub::{Manner, dsp, refused};

/// One auction over these DSPs; `want` is the body of the answer, none for 204.
#[track_caller]
fn check(manners: &[Manner], want: Option<&str>, failed: u64) {
    let floor = Floor::start(manners.iter().map(|&manner| dsp(manner)));
    let mut client = Client::connect(floor.address);
    assert_eq!(client.auction("{}").as_deref(), want, "{manners:?}");
    let tally = floor.stop();
    assert_eq!((tally["auctions"], tally["failed"]), (1, failed), "{manners:?}");
}

#[test]
fn the_largest_body_wins() {
    use Manner::*;
    check(&[NoBid], None, 0);
    check(&[NoBid, Bid("{1}"), NoBid], Some("{1}"), 0);
    check(&[Bid("{1}"), Bid("{longer}"), Bid("{2}")], Some("{longer}"), 0);
    check(&[Bid("{1}"), NoBid].repeat(25), Some("{1}"), 0);
}

#[test]
fn a_broken_dsp_costs_only_its_own_call() {
    use Manner::*;
    check(&[HangUp, Bid("{1}")], Some("{1}"), 1);
    check(&[Chunked, Bid("{1}")], Some("{1}"), 1);
    check(&[HangUp, HangUp], None, 2);
}

#[test]
fn a_refused_connection_is_a_failed_call() {
    let floor = Floor::start([refused(), dsp(Manner::Bid("{1}")), refused()]);
    let mut client = Client::connect(floor.address);
    for _ in 0..3 {
        assert_eq!(client.auction("{}").as_deref(), Some("{1}"));
    }
    assert_eq!(floor.stop()["failed"], 6);
}

#[test]
fn answers_may_come_byte_by_byte() {
    check(&[Manner::Dribble("{in many pieces}"), Manner::NoBid], Some("{in many pieces}"), 0);
}

#[test]
fn a_dsp_that_closes_after_each_answer_is_reopened() {
    let floor = Floor::start([dsp(Manner::BidAndClose("{1}")), dsp(Manner::NoBid)]);
    let mut client = Client::connect(floor.address);
    for _ in 0..50 {
        assert_eq!(client.auction("{}").as_deref(), Some("{1}"));
    }
    let tally = floor.stop();
    assert_eq!((tally["failed"], tally["opened"]), (0, 51), "one kept, one opened each time");
}

#[test]
fn connections_are_kept_and_auctions_run_side_by_side() {
    let floor = Floor::start((0..8).map(|_| dsp(Manner::Bid("{1}"))));
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let mut client = Client::connect(floor.address);
            thread::spawn(move || {
                for _ in 0..50 {
                    assert_eq!(client.auction("{}").as_deref(), Some("{1}"));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("every answer is right");
    }
    let tally = floor.stop();
    assert_eq!((tally["auctions"], tally["calls"], tally["failed"]), (800, 6400, 0));
    assert!(tally["opened"] <= 16 * 8, "at most one link for each auction in flight and DSP");
}

#[test]
fn requests_may_come_byte_by_byte_or_many_at_once() {
    let floor = Floor::start([dsp(Manner::Bid("{1}"))]);
    let mut client = Client::connect(floor.address);
    for byte in harness::request("{split}").bytes() {
        client.send(&[byte]);
    }
    assert_eq!(client.answer().as_deref(), Some("{1}"));
    client.send(harness::request("{}").repeat(100).as_bytes());
    for _ in 0..100 {
        assert_eq!(client.answer().as_deref(), Some("{1}"));
    }
    assert_eq!(floor.stop()["auctions"], 101);
}

#[test]
fn a_client_that_reads_late_gets_every_answer() {
    let floor = Floor::start([dsp(Manner::BidOf(256 << 10))]);
    let mut client = Client::connect(floor.address);
    let sender = client.sender();
    // More than all the socket buffers hold, so that answers have to wait for their reader.
    let requests =
        thread::spawn(move || sender.send(harness::request("{}").repeat(200).as_bytes()));
    for _ in 0..200 {
        assert_eq!(client.answer().map(|body| body.len()), Some(256 << 10));
    }
    requests.join().expect("every request was sent");
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    let floor = Floor::start([dsp(Manner::Bid("{1}"))]);
    let mut client = Client::connect(floor.address);
    client.send(harness::request("{}").as_bytes());
    client.half_close();
    assert_eq!(client.answer().as_deref(), Some("{1}"));
    assert!(client.is_closed());
}

#[test]
fn a_client_that_leaves_during_its_auction_harms_nobody() {
    let floor = Floor::start([dsp(Manner::Bid("{1}"))]);
    for _ in 0..20 {
        let client = Client::connect(floor.address);
        client.send(harness::request("{}").as_bytes());
    }
    assert_eq!(Client::connect(floor.address).auction("{}").as_deref(), Some("{1}"));
}

#[test]
fn bodies_are_bounded() {
    const REQUEST_MAX: usize = 1 << 20;
    const ANSWER_MAX: usize = 256 << 10;
    let floor = Floor::start([dsp(Manner::BidOf(ANSWER_MAX)), dsp(Manner::BidOf(ANSWER_MAX + 1))]);
    let mut client = Client::connect(floor.address);
    let won = client.auction(&"x".repeat(REQUEST_MAX)).map(|body| body.len());
    assert_eq!(won, Some(ANSWER_MAX));
    client
        .send(format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", REQUEST_MAX + 1).as_bytes());
    assert!(client.is_closed());
    assert_eq!(floor.stop()["failed"], 1);
}

#[test]
fn clients_are_bounded() {
    const CLIENTS_MAX: usize = 4096;
    harness::raise_descriptor_limit();
    let floor = Floor::start([dsp(Manner::NoBid)]);
    let mut clients: Vec<_> = (0..CLIENTS_MAX).map(|_| Client::connect(floor.address)).collect();
    let last = clients.last_mut().expect("there are many");
    // The queue is taken in order, so an answer to the last means that all are in.
    assert_eq!(last.auction("{}"), None);
    assert!(Client::connect(floor.address).is_closed());
    clients.truncate(CLIENTS_MAX - 1);
    while Client::connect(floor.address).is_closed_to("{}") {}
}
