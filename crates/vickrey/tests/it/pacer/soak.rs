//! Clients that spend while others misbehave and definitions change. The books are compared to the nano.
//!
//! `VICKREY_SOAK_S` is how many seconds it lasts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pacer_client::{
    Candidate, DecisionCode, Offer, PacerClient, SettlementCode, SpendRequest, TOKEN_BYTES,
};
use pacer_wire::{HEAD_BYTES, Hello, write_heartbeat, write_hello, write_settle};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use units::{Cpm, Nanos};

use super::fixtures::{Pacer, amount, cpm, runtime};
use crate::program::until;

const CAMPAIGNS: [&str; 2] = ["acme-spring", "acme-autumn"];

fn span() -> Duration {
    let seconds = std::env::var("VICKREY_SOAK_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a client won, by campaign, and the results that it waits for.
#[derive(Default)]
struct Spent {
    booked: [u64; CAMPAIGNS.len()],
    waiting: Vec<(usize, u64, oneshot::Receiver<SettlementCode>)>,
    decisions: u64,
}

impl Spent {
    fn win(&mut self, client: &PacerClient, at: usize, token: [u8; TOKEN_BYTES], cost: u64) {
        if let Some(result) = client.won(token, Nanos::new(cost)) {
            self.waiting.push((at, cost, result));
        }
    }

    fn take(&mut self) -> bool {
        let booked = &mut self.booked;
        self.waiting.retain_mut(|(at, cost, result)| match result.try_recv() {
            Ok(SettlementCode::Booked | SettlementCode::BookedLate) => {
                booked[*at] += *cost;
                false
            }
            Ok(SettlementCode::AlreadyBooked) => false,
            Ok(code) => panic!("a win has the result {code:?}"),
            Err(_) => true,
        });
        self.waiting.is_empty()
    }
}

/// Bids in batches; wins a third, some of them twice, loses a third, and forgets the rest.
fn spend(pacer: &Pacer, stop: &AtomicBool, seed: u64) -> Spent {
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    let (mut spent, mut numbers, mut id) = (Spent::default(), Numbers(seed), 0);
    while !stop.load(Relaxed) {
        let known: Vec<_> = CAMPAIGNS
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some((at, client.campaign("acme", name)?.handle)))
            .collect();
        let candidates: Vec<_> = known
            .iter()
            .map(|(_, campaign)| {
                let offer = Offer::Price(cpm(1_000 + numbers.below(1_000)));
                Candidate { campaign: *campaign, offer, minimum: Cpm::ZERO }
            })
            .collect();
        if candidates.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let request = |id| SpendRequest::new(id, &candidates);
        let asked = async {
            let within = Duration::from_millis(200);
            tokio::join!(
                client.decide(request(id), within),
                client.decide(request(id + 1), within),
                client.decide(request(id + 2), within),
            )
        };
        let (first, second, third) = runtime.block_on(asked);
        id += 3;
        for bid in [first, second, third].into_iter().flatten().flatten() {
            spent.decisions += 1;
            let at = known[bid.candidate].0;
            match numbers.below(3) {
                0 => {
                    let cost = amount(&bid) - numbers.below(1_000);
                    spent.win(&client, at, bid.token, cost);
                    if numbers.below(4) == 0 {
                        spent.win(&client, at, bid.token, cost);
                    }
                }
                1 => drop(client.lost(bid.token)),
                _ => (),
            }
        }
        spent.take();
    }
    until("every win has its result", || spent.take());
    spent
}

/// The hello of the second client, who misbehaves.
fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_hello(&mut bytes, 1, &Hello::new("dsp-2", "of dsp 2", 65_536));
    bytes
}

