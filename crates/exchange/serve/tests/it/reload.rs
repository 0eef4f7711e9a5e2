//! A changed configuration while auctions are in flight.

use exchange_core::record::CallOutcome;
use exchange_serve::ExchangeConfig;
use runtime::config::ms;

use crate::fixtures::{
    Dsp, Running, Script, Setup, Step, banner, bid, bids, ok, posted, posted_with, until,
};

fn setup<'s>(dsps: &'s [(std::net::SocketAddr, &'s str)], exchange: &'s str) -> Setup<'s> {
    Setup { exchange, dsps, ..Setup::default() }
}

#[test]
fn a_dsp_that_stays_keeps_its_connections_and_its_counts() {
    let (stays, goes, comes) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"), Dsp::bidding("3.00"));
    let exchange = Running::with(&[&stays, &goes]);
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    exchange.until_open(0, 1);
    let dsps = [(stays.address, "timeout = \"10s\""), (comes.address, "")];
    let reloaded = exchange.reload(&setup(&dsps, ""));
    assert_eq!((reloaded.number, reloaded.added.len()), (2, 0), "`d1` is `d1` elsewhere");
    until("the new one is asked", || exchange.auction(&banner("")).price() == "3");
    goes.until_ended(1);
    assert_eq!(stays.accepted(), 1, "its connection serves on");
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1);
    assert_eq!(exchange.open(1), 1, "the old one's connection is counted no more");
}

#[test]
fn an_auction_ends_by_the_configuration_it_began_with() {
    let answer = ok(&bids(&bid("2.00")));
    let dsp = Dsp::start([Script::forever([Step::Read, Step::Wait, Step::Write(answer.into())])]);
    let dsps = [(dsp.address, "")];
    let exchange = Running::start(&setup(&dsps, "fee = \"10%\""));
    let request = banner(r#","at":1"#);
    let mut caller = exchange.caller();
    caller.send(&posted(&request));
    dsp.request(0);
    // Removed from the configuration before it responds.
    exchange.reload(&setup(&[], "fee = \"50%\""));
    until("the new one is in force", || exchange.auction(&request).status == 204);
    dsp.permit();
    assert_eq!(caller.reply().price(), "1.8");
    dsp.until_ended(1);
}

#[test]
fn limits_on_callers_change_with_it() {
    let exchange = Running::start(&setup(&[], ""));
    assert_eq!(exchange.auction(&banner("")).status, 204);
    exchange.reload(&setup(&[], "body_max = \"1KiB\"\n"));
    let large = banner(&format!(",\"ext\":\"{}\"", "x".repeat(1024)));
    until("the limit holds", || exchange.auction(&large).status == 413);
}

/// Fees, endpoints, limits and rates change continuously.
#[test]
fn no_auction_is_lost_to_a_reload() {
    const AUCTIONS: usize = 200;
    let (first, second) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"));
    let all = |number: usize| {
        let keys =
            ["", "headers = { x-a = \"1\" }", "qps = 100000", "timeout = \"9s\""][number % 4];
        [(first.address, keys), (second.address, "")]
    };
    let exchange = Running::start(&setup(&all(0), ""));
    std::thread::scope(|threads| {
        let caller = || {
            let mut caller = exchange.caller();
            (0..AUCTIONS).map(|_| caller.post(&banner(""))).filter(|it| it.price() != "2").count()
        };
        let callers = [(); 3].map(|()| threads.spawn(caller));
        let mut number = 0;
        while !callers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            number += 1;
            exchange.reload(&setup(&all(number), ""));
        }
        assert!(number > 3, "{number} reloads");
        assert_eq!(callers.map(|caller| caller.join().expect("no panic")), [0; 3]);
    });
    let asked = exchange.outcomes(1, CallOutcome::Answered);
    assert_eq!(asked, 3 * AUCTIONS as u64, "the one that stays is asked in each");
}

#[test]
fn rates_change_with_it() {
    let dsp = Dsp::start([Script::answering(ok(
        &bids(&bid("1.00")).replace("\"seatbid\"", "\"cur\":\"EUR\",\"seatbid\"")
    ))]);
    let dsps = [(dsp.address, "currencies = [\"EUR\"]")];
    let at = |rest| Setup { dsps: &dsps, rest, ..Setup::default() };
    let exchange = Running::start(&at("[currency]\nrates = { EUR = \"1.25\" }\n"));
    let request = banner(r#","at":1,"cur":["USD"]"#);
    assert_eq!(exchange.auction(&request).price(), "1.25");
    exchange.reload(&at("[currency]\nrates = { EUR = \"1.5\" }\n"));
    until("the new rate holds", || exchange.auction(&request).price() == "1.5");
}

/// Its auction began under the old configuration, and its call leaves after the pool was empty.
#[test]
fn what_an_auction_of_before_opens_is_closed_in_time() {
    let hangs = Dsp::start([Script::once([Step::Read, Step::Read])]);
    let other = Dsp::bidding("1.00");
    let pool = "idle_timeout = \"100ms\"";
    let tune = |config: &mut ExchangeConfig| config.pool.drain_timeout = ms(1);
    let dsps = [(hangs.address, "timeout = \"20ms\""), (other.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, pool, tune, ..Setup::default() });
    let body = banner("");
    let mut slow = exchange.caller();
    let request = posted_with("expect: 100-continue\r\n", body.as_bytes());
    let (head, body) = request.split_at(request.len() - body.len());
    slow.send(head);
    assert_eq!(slow.try_reply().expect("an answer").expect("an answer").status, 100);
    let moved = [(other.address, ""), (other.address, "")];
    exchange.reload(&Setup { dsps: &moved, pool, tune, ..Setup::default() });
    // Meanwhile the pools are swept: this one's connection has been idle for too long.
    until("the new one is in force", || exchange.auction(&banner("")).status == 200);
    exchange.until_open(0, 0);
    slow.send(body);
    hangs.request(0);
    assert_eq!(slow.reply().status, 200);
    hangs.until_ended(1);
}
