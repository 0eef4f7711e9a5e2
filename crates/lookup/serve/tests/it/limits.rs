//! What a provider bears, and what a query may cost.

use std::time::Duration;

use serde_json::json;
use testbed::provider::{CatalogueOptions, ProviderAct, ProviderOptions};

use crate::fixtures::*;

/// A catalogue whose blocks each need a call of their own.
fn many_calls(concurrency_max: usize, refusal: u16) -> ProviderOptions {
    ProviderOptions {
        catalogue: CatalogueOptions { blocks: 100, files: 1, items: 0 },
        // Longer than it takes to send calls, even on a busy machine.
        latency: Duration::from_millis(20),
        concurrency_max: Some(concurrency_max),
        refusal,
        ..options()
    }
}

/// Several queries at a time, of different datasets.
fn run_at_once(lookups: &Lookups, count: usize) {
    let ids: Vec<_> =
        (0..count).map(|at| lookups.begin(&format!("site dataset=/a/b/c{at}"))).collect();
    for id in ids {
        let answer = lookups.get(&format!("/lookup/{id}?wait=20s")).json();
        assert_eq!(answer["status"], "done", "{answer}");
        assert_eq!(answer["providers"][1]["calls"], 100);
    }
}

const SITES: &str = "
[[key]]
name = \"dataset\"
[[key]]
name = \"block\"
[[key]]
name = \"site\"
[[provider]]
name = \"rucio\"
url = \"URL\"
LIMIT
[[provider.call]]
name = \"blocks\"
gives = [\"block\"]
path = \"/dids/{dataset}/dids\"
format = \"ndjson\"
typical = 100
fields = { name = \"block.name\" }
[[provider.call.parameter]]
name = \"dataset\"
key = \"dataset\"
required = true
[[provider.call]]
name = \"replicas\"
gives = [\"site\"]
path = \"/replicas\"
format = \"ndjson\"
fields = { rse = \"site.name\" }
[[provider.call.parameter]]
name = \"block\"
key = \"block\"
required = true
from = \"rucio.blocks\"
";

fn sites(url: &str, limit: &str, keys: &str) -> Lookups {
    Lookups::start(&SITES.replace("URL", url).replace("LIMIT", limit), keys)
}

#[test]
fn a_limit_that_the_map_gives_is_never_passed() {
    let farm = farm(1, &many_calls(5, 500));
    let lookups = sites(&farm.urls()[0], "concurrency = 5", "");
    run_at_once(&lookups, 8);
    let stats = &farm.stats()[0];
    assert_eq!((stats.requests, stats.concurrent_max, stats.overloaded), (8 * 101, 5, 0));
}

#[test]
fn a_limit_that_nobody_knows_is_found_and_users_see_no_failure() {
    let farm = farm(1, &many_calls(7, 500));
    let lookups = sites(&farm.urls()[0], "", "");
    run_at_once(&lookups, 8);
    let stats = &farm.stats()[0];
    assert_eq!(stats.requests - stats.overloaded, 8 * 101);
    assert!(stats.overloaded <= 8 * 101 / 20, "{stats:?}");
}

#[test]
fn a_query_that_needs_too_many_calls_is_refused_or_waits_in_the_background() {
    let farm = farm(1, &many_calls(100, 500));
    let lookups = sites(&farm.urls()[0], "", "calls = 50");
    let target = format!("/lookup?query={}", encoded("site dataset=/a/b/c"));
    let refused = lookups.get(&target);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (422, &json!("too_many_calls")));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("about 101 calls, of at most 50"), "{message}");
    assert!(message.contains("class=background"), "{message}");
    assert_eq!(requests(&farm), 0);
    let answer = lookups.get(&format!("{target}&class=background")).json();
    assert_eq!(answer["status"], "done");
}

#[test]
fn no_more_queries_run_than_may() {
    let farm = farm(1, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let map = testbed::provider::farm_map(farm.urls(), "");
    let lookups = Lookups::start(&map, "running = 2");
    let ids = [lookups.begin("item group=a"), lookups.begin("item group=b")];
    let body = json!({ "query": "item group=c" }).to_string();
    let refused = send(lookups.address, "POST", "/lookup", &[], &body);
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
    send(lookups.address, "DELETE", &format!("/lookup/{}", ids[0]), &[], "");
    lookups.begin("item group=c");
}

/// Otherwise a provider would not be called any more once so many queries have been cancelled.
#[test]
fn no_permit_is_lost_when_queries_are_cancelled() {
    let farm = farm(1, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "concurrency = 2");
    let ids: Vec<_> = (0..5).map(|at| lookups.begin(&format!("item group=h{at}"))).collect();
    until("two are called", || requests(&farm) == 2);
    // Those that wait for their turn go first, then those that run.
    for id in ids.iter().rev() {
        send(lookups.address, "DELETE", &format!("/lookup/{id}"), &[], "");
    }
    behave(&farm, 0, ProviderAct::Healthy);
    for at in 0..5 {
        assert_eq!(lookups.query(&format!("item group=g{at}"), "")["status"], "done");
    }
    assert_eq!(requests(&farm), 7);
}

/// More values are found than the map says is typical.
#[test]
fn a_query_makes_no_more_calls_than_may_be() {
    let farm = farm(1, &many_calls(100, 500));
    let map = SITES.replace("URL", &farm.urls()[0]).replace("LIMIT", "");
    let map = map.replace("typical = 100", "typical = 1");
    let lookups = Lookups::start(&map, "calls = 10\nbackground_calls = 50");
    let answer = lookups.query("site dataset=/a/b/c", "");
    assert_eq!((&answer["status"], requests(&farm)), (&json!("partial"), 50));
    assert_eq!(states(&answer), ["ok", "shed"]);
    let reason = &answer["providers"][1]["reason"];
    assert_eq!(reason, "the query has made as many calls as it may");
}

#[test]
fn an_answer_that_is_larger_than_all_that_is_kept_takes_no_place_of_others() {
    let items = CatalogueOptions { blocks: 0, files: 0, items: 40_000 };
    let farm = farm(1, &ProviderOptions { catalogue: items, ..options() });
    let map = testbed::provider::farm_map(farm.urls(), "");
    let lookups = Lookups::start(&map, "answers = \"1MiB\"");
    let few = lookups.query("item group=g | limit 3", "");
    let all = lookups.query("item group=g", "");
    assert_eq!((&all["status"], &all["total"]), (&json!("failed"), &json!(0)));
    assert!(all["reason"].as_str().unwrap().contains("its 40000 records"), "{}", all["reason"]);
    let few = lookups.get(&format!("/lookup/{}", few["id"].as_str().unwrap()));
    assert_eq!(few.json()["total"], 3);
}