fn connect(pacer: &Pacer) -> TcpStream {
    let stream = TcpStream::connect(pacer.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    stream
}

/// Sends frames with one altered byte whose checksum is right, or bytes that are no frames.
fn be_hostile(pacer: &Pacer, stop: &AtomicBool) -> u64 {
    let (mut numbers, mut ended) = (Numbers(77), 0);
    while !stop.load(Relaxed) {
        let mut stream = connect(pacer);
        let mut bytes = hello();
        write_heartbeat(&mut bytes, 2, 0, 0);
        let at = usize::try_from(numbers.below(bytes.len() as u64)).unwrap();
        bytes[at] ^= 1 << numbers.below(8);
        if at >= HEAD_BYTES && numbers.below(2) == 0 {
            let covered: Vec<u8> = [&bytes[..20], &bytes[HEAD_BYTES..]].concat();
            bytes[20..HEAD_BYTES].copy_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
        }
        // The server may have closed it already.
        let _gone = stream.write_all(&bytes);
        let mut answer = [0; 4_096];
        let _gone = stream.read(&mut answer);
        ended += 1;
    }
    ended
}

/// Sends a byte now and then, and is closed for it.
fn be_slow(pacer: &Pacer, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let mut stream = connect(pacer);
        for byte in hello() {
            std::thread::sleep(Duration::from_millis(20));
            if stop.load(Relaxed) || stream.write_all(&[byte]).is_err() {
                break;
            }
        }
    }
}

