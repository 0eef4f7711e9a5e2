//! What is asked for once, and what is kept.

use std::time::Duration;

use serde_json::json;
use testbed::provider::{ProviderAct, ProviderOptions};

use crate::fixtures::*;

#[test]
fn identical_calls_under_way_are_one() {
    let slow = ProviderOptions { latency: Duration::from_millis(300), ..options() };
    let farm = farm(1, &slow);
    let lookups = Lookups::of_farm(&farm, "");
    let ids: Vec<_> = (0..20).map(|_| lookups.begin("item group=g")).collect();
    for id in &ids {
        assert_eq!(lookups.get(&format!("/lookup/{id}?wait=20s")).json()["status"], "done");
    }
    assert_eq!(requests(&farm), 1);
}

/// The one who asked first may leave: the others still wait.
#[test]
fn a_call_ends_when_nobody_waits_for_it_any_more() {
    let farm = farm(1, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "");
    let ids: Vec<_> = (0..2).map(|_| lookups.begin("item group=g")).collect();
    until("it is called", || requests(&farm) == 1);
    let cancel = |id: &str| {
        let target = format!("/lookup/{id}");
        let answer = send(lookups.address, "DELETE", &target, &[], "").json();
        assert_eq!(answer["status"], "cancelled");
    };
    cancel(&ids[0]);
    assert_eq!(lookups.get(&format!("/lookup/{}?wait=100ms", ids[1])).json()["status"], "running");
    assert_eq!(farm.stats()[0].connections, 1);
    cancel(&ids[1]);
    until("the call is cancelled", || farm.stats()[0].connections == 0);
    assert_eq!(requests(&farm), 1);
}

#[test]
fn an_answer_counts_for_its_time_and_is_then_replaced_behind() {
    let farm = farm(2, &options());
    let map = testbed::provider::farm_map(farm.urls(), "");
    // The answers of one are used for long, those of the other only once.
    let short = "path = \"/items\"\nttl = \"0s\"\nstale_ttl = \"1h\"";
    let lookups = Lookups::start(&map.replacen("path = \"/items\"", short, 1), "");
    assert_eq!(states(&lookups.query("item group=g", "")), ["ok", "ok"]);
    let stale = lookups.query("item group=g", "");
    assert_eq!(states(&stale), ["stale", "cached"]);
    assert_eq!((&stale["status"], &stale["total"]), (&json!("done"), &json!(20)));
    until("it is asked again", || farm.stats()[0].requests == 2);
    assert_eq!(farm.stats()[1].requests, 1, "the other's still counts");
}

#[test]
fn answers_are_forgotten_when_there_are_too_many() {
    let farm = farm(1, &options());
    let map = testbed::provider::farm_map(farm.urls(), "");
    let lookups = Lookups::start(&map, "answers = \"1MiB\"");
    // Of more than a kilobyte each.
    let first = lookups.query("item group=g0", "")["id"].as_str().unwrap().to_owned();
    for group in 1..1_000 {
        lookups.query(&format!("item group=g{group}"), "&limit=0");
    }
    let gone = lookups.get(&format!("/lookup/{first}"));
    assert_eq!((gone.status, &gone.json()["error"]["code"]), (404, &json!("not_found")));
}
