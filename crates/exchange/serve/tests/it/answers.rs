//! The responses to callers, and what is booked for them.

use crate::fixtures::{Dsp, Running, Script, Setup, banner, bid, bids, ok};

fn revenue(exchange: &Running, dsp: usize) -> (u64, u64) {
    exchange.count_seat(dsp, |seat| (seat.wins.value(), seat.revenue_nanos.value()))
}

#[test]
fn the_callers_id_the_currency_and_the_net_price() {
    let dsp = Dsp::bidding("2.00");
    let dsps = [(dsp.address, "seats = [\"s1\"]")];
    let exchange =
        Running::start(&Setup { exchange: "fee = \"10%\"", dsps: &dsps, ..Setup::default() });
    let reply = exchange.auction(&banner("").replace("caller-1", "caller \\u00e9"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-openrtb-version"), Some("2.6"));
    let json = reply.json();
    assert_eq!((&json["id"], &json["cur"]), (&"caller é".into(), &"USD".into()));
    assert_eq!(json["bidid"], dsp.request(0).id());
    assert_eq!(json["seatbid"][0]["seat"], "s1");
    let won = &json["seatbid"][0]["bid"][0];
    assert_eq!((&won["impid"], &won["adm"]), (&"1".into(), &"<p>".into()));
    assert_eq!(reply.price(), "1.8", "less our tenth");
    assert_eq!(revenue(&exchange, 0), (1, 2_000_000), "the DSP owes the whole");
    assert_eq!(exchange.scraped("exchange_seat_wins_total{dsp=\"d0\",seat=\"s1\"}"), "1");
    assert_eq!(exchange.scraped("exchange_impressions_total{state=\"sold\"}"), "1");
}

/// Ids reveal neither the number of auctions nor the next id.
#[test]
fn auction_ids_tell_nothing() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let id = |at: usize| u128::from_str_radix(&dsp.request(at).id(), 16).expect("a number");
    for at in 0..8 {
        assert_eq!(exchange.auction(&banner("")).status, 200);
        let near = (0..at).find(|before| (id(*before) ^ id(at)).count_ones() < 20);
        assert_eq!(near, None, "{:032x}", id(at));
    }
}

#[test]
fn second_price_between_two_dsps() {
    let (high, low) = (Dsp::bidding("3.00"), Dsp::bidding("1.00"));
    let exchange = Running::with(&[&high, &low]);
    assert_eq!(exchange.auction(&banner(r#","at":2"#)).price(), "1.01");
    assert_eq!(exchange.auction(&banner("")).price(), "3");
    assert_eq!(revenue(&exchange, 0), (2, 4_010_000));
    assert_eq!(revenue(&exchange, 1), (0, 0));
    assert_eq!(exchange.fates(exchange_core::Fate::LostToHigherBid), 2);
}

#[test]
fn another_currency() {
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "")];
    let rest = "[currency]\nrates = { EUR = \"2\" }";
    let exchange = Running::start(&Setup { dsps: &dsps, rest, ..Setup::default() });
    let reply = exchange.auction(&banner(r#","cur":["EUR"]"#));
    assert_eq!((reply.price().as_str(), &reply.json()["cur"]), ("0.5", &"EUR".into()));
}

#[test]
fn a_test_moves_no_money() {
    let dsp = Dsp::bidding("2.00");
    let exchange = Running::with(&[&dsp]);
    assert_eq!(exchange.auction(&banner(r#","test":1"#)).price(), "2");
    assert_eq!(revenue(&exchange, 0), (0, 0));
    assert_eq!(exchange.count(|metrics| metrics.sold.value()), 0);
    assert_eq!(exchange.count(|metrics| metrics.tests.value()), 1);
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert_eq!(revenue(&exchange, 0), (1, 2_000_000));
    assert_eq!(exchange.count(|metrics| metrics.tests.value()), 1);
}

#[test]
fn several_impressions_have_a_winner_each() {
    let two = format!(
        "{},{}",
        bid("2.00"),
        bid("4.00").replace("b1", "b2").replace(r#""impid":"1""#, r#""impid":"2""#)
    );
    let first = Dsp::start([Script::answering(ok(&bids(&two)))]);
    let second = Dsp::bidding("3.00");
    let exchange = Running::with(&[&first, &second]);
    let body = r#"{"id":"c","at":1,"imp":[{"id":"1","banner":{"w":300,"h":250}},
        {"id":"2","banner":{"w":300,"h":250}}]}"#;
    let json = exchange.auction(body).json();
    let mut won = Vec::new();
    for seat in json["seatbid"].as_array().expect("seats") {
        for bid in seat["bid"].as_array().expect("bids") {
            won.push((
                bid["impid"].to_string(),
                seat["seat"].to_string(),
                bid["price"].to_string(),
            ));
        }
    }
    won.sort();
    let row = |imp: &str, seat: &str, price: &str| {
        (format!("\"{imp}\""), format!("\"{seat}\""), price.to_owned())
    };
    assert_eq!(won, [row("1", "d1", "3"), row("2", "d0", "4")]);
}
