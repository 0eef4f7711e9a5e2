//! The floor on real sockets: whole auctions, broken DSPs, limits, a clean stop.

mod harness;
mod stub;
mod tls;
mod wire;

use std::thread;

use crate::harness::{Client, Floor};
use crate::stub::{Dsp, Manner, refused};
use crate::wire::Wire;

/// One auction with these DSPs, over each wire; `want` is the answer's body. None for 204.
#[track_caller]
fn check(manners: &[Manner], want: Option<&str>, failed: u64) {
    for wire in [Wire::Plain, Wire::tls()] {
        let scheme = wire.scheme();
        let floor = Floor::start(&dsps(manners, &wire));
        let mut client = Client::connect(floor.address);
        assert_eq!(client.auction("{}").as_deref(), want, "{manners:?} over {scheme}");
        let tally = floor.stop();
        assert_eq!((tally["auctions"], tally["failed"]), (1, failed), "{manners:?} over {scheme}");
    }
}

fn dsps(manners: &[Manner], wire: &Wire) -> Vec<Dsp> {
    manners.iter().map(|&manner| Dsp::start(manner, wire)).collect()
}

/// One DSP in plain text.
fn dsp(manner: Manner) -> [Dsp; 1] {
    [Dsp::start(manner, &Wire::Plain)]
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
    let [bidding] = dsp(Manner::Bid("{1}"));
    let floor = Floor::of([refused(), bidding.url, refused()], &[]);
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
fn answers_in_gzip_are_asked_for_and_inflated() {
    for wire in [Wire::Plain, Wire::tls()] {
        for (arguments, want) in [(&["--gzip"][..], Some("{deflated}")), (&[], None)] {
            let dsp = Dsp::start(Manner::Gzip("{deflated}"), &wire);
            let floor = Floor::of([dsp.url], arguments);
            let mut client = Client::connect(floor.address);
            assert_eq!(client.auction("{}").as_deref(), want, "over {}", wire.scheme());
        }
    }
}

#[test]
fn a_dsp_that_closes_after_each_answer_is_reopened() {
    for wire in [Wire::Plain, Wire::tls()] {
        let floor = Floor::start(&dsps(&[Manner::BidAndClose("{1}"), Manner::NoBid], &wire));
        let mut client = Client::connect(floor.address);
        for _ in 0..50 {
            assert_eq!(client.auction("{}").as_deref(), Some("{1}"));
        }
        let tally = floor.stop();
        assert_eq!((tally["failed"], tally["opened"]), (0, 51), "one kept, one opened each time");
    }
}

#[test]
fn a_call_that_nothing_came_back_of_is_made_again() {
    // Out of ten calls: how many failed, and how many were repeated.
    for (manner, want) in [
        (Manner::BidOnce("{1}"), (0, 9)),
        // Some bytes came back, so the DSP has seen the call.
        (Manner::BidOnceAndHalf("{1}"), (5, 0)),
    ] {
        for wire in [Wire::Plain, Wire::tls()] {
            let floor = Floor::start(&dsps(&[manner], &wire));
            let mut client = Client::connect(floor.address);
            let won = (0..10).filter(|_| client.auction("{}").is_some()).count() as u64;
            let tally = floor.stop();
            let found = (tally["failed"], tally["retried"]);
            assert_eq!(found, want, "{manner:?} over {}", wire.scheme());
            assert_eq!(won, 10 - want.0, "{manner:?} over {}", wire.scheme());
        }
    }
}

#[test]
fn a_dsp_that_says_more_than_it_was_asked_is_not_called_on_that_link_again() {
    for wire in [Wire::Plain, Wire::tls()] {
        let floor = Floor::start(&dsps(&[Manner::BidAndHalf("{1}")], &wire));
        let mut client = Client::connect(floor.address);
        for _ in 0..10 {
            assert_eq!(client.auction("{}").as_deref(), Some("{1}"), "over {}", wire.scheme());
        }
        let tally = floor.stop();
        assert_eq!((tally["opened"], tally["failed"], tally["retried"]), (10, 0, 0));
    }
}

#[test]
fn connections_are_kept_and_auctions_run_side_by_side() {
    for wire in [Wire::Plain, Wire::tls()] {
        let floor = Floor::start(&dsps(&[Manner::Bid("{1}"); 8], &wire));
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
}

#[test]
fn requests_may_come_byte_by_byte_or_many_at_once() {
    let floor = Floor::start(&dsp(Manner::Bid("{1}")));
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
    let floor = Floor::start(&dsp(Manner::BidOf(256 << 10)));
    let mut client = Client::connect(floor.address);
    let sender = client.sender();
    // More than all socket buffers hold, so answers must wait for their reader.
    let requests =
        thread::spawn(move || sender.send(harness::request("{}").repeat(200).as_bytes()));
    for _ in 0..200 {
        assert_eq!(client.answer().map(|body| body.len()), Some(256 << 10));
    }
    requests.join().expect("every request was sent");
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    let floor = Floor::start(&dsp(Manner::Bid("{1}")));
    let mut client = Client::connect(floor.address);
    client.send(harness::request("{}").as_bytes());
    client.half_close();
    assert_eq!(client.answer().as_deref(), Some("{1}"));
    assert!(client.is_closed());
}

#[test]
fn a_client_that_leaves_during_its_auction_harms_nobody() {
    let floor = Floor::start(&dsp(Manner::Bid("{1}")));
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
    for wire in [Wire::Plain, Wire::tls()] {
        let manners = [Manner::BidOf(ANSWER_MAX), Manner::BidOf(ANSWER_MAX + 1)];
        let floor = Floor::start(&dsps(&manners, &wire));
        let mut client = Client::connect(floor.address);
        let won = client.auction(&"x".repeat(REQUEST_MAX)).map(|body| body.len());
        assert_eq!(won, Some(ANSWER_MAX));
        let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", REQUEST_MAX + 1);
        client.send(head.as_bytes());
        assert!(client.is_closed());
        assert_eq!(floor.stop()["failed"], 1);
    }
}

#[test]
fn clients_are_bounded() {
    const CLIENTS_MAX: usize = 4096;
    harness::raise_descriptor_limit();
    let floor = Floor::start(&dsp(Manner::NoBid));
    let mut clients: Vec<_> = (0..CLIENTS_MAX).map(|_| Client::connect(floor.address)).collect();
    let last = clients.last_mut().expect("there are many");
    // The backlog is accepted in order, so after an answer to the last all are accepted.
    assert_eq!(last.auction("{}"), None);
    assert!(Client::connect(floor.address).is_closed());
    clients.truncate(CLIENTS_MAX - 1);
    while Client::connect(floor.address).is_closed_to("{}") {}
}
