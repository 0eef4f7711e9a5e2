//! Providers that fail: what they do not say is missing, and the answer says so.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::provider::{
    CatalogueOptions, ProviderAct, ProviderBehaviour, ProviderFault, ProviderOptions,
};
use testbed::server::{Cut, DripFrom};

use crate::fixtures::*;

/// One of three providers fails in this way.
#[track_caller]
fn check(act: ProviderAct, state: &str, reason: &str) {
    let farm = farm(3, &options());
    behave(&farm, 1, act);
    let lookups = Lookups::of_farm(&farm, "timeout = \"500ms\"");
    let answer = lookups.query("item group=g", "");
    assert_eq!(answer["status"], "partial");
    assert_eq!(states(&answer), ["ok", state, "ok"], "{answer}");
    let said = answer["providers"][1]["reason"].as_str().expect("a reason");
    assert!(said.contains(reason), "{said}");
    assert_eq!(answer["total"], 20);
    assert_eq!(answer["rows"][3]["from"], json!(["p0.items", "p2.items"]));
    assert_eq!(answer["rows"][3]["record"]["item"]["p1"], Value::Null);
}

#[test]
fn what_a_provider_answers_wrongly_is_said() {
    let status = |code, body: &str| ProviderAct::Status { code, body: body.to_owned() };
    check(status(500, "x"), "error", "500");
    check(status(404, "[]"), "error", "404");
    check(status(429, ""), "shed", "429");
    check(ProviderAct::Redirect { code: 302, to: None }, "error", "redirects are not followed");
    check(ProviderAct::Garbage, "error", "no usable answer");
    check(ProviderAct::Close { at: Cut::Body }, "error", "broke off");
    check(ProviderAct::Refused, "error", "cannot connect");
    check(ProviderAct::Gzip { always: true }, "error", "encoded");
    check(ProviderAct::Content(ProviderFault::Html), "error", "not JSON");
    check(ProviderAct::Content(ProviderFault::Message), "error", "item.name");
    check(ProviderAct::Content(ProviderFault::Latin1), "error", "not JSON");
    check(ProviderAct::Content(ProviderFault::Truncated), "error", "not JSON");
    check(ProviderAct::Content(ProviderFault::Deep), "error", "not JSON");
}

#[test]
fn a_provider_that_is_slow_costs_its_timeout() {
    check(ProviderAct::Hang, "timeout", "no answer within 500ms");
    let every = Duration::from_millis(50);
    let drip = ProviderAct::Trickle { bytes: 4, every, from: DripFrom::Body };
    check(drip, "timeout", "no answer within 500ms");
}

#[test]
fn the_others_are_in_the_answer_at_the_deadline_of_the_query() {
    let farm = farm(100, &options());
    behave(&farm, 42, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "timeout = \"60s\"");
    let began = Instant::now();
    let answer = lookups.query("item group=g", "&timeout=2s");
    let took = began.elapsed();
    assert!(Duration::from_secs(2) <= took, "it waited for the last");
    assert!(took < Duration::from_secs(20), "the provider's own timeout is a minute: {took:?}");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("partial"), &json!(20)));
    let from = answer["rows"][0]["from"].as_array().unwrap();
    assert_eq!(from.len(), 99);
    assert_eq!(states(&answer)[42], "timeout");
    until("the call is cancelled", || farm.stats()[42].connections == 0);
}

#[test]
fn a_query_fails_without_a_provider_that_it_needs() {
    let farm = farm(2, &options());
    behave(&farm, 0, ProviderAct::Content(ProviderFault::Html));
    let lookups = Lookups::of_farm(&farm, "required = true");
    let answer = lookups.query("item group=g", "");
    assert_eq!((&answer["status"], &answer["rows"]), (&json!("failed"), &json!([])));
    assert_eq!(answer["reason"], "it needs p0.items, which failed");
    // Failures are not kept.
    behave(&farm, 0, ProviderAct::Healthy);
    let again = lookups.query("item group=g", "");
    assert_eq!((&again["status"], &states(&again)[..]), (&json!("done"), &["ok", "cached"][..]));
}

