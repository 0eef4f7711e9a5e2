//! Queries and their answers, for clients that wait and for those that poll.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use testbed::provider::{ProviderAct, farm_map};

use crate::fixtures::*;

#[test]
fn all_providers_answer_and_each_record_says_which() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let answer = lookups.query("item group=g", "");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("done"), &json!(20)));
    let row = &answer["rows"][7];
    assert_eq!(row["from"], json!(["p0.items", "p1.items", "p2.items"]));
    let item = &row["record"]["item"];
    assert_eq!(item["name"], "g/7");
    assert_eq!([&item["p0"], &item["p1"], &item["p2"]], [7_000, 7_001, 7_002]);
    assert_eq!(states(&answer), ["ok"; 3]);
    let one = lookups.query("item group=g system=p1", "");
    assert_eq!(one["rows"][7]["from"], json!(["p1.items"]));
}

#[test]
fn values_that_one_call_finds_are_asked_of_the_next_in_batches() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_physics(&farm, "");
    let answer = lookups.query("file,run,lumi dataset=/a/b/c", "&limit=10000");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("done"), &json!(25 * 4 * 2)));
    // 25 blocks, 10 at a time.
    let providers = &answer["providers"];
    assert_eq!([&providers[0]["calls"], &providers[1]["calls"]], [1, 3]);
    assert_eq!(requests(&farm), 4);
    assert_eq!(answer["rows"][0]["from"], json!(["dbs.filelumis"]));
    let sum = lookups.query("file,run,lumi dataset=/a/b/c | sum(file.size), count(file)", "");
    let sizes = answer["rows"].as_array().unwrap().iter().map(|row| &row["record"]["file"]["size"]);
    let sizes: u64 = sizes.map(|size| size.as_u64().unwrap()).sum();
    let record = json!({ "sum(file.size)": sizes, "count(file)": 200 });
    assert_eq!(sum["rows"], json!([{ "record": record, "from": ["dbs.filelumis"] }]));
    assert_eq!((&states(&sum)[..], requests(&farm)), (&["cached"][..], 4));
}

#[test]
fn pages_follow_each_other() {
    let farm = farm(2, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let first = lookups.query("item group=g | sort item.name", "&limit=15");
    assert_eq!((first["rows"].as_array().unwrap().len(), &first["next"]), (15, &json!(15)));
    let id = first["id"].as_str().unwrap();
    let second = lookups.get(&format!("/lookup/{id}?idx=15&limit=15")).json();
    assert_eq!((second["rows"].as_array().unwrap().len(), &second["next"]), (5, &Value::Null));
    let all = lookups.get(&format!("/lookup/{id}?limit=100")).json();
    let joined: Vec<_> =
        [&first, &second].iter().flat_map(|page| page["rows"].as_array().unwrap()).collect();
    assert_eq!(joined, all["rows"].as_array().unwrap().iter().collect::<Vec<_>>());
    let beyond = lookups.get(&format!("/lookup/{id}?idx=99")).json();
    assert_eq!((&beyond["rows"], &beyond["next"]), (&json!([]), &Value::Null));
}

#[test]
fn a_query_is_polled_by_its_id() {
    let farm = farm(2, &options());
    behave(&farm, 1, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "timeout = \"20s\"");
    let id = lookups.begin("item group=g");
    let target = format!("/lookup/{id}");
    until("one has answered", || states(&lookups.get(&target).json()) == ["ok", "running"]);
    let running = lookups.get(&target);
    let tag = running.field("etag").unwrap().to_owned();
    assert_eq!((running.status, &running.json()["status"]), (202, &json!("running")));
    // What a client has seen is not sent again, whether a proxy made its tag weak or not.
    for tags in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let poll = poll(&lookups, &target, &tags);
        assert_eq!((poll.status, &*poll.body), (304, ""), "{tags}");
    }
    // What it has not seen is sent at once.
    let outdated = poll(&lookups, &format!("{target}?wait=10m"), "\"x\"");
    assert_eq!(outdated.json()["status"], "running");
    let waiting = {
        let (address, target) = (lookups.address, format!("{target}?wait=10m"));
        let line = format!("If-None-Match: {tag}");
        std::thread::spawn(move || send(address, "GET", &target, &[&line], ""))
    };
    let cancelled = send(lookups.address, "DELETE", &target, &[], "").json();
    assert_eq!(cancelled["status"], "cancelled");
    let seen = waiting.join().unwrap();
    assert_eq!((seen.status, &seen.json()["status"]), (200, &json!("cancelled")));
    // Nothing can come any more: nobody waits for it.
    let last = poll(&lookups, &format!("{target}?wait=10m"), seen.field("etag").unwrap());
    assert_eq!(last.status, 304, "of {:?}", seen.field("etag"));
    until("the provider is left", || farm.stats()[1].connections == 0);
}

fn poll(lookups: &Lookups, target: &str, tag: &str) -> Answer {
    send(lookups.address, "GET", target, &[&format!("If-None-Match: {tag}")], "")
}

