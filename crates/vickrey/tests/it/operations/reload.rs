//! A changed configuration, applied in every possible way.

use serde_json::{Value, json};

use super::fixtures::{Server, dsp, table};
use crate::program::until;

const NEVER: &str = "watch = \"0s\"";

fn ids(server: &Server) -> Vec<Value> {
    let dsps = server.get("/v1/dsps")["dsps"].as_array().unwrap().clone();
    dsps.into_iter().map(|dsp| dsp["id"].clone()).collect()
}

#[test]
fn an_operator_asks() {
    let address = dsp().to_string();
    let server = Server::start_with(NEVER, &table("a", &address, ""));
    assert_eq!(server.get("/v1/config")["generation"], 1);
    let started = server.metric("config_last_reload_success_timestamp_seconds");
    assert_eq!(server.scraped("config_last_reload_successful"), 1, "the start counts");
    server
        .configure(NEVER, &(table("b", &address, "") + &table("a", &address, "timeout = \"9s\"")));
    assert_eq!(ids(&server), ["a"], "nobody has asked");
    let answer = server.ask("POST", "/v1/reload", "");
    let summary = answer.json();
    assert_eq!((answer.status, &summary["generation"]), (200, &json!(2)));
    assert_eq!(summary["needs_restart"], json!([]));
    let keys = summary["differences"].as_array().unwrap().iter();
    let keys: Vec<_> = keys.map(|difference| difference["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"dsp[\"b\"]") && keys.contains(&"dsp[\"a\"].timeout"), "{keys:?}");
    assert_eq!(ids(&server), ["b", "a"]);
    let config = server.get("/v1/config");
    assert_eq!(config["generation"], 2);
    assert_eq!(config["configuration"]["dsp"][1]["timeout"], "9s");
    let reloaded = server.metric("config_last_reload_success_timestamp_seconds");
    let seconds = |text: &str| text.parse::<f64>().unwrap();
    assert!(seconds(&started) < seconds(&reloaded), "{started} {reloaded}");
    assert_eq!(server.auction(), 204);
}

/// It makes no generation either, which would be recorded.
#[test]
fn a_reload_without_a_change_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("key");
    std::fs::write(&secret, "s3cret").unwrap();
    let publisher = format!("[[publisher]]\nid = \"p\"\nkey = \"file:{}\"\n", secret.display());
    let tables = table("a", &dsp().to_string(), "") + &publisher;
    let server = Server::start_with(NEVER, &tables);
    let reload = || server.ask("POST", "/v1/reload", "").json()["generation"].clone();
    assert_eq!([reload(), reload()], [1, 1]);
    // The same bytes in another file are no change.
    server.configure(NEVER, &tables);
    assert_eq!(reload(), 1);
    // A changed secret is a change, although it is masked everywhere.
    std::fs::write(&secret, "0ther!").unwrap();
    assert_eq!([reload(), reload()], [2, 2]);
    // A refused configuration is not in force: the next one is compared with the previous one.
    server.configure(NEVER, "[[dsp]]\n");
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 422);
    server.configure(NEVER, &tables);
    assert_eq!(reload(), 2);
}

/// A DSP that takes its key in the URL's query.
#[test]
fn keys_in_urls_are_not_shown() {
    let of = |key: &str| table("a", &format!("{}/bid?key={key}&x=", dsp()), "");
    let server = Server::start_with(NEVER, &of("hunter2"));
    server.configure(NEVER, &of("hunter3"));
    let summary = server.ask("POST", "/v1/reload", "").json();
    let changed = summary["differences"].as_array().unwrap().iter();
    let changed: Vec<_> = changed.map(|difference| difference["key"].as_str().unwrap()).collect();
    assert_eq!(changed, ["dsp[\"a\"].url"]);
    server.configure(NEVER, &of("hunter4").replace("http://", "ftp://"));
    let refused = server.ask("POST", "/v1/reload", "").json();
    assert_eq!(refused["error"]["count"], 1);
    let (dsps, config) = (server.get("/v1/dsps"), server.get("/v1/config"));
    assert!(dsps["dsps"][0]["url"].as_str().unwrap().ends_with("/bid?***"), "{dsps}");
    for told in [summary, refused, dsps, config] {
        assert!(!told.to_string().contains("hunter"), "{told}");
    }
    assert!(!server.log().contains("hunter"), "{}", server.log());
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let address = dsp().to_string();
    let server = Server::start_with(NEVER, &table("a", &address, ""));
    let before = server.get("/v1/config");
    let twice = table("b", &address, "timeout = \"9\"") + &table("b", &address, "tmeout = 1");
    server.configure(NEVER, &twice);
    let answer = server.ask("POST", "/v1/reload", "");
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["count"]), (422, &json!(3)), "{answer:?}");
    let keys: Vec<_> = error["problems"].as_array().unwrap().iter().map(|of| &of["key"]).collect();
    assert_eq!(keys, ["dsp[0].timeout", "dsp[1].id", "dsp[1].tmeout"]);
    assert_eq!(server.get("/v1/config"), before);
    assert_eq!(ids(&server), ["a"]);
    assert_eq!(server.scraped("config_last_reload_successful"), 0);
    for key in ["dsp[0].timeout", "dsp[1].id", "dsp[1].tmeout", "the old configuration stays"] {
        until("the log says it", || server.log().contains(key));
    }
    std::fs::remove_file(server.config_file()).unwrap();
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 422, "there is no file");
    assert_eq!((server.get("/v1/config"), server.auction()), (before, 204));
    server.configure(NEVER, &table("a", &address, ""));
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    assert_eq!(server.scraped("config_last_reload_successful"), 1);
}