#[test]
fn a_query_fails_when_nobody_answers() {
    let farm = farm(2, &options());
    behave(&farm, 0, ProviderAct::Refused);
    behave(&farm, 1, ProviderAct::Garbage);
    let lookups = Lookups::of_farm(&farm, "");
    let answer = lookups.query("item group=g", "");
    assert_eq!(
        (&answer["status"], &answer["reason"]),
        (&json!("failed"), &json!("no provider answered"))
    );
}

/// The files of blocks that were not found are missing, and that is said.
#[test]
fn what_was_not_found_is_not_asked_for() {
    let farm = farm(3, &options());
    behave(&farm, 0, ProviderAct::Content(ProviderFault::Message));
    let lookups = Lookups::of_physics(&farm, "");
    let answer = lookups.query("file,run,lumi dataset=/a/b/c", "");
    assert_eq!((&answer["status"], &states(&answer)[..]), (&json!("failed"), &["error"; 2][..]));
    assert_eq!(answer["providers"][1]["reason"], "the values that it needs were not found");
}

#[test]
fn calls_that_fail_now_and_then_are_made_again() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    // What may be made again is a share of what has succeeded.
    for group in 0..200 {
        assert_eq!(lookups.query(&format!("item group=g{group}"), "")["status"], "done");
    }
    let act = ProviderAct::Close { at: Cut::Body };
    farm.set_behaviour(0, ProviderBehaviour { act, share_ppm: 50_000 }).unwrap();
    let answers: Vec<_> =
        (0..100).map(|group| lookups.query(&format!("item group=h{group}"), "")).collect();
    let attempts = |answer: &Value| answer["providers"][0]["attempts"].as_u64().unwrap();
    assert!(answers.iter().all(|answer| answer["status"] == "done"));
    assert!(answers.iter().any(|answer| attempts(answer) == 2), "the seed has faults");
}

/// The required provider has said that there are no blocks: nothing more is asked of it.
#[test]
fn a_call_that_need_not_be_made_has_not_failed() {
    let nothing = CatalogueOptions { blocks: 0, files: 0, items: 0 };
    let farm = farm(3, &ProviderOptions { catalogue: nothing, ..options() });
    let map = include_str!("../../../../../deploy/maps/physics.toml");
    let map = map.replace("concurrency = 10", "concurrency = 10\nrequired = true");
    // Another provider that would give the same finds nothing, since it fails.
    let other = "
        [[provider]]
        name = \"other\"
        url = \"http://127.0.0.1:7503\"
        [[provider.call]]
        name = \"blocks\"
        gives = [\"block\"]
        path = \"/nothing\"
        fields = { block = \"block.name\" }
        [[provider.call.parameter]]
        name = \"dataset\"
        key = \"dataset\"
        required = true
        [[provider.call]]
        name = \"lumis\"
        gives = [\"file\", \"run\", \"lumi\"]
        path = \"/nothing\"
        fields = { file = \"file.name\", run = \"run.number\", lumi = \"lumi.number\" }
        [[provider.call.parameter]]
        name = \"block\"
        key = \"block\"
        required = true
        from = \"other.blocks\"
    ";
    let map = (map + other).replace("http://127.0.0.1:7501", &farm.urls()[0]);
    let lookups = Lookups::start(&map.replace("http://127.0.0.1:7503", &farm.urls()[2]), "");
    let answer = lookups.query("file,run,lumi dataset=/a/b/c", "");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("partial"), &json!(0)));
    assert_eq!(states(&answer), ["ok", "ok", "error", "error"], "{answer}");
    assert_eq!(requests(&farm), 2);
}

#[test]
fn nothing_at_all_is_no_answer() {
    check(ProviderAct::Status { code: 200, body: String::new() }, "error", "not JSON");
}