/// Sends settlements of nothing, and never reads their results.
fn be_deaf(pacer: &Pacer, stop: &AtomicBool) {
    let mut stream = connect(pacer);
    stream.write_all(&hello()).unwrap();
    let mut sequence = 2;
    while !stop.load(Relaxed) {
        let mut bytes = Vec::new();
        let lost = pacer_wire::SettlementEntry::new(
            [7; 48],
            pacer_wire::SettlementOutcome::Lost,
            Nanos::ZERO,
        );
        write_settle(&mut bytes, sequence, &[lost; 100]);
        match stream.write_all(&bytes) {
            Ok(()) => sequence += 1,
            // It is not read any more, for it does not read.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    assert!(sequence < 1_000_000, "it is slowed down");
}

/// Changes budgets, pauses and lifts pauses, several times a second.
fn change(pacer: &Pacer, stop: &AtomicBool, changes: &AtomicU64) {
    let file = pacer.server.config_file().with_file_name("campaigns.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut numbers = Numbers(5);
    while !stop.load(Relaxed) {
        let budget = format!("budget = \"{}.00\"", 500 + numbers.below(500));
        let mut other = text.replacen("budget = \"1000.00\"", &budget, 2);
        if numbers.below(3) == 0 {
            other = other.replacen("strategy.name", "paused = true\nstrategy.name", 1);
        }
        std::fs::write(&file, other).unwrap();
        let reloaded = pacer.server.ask("POST", "/v1/reload", "content-length: 0\r\n");
        assert!([200, 429].contains(&reloaded.status), "{reloaded:?}");
        changes.fetch_add(u64::from(reloaded.status == 200), Relaxed);
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::write(&file, text).unwrap();
    until("the first definitions are back", || {
        pacer.server.ask("POST", "/v1/reload", "content-length: 0\r\n").status == 200
    });
}

/// Resident memory of the server, in KiB.
fn resident_kib(pacer: &Pacer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pacer.server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn spending_goes_on_beside_hostile_clients_and_changes() {
    let pacer = Pacer::start();
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let before_kib = resident_kib(&pacer);
    let (pacer, stop) = (&pacer, &stop);
    let (spent, ended) = std::thread::scope(|scope| {
        let spenders = [11, 12, 13].map(|seed| scope.spawn(move || spend(pacer, stop, seed)));
        let hostile = scope.spawn(|| be_hostile(pacer, stop));
        scope.spawn(|| be_slow(pacer, stop));
        scope.spawn(|| be_deaf(pacer, stop));
        scope.spawn(|| change(pacer, stop, &changes));
        let end = Instant::now() + span();
        while Instant::now() < end && !hostile.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Relaxed);
        (spenders.map(|spender| spender.join().unwrap()), hostile.join().unwrap())
    });
    let decisions: Vec<_> = spent.iter().map(|spent| spent.decisions).collect();
    assert!(decisions.iter().all(|decisions| *decisions > 100), "{decisions:?}");
    assert!(ended > 20 && changes.load(Relaxed) > 5, "{ended} ended, {changes:?} changes");
    for (at, campaign) in CAMPAIGNS.into_iter().enumerate() {
        let booked = spent.iter().map(|spent| spent.booked[at]).sum::<u64>();
        assert!(booked > 0, "{campaign}");
        until("the ledger has it", || pacer.spend(campaign) >= booked);
        assert_eq!(pacer.spend(campaign), booked, "{campaign}");
    }
    let grown_kib = resident_kib(pacer).saturating_sub(before_kib);
    assert!(grown_kib < 64 * 1024, "the server has grown by {grown_kib} KiB");
}

/// Wins ten times with each of two campaigns, and makes a change after each win.
fn win_between(
    pacer: &Pacer,
    runtime: &tokio::runtime::Runtime,
    client: &PacerClient,
    changes: &[(&str, Value)],
) {
    let (mut won, mut changes) = (0, changes.iter());
    while won < 20 {
        let campaign = client.campaign("acme", ["one", "two"][won % 2]).unwrap().handle;
        let offer = Offer::Price(cpm(1_000_000));
        let request = SpendRequest::new(1, &[Candidate { campaign, offer, minimum: Cpm::ZERO }]);
        match runtime.block_on(client.decide(request, Duration::from_secs(5))) {
            Some(Ok(bid)) => {
                let settled = client.won(bid.token, Nanos::new(900_000)).unwrap();
                assert_eq!(runtime.block_on(settled), Ok(SettlementCode::Booked));
                won += 1;
                if let Some((of, limits)) = changes.next() {
                    let changed = pacer.server.send("PUT", &format!("/v1/{of}/budget"), limits);
                    assert_eq!(changed.status, 200, "{changed:?}");
                }
            }
            Some(Err(DecisionCode::Unavailable)) | None => (),
            Some(Err(code)) => panic!("it is refused: {code:?}"),
        }
    }
}

/// The same changes in another order, while money is spent, end in the same budgets.
#[test]
fn budget_changes_in_any_order_end_in_the_same_state() {
    let changes = [
        ("campaigns/one", json!({ "budget": "40.00" })),
        ("campaigns/one", json!({ "daily_budget": "7.00" })),
        ("campaigns/one", json!({ "hourly_budget": "3.00" })),
        ("campaigns/two", json!({ "budget": null })),
        ("campaigns/two", json!({ "daily_budget": "9.00" })),
        ("accounts/acme", json!({ "daily_budget": "30.00" })),
        ("accounts/acme", json!({ "hourly_budget": "20.00" })),
        ("accounts/acme", json!({ "budget": "500.00" })),
    ];
    let mut ends: Vec<Vec<Value>> = Vec::new();
    for seed in [3, 4, 5] {
        let pacer = Pacer::start();
        let runtime = runtime();
        let _entered = runtime.enter();
        for id in ["one", "two"] {
            let campaign = json!({
                "id": id, "account": "acme", "budget": "20.00", "strategy": { "name": "asap" },
                "start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z",
            });
            assert_eq!(pacer.server.send("POST", "/v1/campaigns", &campaign).status, 201);
        }
        let client = pacer.client();
        until("both are known", || {
            ["one", "two"].iter().all(|id| client.campaign("acme", id).is_some())
        });
        let mut order = changes.clone();
        let mut numbers = Numbers(seed);
        (1..order.len()).rev().for_each(|at| {
            order.swap(at, usize::try_from(numbers.below(at as u64 + 1)).unwrap());
        });
        win_between(&pacer, &runtime, &client, &order);
        until("all is booked", || {
            ["one", "two"].iter().all(|campaign| pacer.spend(campaign) == 9_000_000)
        });
        let paths = ["campaigns/one", "campaigns/two", "accounts/acme"];
        ends.push(
            paths
                .iter()
                .flat_map(|of| {
                    // What shards hold at the moment is left out.
                    let why = pacer.server.get(&format!("/v1/{of}/why"));
                    let levels = why["levels"].as_array().unwrap().iter();
                    let limits = levels.map(|it| json!([it["owner"], it["span"], it["limit"]]));
                    let spend = pacer.server.get(&format!("/v1/{of}/spend"));
                    let definition = pacer.server.get(&format!("/v1/{of}"))["definition"].clone();
                    [limits.collect(), json!(["day", "life"].map(|span| &spend[span])), definition]
                })
                .collect(),
        );
    }
    assert!(ends[0].iter().all(|part| !part.is_null()), "{:?}", ends[0]);
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[1], ends[2]);
}
