//! A pacer that is killed again and again while its clients spend: every win is booked once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pacer_client::{PacerClient, SettlementCode, TOKEN_BYTES};
use serde_json::Value;
use tokio::sync::oneshot;
use units::Nanos;

use super::fixtures::{Pacer, WITHIN, amount, first_bid, request, runtime};
use crate::program::{run, until, vickrey};

/// Wins as the client knows them.
#[derive(Default)]
struct Wins {
    waiting: Vec<(u64, oneshot::Receiver<SettlementCode>)>,
    results: BTreeMap<SettlementCode, u64>,
    booked: u64,
}

impl Wins {
    fn report(&mut self, client: &PacerClient, token: [u8; TOKEN_BYTES], cost: u64) {
        let result = client.won(token, Nanos::new(cost)).expect("there is room");
        self.waiting.push((cost, result));
    }

    /// Takes results; returns whether none is missing.
    fn take(&mut self) -> bool {
        let (results, booked) = (&mut self.results, &mut self.booked);
        self.waiting.retain_mut(|(cost, result)| {
            let Ok(code) = result.try_recv() else { return true };
            *results.entry(code).or_default() += 1;
            // Booked before the crash, but not acknowledged: the repetition says so.
            let counts =
                [SettlementCode::Booked, SettlementCode::BookedLate, SettlementCode::AlreadyBooked];
            assert!(counts.contains(&code), "a win has the result {code:?}");
            *booked += *cost;
            false
        });
        self.waiting.is_empty()
    }
}

/// Bids until `stop`, at most one bid under way; wins every second one.
fn spend(runtime: &tokio::runtime::Runtime, client: &PacerClient, wins: &mut Wins, until: Instant) {
    let mut id = 0;
    while Instant::now() < until {
        id += 1;
        if client.campaign("acme", "acme-spring").is_none() {
            continue;
        }
        let request = request(client, id, 1_000 + id % 977);
        let decided = runtime.block_on(client.decide(request, Duration::from_millis(50)));
        let Some(Ok(bid)) = decided else { continue };
        if id % 2 == 0 {
            wins.report(client, bid.token, amount(&bid) - id % 7);
        }
    }
}

#[test]
fn wins_survive_kill_9_and_are_booked_once() {
    let mut pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let (mut wins, mut last) = (Wins::default(), None);
    pacer.keep_port();
    let client = pacer.client();
    for _ in 0..4 {
        let first = first_bid(&runtime, &client);
        // One of before the crash comes late, on a new connection.
        if let Some((token, cost)) = last.replace((first.token, 1_000)) {
            wins.report(&client, token, cost);
        }
        spend(&runtime, &client, &mut wins, Instant::now() + Duration::from_millis(150));
        let epoch = client.status().epoch;
        pacer.server.kill_and_restart();
        until("it is connected again", || {
            let status = client.status();
            status.is_connected && status.epoch != epoch
        });
        until("every win has its result", || wins.take());
    }
    let expected = wins.booked;
    assert!(expected > 0);
    until("the ledger has exactly that", || pacer.spend("acme-spring") >= expected);
    assert_eq!(pacer.spend("acme-spring"), expected, "{:?}", wins.results);
    let record = pacer.server.config_file().with_file_name("record");
    let cat = ["log", "cat", "--wins", "--json", "--dir", record.to_str().unwrap()];
    let (exit, rows, problems) = run(&mut vickrey(&cat));
    assert_eq!(exit, Some(0), "{problems}");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert!(rows.iter().all(|row| row["client"] == "dsp-1" && row["currency"] == "USD"));
    let recorded: u64 = rows.iter().map(|row| row["cost_nanos"].as_u64().unwrap()).sum();
    assert_eq!(recorded, expected, "the record has each win once");
    let shown = run(&mut vickrey(&cat[..3].iter().chain(&cat[4..]).copied().collect::<Vec<_>>())).1;
    assert_eq!(shown.matches(" USD  by dsp-1\n").count(), rows.len(), "{shown}");
    // A token of the first run is remembered by the last.
    let (token, _) = last.expect("there was a run");
    let first = runtime.block_on(client.won(token, Nanos::new(9)).unwrap()).unwrap();
    let second = runtime.block_on(client.won(token, Nanos::new(9)).unwrap()).unwrap();
    assert_eq!((first, second), (SettlementCode::Booked, SettlementCode::AlreadyBooked));
    assert!(runtime.block_on(client.decide(request(&client, 1, 1_000), WITHIN)).is_some());
}
