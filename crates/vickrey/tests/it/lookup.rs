//! Look-ups by command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testbed::provider::{ProviderAct, ProviderBehaviour, ProviderFarm, ProviderOptions, farm_map};
use testbed::server::ServerOptions;

use crate::operations::document::check_lookup;
use crate::operations::fixtures::Server;
use crate::program::{Running, check, root, until, vickrey};

#[test]
fn a_query_is_printed_as_json() {
    let text = "file,run dataset=/a/b* date last 24h system=dbs | grep file.size>10 | count(file)";
    let (out, _) = check(&mut vickrey(&["query", "--parse", text]), 0, &[], &[]);
    let printed: Value = serde_json::from_str(&out).unwrap();
    let want = json!({
        "fields": ["file", "run"],
        "conditions": [
            { "key": "dataset", "op": "=", "value": "/a/b*" },
            { "key": "date", "op": "last", "value": 86_400 },
        ],
        "pipe": [
            { "grep": [{ "field": "file.size", "op": ">", "value": 10 }] },
            { "aggregate": [{ "fn": "count", "field": "file" }] },
        ],
        "system": "dbs",
        "instance": null,
    });
    assert_eq!(printed, want);
}

#[test]
fn a_wrong_query_is_shown_with_its_place() {
    let want = "error: the query is wrong: there is no operator `betwen`\n  run betwen [1, 2]\n      \
                ^^^^^^\ndid you mean `between`? operators are =, in, between and last\n";
    check(&mut vickrey(&["query", "--parse", "run betwen [1, 2]"]), 64, &[], &[want]);
    check(&mut vickrey(&["query", "--parse", ""]), 64, &[], &["the query is empty"]);
    // A megabyte comes through a pipe, of which no more is read than is too much.
    let mut child = vickrey(&["query", "--parse", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let long = format!("file | grep {}", "file.name,".repeat(100_000));
    let _closed = child.stdin.take().unwrap().write_all(long.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(said.contains("the query has more than 262144 bytes"), "{said}");
}

#[test]
fn a_plan_is_explained() {
    let maps = root().join("deploy/maps/*.toml");
    let explain = |query: &str, more: &[&str]| {
        let options = ["query", "--explain", "--maps", maps.to_str().unwrap(), query];
        vickrey(&[&options[..], more].concat())
    };
    let want = "in turn:\n  call dbs.blocks at prod/global with dataset\n  for each block, 10 at a \
                time:\n    call dbs.filelumis at prod/global\ndbs: at most 10 calls at a time, 10s for \
                each\nabout 6 calls\n";
    let query = "file,run,lumi dataset=/a/b/c";
    assert_eq!(check(&mut explain(query, &[]), 0, &[], &[]).0, want);
    let (json, _) = check(&mut explain(query, &["--json"]), 0, &[], &[]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["calls_estimate"], 6);
    assert_eq!(json["step"]["sequence"][0]["fetch"]["call"], "dbs.blocks");
    let unfit = "error: no provider answers this query\n  dbs.files takes values of `dataset` like \
                 `/*/*/*`, not `/a/b`\n";
    check(&mut explain("file dataset=/a/b", &[]), 64, &[], &[unfit]);
    // With maps, keys and attributes are checked.
    check(&mut explain("usr=1", &[]), 64, &[], &["did you mean `user`?"]);
    check(
        &mut explain("user user=a | grep user.sgments", &[]),
        64,
        &[],
        &["did you mean `segments`?"],
    );
    let mut no_maps = vickrey(&["query", "--explain", "--maps", "nowhere/*.toml", query]);
    check(&mut no_maps, 64, &[], &["error: 1 problem in the maps\n  maps = \"nowhere/*.toml\": "]);
}

/// A process with look-ups of a farm.
struct LookupServer {
    server: Server,
    farm: ProviderFarm,
    _maps: tempfile::TempDir,
}

impl LookupServer {
    fn start(providers: usize) -> Self {
        let behaviours = vec![ProviderBehaviour::HEALTHY; providers];
        let farm = testbed::provider::start(
            &ProviderOptions::default(),
            behaviours,
            &ServerOptions::default(),
        )
        .unwrap();
        let maps = tempfile::tempdir().unwrap();
        std::fs::write(maps.path().join("farm.toml"), farm_map(farm.urls(), "")).unwrap();
        let pattern = maps.path().join("*.toml").display().to_string();
        let server = Server::start_without_exchange(&format!(
            "[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{pattern}\"\n"
        ));
        Self { server, farm, _maps: maps }
    }

    fn behave(&self, provider: usize, act: ProviderAct) {
        let behaviour = ProviderBehaviour { act, share_ppm: 1_000_000 };
        self.farm.set_behaviour(provider, behaviour).unwrap();
    }

    fn query(&self, query: &str, options: &[&str]) -> Command {
        let address = self.server.logged("look-ups are at ");
        let url = format!("http://{address}");
        let mut command = vickrey(&["query", query, "--server", &url]);
        command.args(options);
        command
    }
}

#[test]
fn a_query_is_answered_by_a_running_process() {
    let lookups = LookupServer::start(2);
    let query = "item group=g | sort item.name | limit 2";
    let table = "item.name  item.p0  item.p1  item.size\n";
    let (out, err) =
        check(&mut lookups.query(query, &[]), 0, &[table, "g/0              0        1  "], &[]);
    assert_eq!((out.lines().count(), &*err), (3, "records: 2; calls: 2\n"));
    let (csv, _) = check(&mut lookups.query(query, &["--csv"]), 0, &[], &["all from the cache"]);
    assert!(csv.starts_with("item.name,item.p0,item.p1,item.size\ng/0,0,1,"), "{csv}");
    let (json, err) = check(&mut lookups.query(query, &["--json", "--limit", "1"]), 0, &[], &[]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["status"], &json["total"], &*err), (&json!("done"), &json!(2), ""));
    assert_eq!(json["rows"][0]["from"], json!(["p0.items", "p1.items"]));
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    let server = &lookups.server;
    assert_eq!(server.scraped("lookup_done_total"), 2);
    assert_eq!(server.scraped("lookup_attempts_total"), 2);
    assert_eq!(server.scraped("lookup_reused_total"), 1);
    assert_eq!(server.scraped("lookup_shared_total"), 1);
    until("the lanes are shown", || {
        server.scraped("lookup_provider_up{provider=\"p1\",instance=\"default\"}") == 1
    });
    check_lookup(server, "200");
}

#[test]
fn a_plan_says_what_the_process_knows() {
    let lookups = LookupServer::start(2);
    let query = "item group=g";
    let explained = |want: &[&str]| {
        let (out, _) = check(&mut lookups.query(query, &["--explain"]), 0, want, &[]);
        out
    };
    let text =
        explained(&["at once:\n  call p0.items with group\n", "about 2 calls, of at most 1000\n"]);
    assert!(
        text.ends_with("known: 0 of 1 answers of p0.items\nknown: 0 of 1 answers of p1.items\n")
    );
    lookups.behave(1, ProviderAct::Refused);
    check(&mut lookups.query(query, &[]), 1, &[], &[]);
    explained(&["known: 1 of 1 answers of p0.items\nknown: 0 of 1 answers of p1.items\n"]);
    lookups.behave(1, ProviderAct::Healthy);
    check(&mut lookups.query(query, &[]), 0, &[], &[]);
    explained(&["known: all of it, from the answer of `item group=g`: nothing is called\n"]);
    let (json, _) = check(&mut lookups.query(query, &["--explain", "--json"]), 0, &[], &[]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["reuses"], query);
    check(&mut lookups.query("itm", &["--explain"]), 64, &[], &["did you mean `item`?"]);
}

#[test]
fn queries_are_hammered() {
    let lookups = LookupServer::start(2);
    let url = format!("http://{}", lookups.server.logged("look-ups are at "));
    let hammer = |query: &str, options: &[&str]| {
        let mut command = vickrey(&["hammer", "lookup", query, "--url", &url, "--warm-up", "0s"]);
        command.args(["--timeout", "20s", "--in-flight", "4"]).args(options);
        command
    };
    let new = ["--new", "--count", "40"];
    let said = ["40 completely, 0 in part", "0 without a call of a provider", "4000"];
    check(&mut hammer("item group=g{n}", &new), 0, &said, &[]);
    assert_eq!(lookups.server.scraped("lookup_attempts_total"), 80);
    let known = ["--keys", "5", "--count", "40", "--records", "0"];
    let said = ["40 completely, 0 in part", "40 without a call of a provider"];
    check(&mut hammer("item group=g{n}", &known), 0, &said, &[]);
    lookups.behave(1, ProviderAct::Refused);
    let said = ["0 completely, 40 in part"];
    check(&mut hammer("item group=h{n}", &new), 0, &said, &[]);
    check(&mut hammer("itm group=h{n}", &new), 1, &["there is no key `itm`"], &[]);
    check(&mut hammer("item group=h", &new), 64, &[], &["`{n}` in the query"]);
    check(&mut hammer("item group=h{n}", &["--keys", "0"]), 64, &[], &["at least one key"]);
}

#[test]
fn what_is_missing_is_said_by_the_exit_code_too() {
    let lookups = LookupServer::start(2);
    lookups.behave(1, ProviderAct::Hang);
    let options = ["--timeout", "1s"];
    let said = ["p1.items: timeout: it had not answered", "records: 100; calls: 2"];
    check(&mut lookups.query("item group=g", &options), 1, &["g/99"], &said);
    lookups.behave(0, ProviderAct::Refused);
    let said = ["cannot connect: ", "the query failed: no provider answered"];
    check(&mut lookups.query("item group=h", &options), 69, &["no records"], &said);
    let said = ["there is no key `itm`", "did you mean `item`?"];
    check(&mut lookups.query("itm group=h", &[]), 64, &[], &said);
    let mut nobody = vickrey(&["query", "item group=g", "--server", "http://127.0.0.1:1"]);
    check(&mut nobody, 69, &[], &["the listener of look-ups at http://127.0.0.1:1", "--server"]);
}

#[test]
fn maps_are_checked_with_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vickrey.toml");
    std::fs::write(&file, "[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"map.toml\"\n").unwrap();
    let file = file.to_str().unwrap();
    let map = folder.path().join("map.toml");
    std::fs::write(&map, farm_map(&["http://127.0.0.1:1".to_owned()], "")).unwrap();
    check(&mut vickrey(&["config", "check", file]), 0, &["providers of look-ups: 1"], &[]);
    std::fs::write(&map, farm_map(&["ftp://127.0.0.1".to_owned()], "rate = 0")).unwrap();
    let said = ["2 problems in the maps", "map.toml line 9: provider[0].url", "provider[0].rate"];
    check(&mut vickrey(&["config", "check", file]), 64, &[], &said);
    check(&mut vickrey(&["serve", "--config", file]), 64, &[], &["2 problems in the maps"]);
}

#[test]
fn simulated_providers_describe_themselves_and_count() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("farm.toml");
    let mut command = vickrey(&["provider", "--count", "3", "--fault", "html", "--faulty", "1"]);
    command.args(["--json", "--map", map.to_str().unwrap()]);
    let mut farm = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(farm.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let urls: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(urls["urls"].as_array().unwrap().len(), 3);
    let server = Server::start_without_exchange(&format!(
        "[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{}\"\n",
        map.display()
    ));
    let url = format!("http://{}", server.logged("look-ups are at "));
    let mut query = vickrey(&["query", "item group=g", "--server", &url]);
    check(&mut query, 1, &["g/99"], &["p0.items: error: the answer is not JSON"]);
    farm.signal("-INT");
    let (code, out) = farm.wait();
    assert_eq!(code, Some(0));
    let stats: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(stats[0]["faults"].as_u64() > Some(0), "{stats}");
    assert_eq!(stats[1]["requests"], 1);
}

#[test]
fn the_demo_shows_what_broken_providers_do() {
    let mut demo = vickrey(&["demo", "lookup", "--providers", "12", "--json"]);
    let (out, _) = check(&mut demo, 0, &[], &[]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    let queries = summary["queries"].as_array().unwrap();
    assert_eq!((&queries[0]["status"], &queries[0]["records"]), (&json!("done"), &json!(1)));
    assert_eq!((&queries[1]["status"], &queries[1]["records"]), (&json!("partial"), &json!(5)));
    assert_eq!(queries[1]["calls"], 12);
    // The one that is often out of order may answer when it is asked again.
    assert!(matches!(queries[1]["failed"].as_u64(), Some(2 | 3)), "{summary}");
    let mut shown = vickrey(&["demo", "lookup", "--providers", "8"]);
    let said = ["p0.items: timeout", "p1.items: error: the answer is not JSON", "have had "];
    check(&mut shown, 0, &said, &[]);
}