#[test]
fn a_signal_comes() {
    let address = dsp().to_string();
    let server = Server::start_with(NEVER, &table("a", &address, ""));
    server.configure(NEVER, &table("b", &address, ""));
    server.signal("-HUP");
    until("it is taken over", || ids(&server) == ["b"]);
}

#[test]
fn a_file_changes() {
    let address = dsp().to_string();
    let server = Server::start_with("watch = \"5ms\"", &table("a", &address, ""));
    server.configure("watch = \"5ms\"", &table("b", &address, ""));
    until("it is taken over", || ids(&server) == ["b"]);
    // The interval itself is reloaded, too.
    server.configure(NEVER, &table("c", &address, ""));
    until("it is taken over", || ids(&server) == ["c"]);
    assert_eq!(server.get("/v1/config")["needs_restart"], json!([]));
}

#[test]
fn what_waits_for_a_start_is_told() {
    let server = Server::start_with(NEVER, "");
    let tables = "listen = \"127.0.0.1:1\"\n[log]\nformat = \"json\"\nfilter = \"warn\"\n";
    let whole = "[tracing]\nendpoint = \"http://127.0.0.1:1/v1/traces\"\n";
    // The fixture sets the exchange's `listen`, so this replaces it.
    let path = server.config_file();
    let text = std::fs::read_to_string(&path).unwrap().replace("shards = 1", "shards = 2");
    let (head, _) = text.rsplit_once("listen = \"127.0.0.1:0\"\n").unwrap();
    std::fs::write(&path, format!("{head}{tables}{whole}")).unwrap();
    let told = server.ask("POST", "/v1/reload", "").json()["needs_restart"].clone();
    let mut keys: Vec<_> =
        told.as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    keys.retain(|key| !key.starts_with("tracing."));
    assert_eq!(keys, ["runtime.shards", "log.format", "tracing", "exchange.listen"]);
    assert_eq!(server.get("/v1/config")["needs_restart"], told);
    assert_eq!(server.auction(), 204, "it listens where it did");
}

/// The new filter applies before the changes are logged.
#[test]
fn the_log_filter_is_taken_over() {
    let server = Server::start_with(NEVER, "");
    let taken_over = "the configuration is taken over";
    server.configure(NEVER, "[log]\nfilter = \"warn\"\n");
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    assert!(!server.log().contains(taken_over), "{}", server.log());
    server.configure(NEVER, "[log]\nfilter = \"info\"\n");
    assert_eq!(server.ask("POST", "/v1/reload", "").status, 200);
    until("it is logged again", || server.log().contains(taken_over));
}

#[test]
fn a_service_that_is_gone_from_the_file_stays() {
    let server = Server::start_with(NEVER, &table("a", &dsp().to_string(), ""));
    std::fs::write(server.config_file(), "[runtime]\nwatch = \"0s\"\nshards = 1\n").unwrap();
    let told = server.ask("POST", "/v1/reload", "").json()["needs_restart"].clone();
    assert!(told.as_array().unwrap().contains(&json!("exchange")), "{told}");
    assert_eq!((ids(&server).len(), server.auction()), (1, 204));
}
