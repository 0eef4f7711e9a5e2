//! The interface of DAS, used by a client in another language that knows its protocol alone.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::provider::{ProviderAct, ProviderOptions};

use crate::fixtures::*;

/// Asks as the clients of DAS do, and prints the answer and how often it polled.
const CLIENT: &str = r#"
import json, re, sys, time, urllib.parse, urllib.request
PID = re.compile(r'^[a-z0-9]{32}$')
host, query, limit = sys.argv[1:4]
params = {'input': query, 'idx': 0, 'limit': limit}
polls = 0
while True:
    url = host + '/das/cache?' + urllib.parse.urlencode(params)
    with urllib.request.urlopen(url) as answer:
        data = answer.read().decode()
    if not PID.match(data) or data != data.strip():
        break
    params['pid'] = data
    polls += 1
    time.sleep(0.02)
answer = json.loads(data)
# As the clients of DAS read it.
filters = answer['mongo_query'].get('filters', {}).get('grep', [])
print(json.dumps({'polls': polls, 'answer': answer, 'filters': filters}))
"#;

#[track_caller]
fn ask(lookups: &Lookups, query: &str, limit: &str) -> Value {
    let host = format!("http://{}", lookups.address);
    let out = Command::new("python3").args(["-c", CLIENT, &host, query, limit]).output();
    let out = out.expect("there is a python3");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

#[test]
fn a_client_of_das_polls_until_it_has_its_answer() {
    let slow = ProviderOptions { latency: Duration::from_millis(200), ..options() };
    let farm = farm(3, &slow);
    let lookups = Lookups::of_physics(&farm, "");
    let asked = ask(&lookups, "file dataset=/a/b/c | grep file.name, file.size>10", "3");
    assert!(asked["polls"].as_u64().unwrap() > 0, "the provider takes longer than a poll");
    let answer = &asked["answer"];
    assert_eq!((&answer["status"], &answer["nresults"]), (&json!("ok"), &json!(100)));
    let data = answer["data"].as_array().unwrap();
    assert_eq!(data.len(), 3);
    let name = "/store/a/b/c/0/0.root";
    assert_eq!(data[0]["das"]["primary_key"], "file.name");
    assert_eq!(data[0]["das"]["system"], json!(["dbs.files"]));
    assert_eq!(data[0]["file"], json!([{ "name": name }]));
    let mongo = &answer["mongo_query"];
    assert_eq!(mongo["fields"], json!(["file"]));
    assert_eq!(mongo["spec"], json!({ "dataset": "/a/b/c" }));
    assert_eq!(asked["filters"], json!(["file.name", "file.size>10"]));
    assert_eq!(mongo["spec"], json!({ "dataset": "/a/b/c" }));
    // From the cache there is nothing to poll for.
    let again = ask(&lookups, "file dataset=/a/b/c", "0");
    assert_eq!(
        (&again["polls"], again["answer"]["data"].as_array().unwrap().len()),
        (&json!(0), 100)
    );
    assert_eq!(again["answer"]["incache"], true);
}

#[test]
fn aggregates_are_read_as_das_wrote_them() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_physics(&farm, "");
    let asked = ask(&lookups, "file dataset=/a/b/c | count(file), max(file.size)", "10");
    let answer = &asked["answer"];
    assert_eq!(
        answer["mongo_query"]["aggregators"],
        json!([["count", "file"], ["max", "file.size"]])
    );
    let data = answer["data"].as_array().unwrap();
    assert_eq!((&data[0]["function"], &data[0]["key"]), (&json!("count"), &json!("file")));
    assert_eq!(data[0]["result"], json!({ "value": 100 }));
    assert!(data[1]["result"]["value"].as_u64().unwrap() > 0);
}

#[test]
fn what_is_wrong_is_a_document_too() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_physics(&farm, "");
    let wrong = lookups.get(&format!("/das/cache?input={}", encoded("file datset=/a/b/c")));
    assert_eq!((wrong.status, &wrong.json()["status"]), (400, &json!("fail")));
    assert!(wrong.json()["reason"].as_str().unwrap().contains("did you mean `dataset`?"));
    assert_eq!(lookups.get("/das/cache").json()["status"], "fail");
    behave(&farm, 0, ProviderAct::Refused);
    let failed = ask(&lookups, "file dataset=/a/b/c", "10")["answer"].clone();
    assert_eq!((&failed["status"], &failed["data"]), (&json!("fail"), &json!([])));
}

/// The server may have been started anew: the client goes on with another id.
#[test]
fn an_id_of_another_process_begins_the_query_again() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_physics(&farm, "");
    let input = encoded("file dataset=/a/b/c");
    let target = format!("/das/cache?input={input}&pid={}", "0".repeat(32));
    let answer = lookups.get(&target);
    let answer = match answer.body.len() {
        32 => lookups.get(&format!("/das/cache?pid={}", answer.body)),
        _ => answer,
    };
    assert_eq!(answer.json()["nresults"], 100);
}

#[test]
fn documents_say_how_far_a_query_is() {
    let farm = farm(3, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let lookups = Lookups::of_physics(&farm, "");
    let input = encoded("file dataset=/a/b/c");
    let document = lookups.get(&format!("/das/request?input={input}")).json();
    assert_eq!(document["status"], "processing");
    let pid = document["pid"].as_str().unwrap();
    let polled = lookups.get(&format!("/das/cache?pid={pid}"));
    assert_eq!((&*polled.body, polled.field("content-type")), (pid, Some("text/plain")));
    send(lookups.address, "DELETE", &format!("/lookup/{pid}"), &[], "");
}

/// A query may be longer when it is printed than it was written.
#[test]
fn a_query_is_not_read_again() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let quotes = format!("item group='{}'", "\"".repeat(200 << 10));
    let text = ["Content-Type: text/plain"];
    let begun = send(lookups.address, "POST", "/lookup?wait=20s&limit=0", &text, &quotes).json();
    let pid = begun["id"].as_str().unwrap();
    let answer = lookups.get(&format!("/das/cache?pid={pid}&limit=1"));
    assert_eq!(answer.json()["mongo_query"]["fields"], json!(["item"]));
}
