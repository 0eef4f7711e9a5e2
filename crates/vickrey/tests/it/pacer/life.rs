//! One reservation after another, from its request to the books.

use pacer_client::{
    Candidate, DecisionCode, Offer, PacerClient, SettlementCode, SpendRequest, TOKEN_BYTES,
};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use units::{Cpm, Nanos};

use super::fixtures::{Pacer, WITHIN, amount, cpm, first_bid, request, runtime};
use crate::program::until;

fn result(runtime: &Runtime, settled: Option<oneshot::Receiver<SettlementCode>>) -> SettlementCode {
    runtime.block_on(settled.expect("there is room")).expect("the client goes on")
}

#[test]
fn a_win_is_booked_once_and_a_loss_is_released() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    let won = first_bid(&runtime, &client);
    assert_eq!((won.candidate, amount(&won), won.lifetime_s), (0, 1_000_000, 15));
    let cost = Nanos::new(700_001);
    assert_eq!(result(&runtime, client.won(won.token, cost)), SettlementCode::Booked);
    let other = Nanos::new(5);
    assert_eq!(result(&runtime, client.won(won.token, other)), SettlementCode::AlreadyBooked);
    assert_eq!(result(&runtime, client.lost(won.token)), SettlementCode::AlreadyEnded);

    let lost = first_bid(&runtime, &client);
    assert_eq!(result(&runtime, client.lost(lost.token)), SettlementCode::Released);
    assert_eq!(result(&runtime, client.lost(lost.token)), SettlementCode::AlreadyEnded);
    // The seller bills it all the same.
    let late = Nanos::new(40);
    assert_eq!(result(&runtime, client.won(lost.token, late)), SettlementCode::BookedLate);
    // Dearer than authorised.
    let dear = first_bid(&runtime, &client);
    let over = Nanos::new(1_000_300);
    assert_eq!(result(&runtime, client.won(dear.token, over)), SettlementCode::Booked);
    let spent = 700_001 + 40 + 1_000_300;
    until("the ledger has it", || pacer.spend("acme-spring") == spent);
    assert_eq!(pacer.spend("acme-autumn"), 0);
    let mut hour = Value::Null;
    until("the funnel has it", || {
        let why = pacer.server.get("/v1/campaigns/acme-spring/why");
        hour = why["funnel"]["hour"].clone();
        hour["billed"] == 3
    });
    let steps = ["bid", "won", "outbid", "pace"].map(|step| hour[step].as_u64().unwrap());
    assert_eq!(steps, [3, 3, 1, 0], "{hour}");
    assert_eq!(hour["spent"], "0.001700341");
    let sum = ["bid", "ledger"].iter().map(|step| hour[step].as_u64().unwrap()).sum::<u64>();
    assert_eq!(hour["matched"], sum, "each request has one last step");
    assert_eq!(hour["offered"], sum, "it was named in all");
    let metric = r#"pacer_settlements_total{client="dsp-1",result="booked"}"#;
    assert_eq!(pacer.server.scraped(metric), 2);
}

#[test]
fn a_client_may_name_only_its_own_campaigns_and_tokens() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let first = pacer.client();
    let bid = first_bid(&runtime, &first);
    let second = PacerClient::start(pacer.options("dsp-2", "of dsp 2"));
    until("the other is connected", || second.status().is_connected);
    assert!(second.campaign("acme", "acme-spring").is_none());
    assert!(second.campaign("globex", "globex-spring").is_some());
    // A handle that is not its own: the catalogue of the first client has it.
    let foreign = request(&first, 7, 1_000_000);
    let decided = runtime.block_on(second.decide(foreign, WITHIN));
    assert_eq!(decided, Some(Err(DecisionCode::Unknown)));
    for token in [bid.token, [0; TOKEN_BYTES], {
        let mut forged = bid.token;
        forged[TOKEN_BYTES - 1] ^= 1;
        forged
    }] {
        let rejected = result(&runtime, second.won(token, Nanos::new(1)));
        assert_eq!(rejected, SettlementCode::Rejected);
    }
    // It is the first one's still.
    let booked = result(&runtime, first.won(bid.token, Nanos::new(1)));
    assert_eq!(booked, SettlementCode::Booked);
}

#[test]
fn of_several_candidates_the_highest_price_is_authorised() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let handle = |name: &str| client.campaign("acme", name).unwrap().handle;
    let candidate =
        |name: &str, offer, minimum| Candidate { campaign: handle(name), offer, minimum };
    let decide = |candidates: Vec<Candidate>| {
        let mut decided = None;
        until("money is granted to both", || {
            let request = SpendRequest::new(9, &candidates);
            decided = runtime.block_on(client.decide(request, WITHIN));
            decided != Some(Err(DecisionCode::Unavailable))
        });
        decided.expect("there is an answer")
    };
    let (low, high) = (Offer::Price(cpm(1_000_000)), Offer::Price(cpm(3_000_000)));
    let both = || {
        vec![candidate("acme-spring", low, Cpm::ZERO), candidate("acme-autumn", high, Cpm::ZERO)]
    };
    // The other one is authorised while the first has no grant yet.
    let mut bid = decide(both()).unwrap();
    until("both have money", || {
        bid = decide(both()).unwrap();
        bid.candidate == 1
    });
    assert_eq!(amount(&bid), 3_000_000);
    let below = decide(vec![candidate("acme-spring", low, cpm(1_000_001))]);
    assert_eq!(below, Err(DecisionCode::BelowMinimum));
    let cost = decide(vec![candidate("acme-spring", Offer::Cost(Nanos::new(77)), Cpm::ZERO)]);
    assert_eq!(amount(&cost.unwrap()), 77);
}

/// The caller has no answer in time, and spends nothing.
#[test]
fn a_decision_that_nobody_waits_for_is_released() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let released = r#"pacer_settlements_total{client="dsp-1",result="released"}"#;
    let before = pacer.server.scraped(released);
    pacer.server.stop();
    let request = request(&client, 5, 1_000_000);
    let decided = runtime.block_on(client.decide(request, std::time::Duration::from_millis(200)));
    assert_eq!(decided, None);
    pacer.server.signal("-CONT");
    // Late at the server, or late on the way back: never a bid.
    let late = r#"pacer_decisions_total{client="dsp-1",decision="late"}"#;
    until("it is late or released", || {
        pacer.server.scraped(late) + pacer.server.scraped(released) > before
    });
}

#[test]
fn pauses_and_new_campaigns_reach_the_catalogue() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let file = pacer.server.config_file().with_file_name("campaigns.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let paused = text.replacen("strategy.name", "paused = true\nstrategy.name", 1);
    std::fs::write(&file, paused).unwrap();
    let reloaded = pacer.server.ask("POST", "/v1/reload", "content-length: 0\r\n").json();
    assert_eq!(reloaded["campaigns"]["changed"], 1, "{reloaded}");
    let state = |name: &str| client.campaign("acme", name).map(|campaign| campaign.state);
    until("it is paused", || state("acme-spring") == Some(DecisionCode::Paused));
    assert_eq!(state("acme-autumn"), Some(DecisionCode::Authorised));
    // The ledger closes the gate of the shard a moment later.
    until("it is refused", || {
        let decided = runtime.block_on(client.decide(request(&client, 3, 1_000_000), WITHIN));
        decided == Some(Err(DecisionCode::Paused))
    });
    std::fs::write(&file, text.replace("acme-autumn", "acme-winter")).unwrap();
    pacer.server.ask("POST", "/v1/reload", "content-length: 0\r\n").json();
    until("the new one is there", || state("acme-winter").is_some());
    until("the removed one is gone", || state("acme-autumn").is_none());
}
