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
    let lookups = Lookups::of_farm(&farm, "timeout = \"60s\"");
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

/// A wider answer that is complete answers a narrower query, without a call.
#[test]
fn the_answer_of_a_wider_query_answers_a_narrower_one() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_physics(&farm, "");
    let wide = lookups.query("dataset dataset=/a/*/c", "");
    assert_eq!((&wide["total"], requests(&farm)), (&json!(3), 1));
    let narrow = lookups.query("dataset dataset=/a/v1/c", "");
    assert_eq!(narrow["rows"], json!([wide["rows"][1].clone()]));
    assert_eq!(narrow["reuses"], "dataset dataset=/a/*/c");
    assert_eq!((&states(&narrow)[..], requests(&farm)), (&["cached"][..], 1));
    // Its stages are its own.
    let count = lookups.query("dataset dataset=/a/v*/c | count(dataset)", "");
    assert_eq!(count["rows"][0]["record"], json!({ "count(dataset)": 3 }));
    assert_eq!(requests(&farm), 1);
    // What it lacks is asked for.
    lookups.query("dataset dataset=/b/v1/c", "");
    assert_eq!(requests(&farm), 2);
}

#[test]
fn an_answer_that_lacks_something_answers_no_other_query() {
    let farm = farm(2, &options());
    behave(&farm, 1, ProviderAct::Redirect { code: 302, to: None });
    let lookups = Lookups::of_farm(&farm, "");
    assert_eq!(lookups.query("item group=g", "")["status"], "partial");
    behave(&farm, 1, ProviderAct::Healthy);
    let narrow = lookups.query("item group=g item=g/1*", "");
    assert_eq!((&narrow["status"], &narrow["total"]), (&json!("done"), &json!(11)));
    assert_eq!((states(&narrow), &narrow["reuses"]), (vec!["cached", "ok"], &json!(null)));
    assert_eq!(narrow["rows"][0]["from"], json!(["p0.items", "p1.items"]));
}

/// Who began a call may have less time than those who wait for it too.
#[test]
fn a_call_is_begun_again_for_those_who_have_more_time() {
    let farm = farm(1, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "timeout = \"600ms\"");
    let begin = |timeout: &str| {
        let body = json!({ "query": "item group=g", "timeout": timeout }).to_string();
        send(lookups.address, "POST", "/lookup", &[], &body).json()["id"].clone()
    };
    begin("300ms");
    until("it is called", || requests(&farm) == 1);
    let second = begin("20s");
    // The first attempt hangs on; when it fails, the one who began it has no time left.
    behave(&farm, 0, ProviderAct::Healthy);
    let target = format!("/lookup/{}?wait=20s", second.as_str().unwrap());
    assert_eq!(lookups.get(&target).json()["status"], "done");
    assert_eq!(requests(&farm), 2);
}

/// The third time nothing is left to do, and all who ask get the same.
#[test]
fn an_answer_that_is_known_is_shared() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let ask = || lookups.query("item group=g | limit 5", "");
    let [first, second, third] = [ask(), ask(), ask()];
    assert_eq!([states(&first), states(&second), states(&third)], [["ok"], ["cached"], ["cached"]]);
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second, third);
    assert_eq!(lookups.query("item group=g | limit 4", "")["total"], 4, "it has other stages");
    let page = lookups.query("item group=g | limit 5", "&limit=2");
    assert_eq!((page["rows"].as_array().unwrap().len(), &page["next"]), (2, &json!(2)));
    assert_eq!(page["id"], third["id"]);
}

/// Nothing is called to say what would be.
#[test]
fn a_plan_says_what_is_known() {
    let farm = farm(3, &options());
    let mut map = include_str!("../../../../../deploy/maps/physics.toml").to_owned();
    for (port, url) in [7501, 7502, 7503].into_iter().zip(farm.urls()) {
        map = map.replace(&format!("http://127.0.0.1:{port}"), url);
    }
    let lookups = Lookups::start(&map, "");
    let explain = |query: &str| {
        let answer = lookups.get(&format!("/lookup/plan?query={}", encoded(query)));
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    let known = |cached: u64| json!([{ "call": "dbs.blocks", "instance": "prod/global", "calls": 1, "cached": cached, "stale": 0 }]);
    // Blocks are found first; what is asked of each is not known before.
    let query = "file,run,lumi dataset=/a/b/c";
    let unknown = explain(query);
    assert_eq!((&unknown["known"], &unknown["reuses"]), (&known(0), &json!(null)));
    assert!(unknown["plan"].as_str().unwrap().starts_with("in turn:\n"), "{unknown}");
    assert_eq!((&unknown["calls_max"], requests(&farm)), (&json!(1_000), 0));
    let estimate = unknown["calls_estimate"].as_u64();
    assert!(estimate > Some(1), "{unknown}");
    lookups.query("block dataset=/a/b/c", "");
    assert_eq!(explain(query)["known"], known(1));
    lookups.query(query, "");
    let asked = requests(&farm);
    assert_eq!(explain(&format!("{query} | count(file)"))["reuses"], query);
    assert_eq!(requests(&farm), asked);
    for (query, status) in [("file datset", 400), ("lumi site=x", 422)] {
        let refused = lookups.get(&format!("/lookup/plan?query={}", encoded(query)));
        assert_eq!(refused.status, status, "{}", refused.body);
    }
    assert_eq!(send(lookups.address, "POST", "/lookup/plan?query=x", &[], "").status, 405);
}
