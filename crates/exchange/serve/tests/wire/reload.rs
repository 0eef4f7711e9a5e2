//! Another configuration, while auctions are under way.

use crate::fixtures::{Dsp, Running, Script, Setup, Step, banner, bid, bids, ok, posted, until};

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
    // Gone from the configuration before it answers.
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
