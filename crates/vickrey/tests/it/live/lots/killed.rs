//! A server that is killed while bidders fight: every accepted bid is there, the feed tells the same
//! story from its beginning, and the ledger holds the money of standing bids alone.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};
use units::SplitMix64;

use super::super::fixtures::{Client, Closed};
use super::fixtures::{LotsFloor, bid};
use crate::program::until;

const LOTS: [&str; 3] = ["a", "b", "sealed"];

/// Accepted bids: by lot and number, the public price after it.
type Accepted = Mutex<BTreeMap<(String, u64), Value>>;

/// Bids until the connection ends.
fn fight(client: &mut Client, draws: &mut SplitMix64, round: u64, accepted: &Accepted) {
    for turn in 0.. {
        let lot = LOTS[usize::try_from(draws.bits() % 3).unwrap()];
        let cents = 200 + 10 * round + draws.bits() % (40 + turn);
        let maximum = format!("{}.{:02}", cents / 100, cents % 100);
        let key = format!("{round}-{turn}");
        if client
            .try_send(tungstenite::Message::text(bid(lot, &maximum, &key).to_string()))
            .is_err()
        {
            return;
        }
        let told = match client.heard() {
            Ok(told) => told,
            Err(Closed { .. }) => return,
        };
        match told["type"].as_str() {
            Some("accepted") => {
                let (number, price) =
                    (told["number"].as_u64().unwrap(), told["lot"]["price"].clone());
                let mut accepted = accepted.lock().unwrap();
                let before = accepted.insert((lot.to_owned(), number), price);
                assert_eq!(before, None, "a number is given once: {told}");
            }
            Some("error") => assert_eq!(told["code"], "refused", "{told}"),
            _ => panic!("{told}"),
        }
    }
}

/// What the feed says of bids from its beginning: by lot and number, the price after it.
fn story(lots: &LotsFloor) -> BTreeMap<(String, u64), Value> {
    let mut told = BTreeMap::new();
    let mut watcher = lots.floor.client();
    let end = lots.floor.client().subscribe("lots", &json!({}))["after"].clone();
    watcher.subscribe("lots", &json!({ "after": { "epoch": 0, "sequence": 0 } }));
    let place = |it: &Value| (it["epoch"].as_u64().unwrap(), it["sequence"].as_u64().unwrap());
    loop {
        let message = watcher.next();
        match message["type"].as_str() {
            Some("message") => {
                let data = &message["data"];
                if let Some(number) = data["bid"]["number"].as_u64() {
                    let lot = data["id"].as_str().unwrap().to_owned();
                    let again = told.insert((lot, number), data["price"].clone());
                    assert_eq!(again, None, "each bid is told once: {message}");
                }
            }
            Some("heartbeat") if place(&message["covered"]) >= place(&end) => return told,
            Some("heartbeat") => (),
            _ => panic!("{message}"),
        }
    }
}

#[test]
fn every_accepted_bid_survives_kill_9() {
    let mut lots = LotsFloor::start();
    lots.create("a", &json!({}));
    lots.create("b", &json!({ "reserve": "2.50" }));
    lots.create("sealed", &json!({ "rules": "sealed_second_price", "increments": [] }));
    let accepted = Accepted::default();
    for round in 0..5 {
        let bidders: Vec<_> = ["ann", "bob", "cat", "dan"]
            .into_iter()
            .zip(["acme", "globex"].into_iter().cycle())
            .map(|(seat, account)| lots.bidder(seat, account))
            .collect();
        let (accepted, lots_now) = (&accepted, &lots);
        std::thread::scope(|scope| {
            let before = accepted.lock().unwrap().len();
            for (number, mut bidder) in bidders.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut draws = SplitMix64::new(100 * round + number as u64);
                    fight(&mut bidder, &mut draws, round, accepted);
                });
            }
            until("bids are accepted", || accepted.lock().unwrap().len() >= before + 8);
            lots_now.floor.server.signal("-KILL");
        });
        lots.kill_and_restart();
        let (mut standing, accepted) = (0, accepted.lock().unwrap());
        for lot in LOTS {
            let page = lots.lot(lot);
            if lot == "sealed" {
                standing += page["lot"]["bidders"].as_u64().unwrap();
                continue;
            }
            let bids = page["lot"]["bids"].as_u64().unwrap();
            let last = accepted.keys().filter(|(id, _)| id == lot).map(|(_, number)| *number).max();
            assert!(last.unwrap_or(0) <= bids, "{lot} has {bids}, {last:?} was accepted");
            standing += u64::from(bids > 0);
        }
        until("money is on hold for bids that stand", || lots.holds() == standing);
    }
    let told = story(&lots);
    for ((lot, number), price) in accepted.into_inner().unwrap() {
        if lot != "sealed" {
            assert_eq!(told.get(&(lot.clone(), number)), Some(&price), "{lot} {number}");
        }
    }
    for lot in ["a", "b"] {
        let numbers: Vec<_> =
            told.keys().filter(|(id, _)| id == lot).map(|(_, number)| *number).collect();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{lot}: {numbers:?}");
        let pages = lots.lot(lot);
        let (bids, price) = (&pages["lot"]["bids"], &pages["lot"]["price"]);
        let last = numbers.last().map(|last| &told[&(lot.to_owned(), *last)]);
        assert_eq!((bids.as_u64(), Some(price)), (Some(numbers.len() as u64), last), "{pages}");
    }
}