#[test]
fn an_id_that_is_not_known_is_not_found() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    for id in ["0123456789abcdef0123456789abcdef", "1", "", "x/y", "%00"] {
        for method in ["GET", "DELETE"] {
            let answer = send(lookups.address, method, &format!("/lookup/{id}"), &[], "");
            assert_eq!(answer.status, 404, "{method} {id}: {}", answer.body);
        }
    }
}

#[test]
fn a_query_can_be_followed_as_lines() {
    let farm = farm(3, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let target = format!("/lookup?query={}", encoded("item group=g"));
    let accept = ["Accept: application/x-ndjson;q=1, */*"];
    let answer = send(lookups.address, "GET", &target, &accept, "");
    let lines: Vec<Value> =
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = lines.iter().filter(|line| line.get("record").is_some()).collect();
    assert_eq!(rows.len(), 20);
    let last = lines.last().unwrap();
    assert_eq!((&last["status"], &last["total"]), (&json!("done"), &json!(20)));
    assert!(lines[0].get("status").is_some(), "how far it is comes first");
    let ends = lines.iter().filter(|line| line["status"] == "done").count();
    assert_eq!(ends, 1, "who reads until then has all rows");
    let few = send(lookups.address, "GET", &format!("{target}&limit=3&idx=2"), &accept, "");
    assert_eq!(few.body.lines().filter(|line| line.contains("\"record\"")).count(), 3);
}

#[test]
fn a_body_may_be_the_query_itself() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let text = ["Content-Type: text/plain"];
    let wrong = send(lookups.address, "POST", "/lookup?tiemout=2s", &text, "item group=g");
    assert_eq!(wrong.status, 400);
    let answer = send(lookups.address, "POST", "/lookup?timeout=2s", &text, "item group=g\n");
    assert!(matches!(answer.status, 200 | 202), "{}", answer.body);
    let place = answer.field("location").unwrap().to_owned();
    assert_eq!(lookups.get(&format!("{place}?wait=20s")).json()["total"], 20);
}

#[test]
fn a_query_whose_client_leaves_is_cancelled() {
    for accept in ["application/json", "application/x-ndjson"] {
        check_abandoned(accept);
    }
}

fn check_abandoned(accept: &str) {
    let farm = farm(1, &options());
    behave(&farm, 0, ProviderAct::Hang);
    let lookups = Lookups::of_farm(&farm, "timeout = \"60s\"");
    let mut stream = TcpStream::connect(lookups.address).expect("it listens");
    let target = format!("/lookup?query={}", encoded("item group=g"));
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    until("the provider is called", || requests(&farm) == 1);
    drop(stream);
    until("the call is cancelled", || farm.stats()[0].connections == 0);
}

/// The providers of one network answer to this process, not to any page.
#[test]
fn pages_of_other_sites_are_refused() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let target = format!("/lookup?query={}", encoded("item group=g"));
    let status = |line: &str| send(lookups.address, "GET", &target, &[line], "").status;
    assert_eq!(status("Sec-Fetch-Site: cross-site"), 403);
    assert_eq!(status("Sec-Fetch-Site: same-origin"), 200);
    let mut stream = TcpStream::connect(lookups.address).unwrap();
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

/// A token, as the provider sees it.
#[test]
fn providers_are_sent_their_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let head = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        String::from_utf8(head).unwrap()
    });
    let headers = "headers = { authorization = \"Bearer secret\" }";
    let lookups = Lookups::start(&farm_map(&[url], headers), "");
    let answer = lookups.query("item group=g", "");
    assert_eq!((&answer["status"], &answer["total"]), (&json!("done"), &json!(0)));
    let head = head.join().unwrap();
    assert!(head.contains("\r\nauthorization: Bearer secret\r\n"), "{head}");
}

#[test]
fn a_provider_gives_its_records_in_pages() {
    let farm = farm(1, &options());
    let of_pages = |keys: &str| {
        let map = farm_map(farm.urls(), "");
        let pages = format!(
            "path = \"/items\"\npages = {{ parameter = \"offset\", size_parameter = \"limit\", {keys} }}"
        );
        Lookups::start(&map.replace("path = \"/items\"", &pages), "")
    };
    let check = |keys: &str, status: &str, records: usize, calls: usize| {
        let before = requests(&farm);
        let answer = of_pages(keys).query("item group=g | sort item.name", "");
        assert_eq!(
            (&answer["status"], &answer["total"]),
            (&json!(status), &json!(records)),
            "{keys}"
        );
        assert_eq!(requests(&farm) - before, calls as u64, "{keys}");
        answer
    };
    // There are 20. A full page is not known to be the last.
    check("size = 8", "done", 20, 3);
    check("size = 10", "done", 20, 3);
    check("size = 21", "done", 20, 1);
    let cut = check("size = 8, pages = 2", "partial", 16, 2);
    assert_eq!(cut["providers"][0]["reason"], "it has more than 2 pages");
}
