//! The cache as an operator meets it: what it holds, what is hot, and purges, by command and by API.

mod killed;
mod markup;
mod soak;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::json;

use crate::operations::document::check_cache;
use crate::operations::fixtures::Server;
use crate::program::{Running, check, until, vickrey};

/// An origin whose every answer is fresh for ten minutes, and the requests that it has had.
fn origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || answer_all(stream, &count));
        }
    });
    (address, requests)
}

fn answer_all(stream: TcpStream, count: &AtomicUsize) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line.trim_end().is_empty() {
            count.fetch_add(1, Relaxed);
            let answer = "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\nvary: accept-encoding\r\n\
                          surrogate-key: creative/17 all\r\ncontent-length: 5\r\n\r\nhello";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        line.clear();
    }
}

/// A process with a cache and its admin listener, without a token.
struct CacheServer {
    server: Server,
    address: String,
    requests: Arc<AtomicUsize>,
}

impl CacheServer {
    fn start() -> Self {
        let (origin, requests) = origin();
        let server = Server::start_without_exchange(&format!(
            "[cache]\nlisten = \"127.0.0.1:0\"\n[[cache.route]]\nid = \"ads\"\nhost = \"cdn.example\"\n\
             origin = \"http://{origin}\"\nquery_allowed = [\"w\"]\n"
        ));
        let address = server.logged("the cache is at ");
        Self { server, address, requests }
    }

    /// How the cache handled a GET: the first part of its Cache-Status.
    fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head =
            format!("GET {target} HTTP/1.1\r\nhost: cdn.example\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let status =
            lines.find_map(|line| line.strip_prefix("cache-status: vickrey; ").map(String::from));
        status.unwrap().split(';').next().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let admin = self.server.logged("metrics and health at http://");
        let mut command = vickrey(&["cache"]);
        command.args(args).args(["--admin", &format!("http://{admin}")]);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) {
        check(&mut self.command(args), exit, stdout, stderr);
    }
}

#[test]
fn commands_show_and_purge_what_is_stored() {
    let cache = CacheServer::start();
    cache.run(&["hot"], 0, &["no requests yet"], &[]);
    for target in ["/a?w=1", "/a?w=1", "/b/1", "/b/2", "/c"] {
        cache.get(target);
    }
    cache.run(
        &["stat"],
        0,
        &["resources   4, in ", "of 256.0 MiB", "ads    up         20.0 %     1      0       4"],
        &[],
    );
    // As clients write it: other parameters do not count, nor does the scheme of a proxy in front.
    let url = "https://CDN.example:443/a?w=1&click=2";
    cache.run(
        &["get", "http://cdn.example/a?w=1&click=2"],
        0,
        &[
            "http://cdn.example/a?w=1\n",
            "\n200, 5 bytes, ",
            " s old, fresh for ",
            "for requests with accept-encoding: none",
            "surrogate keys: creative/17 all",
            "    cache-control: max-age=600\n",
        ],
        &[],
    );
    cache.run(&["hot"], 0, &["40.0 %         2    0  http://cdn.example/a?w=1\n"], &[]);
    cache.run(
        &["purge", url],
        0,
        &["purged: https://CDN.example:443/a?w=1&click=2 (responses: 1)"],
        &[],
    );
    cache.run(&["get", url], 66, &[], &["nothing is stored for https://CDN.example:443/a"]);
    assert_eq!(cache.get("/a?w=1"), "fwd=uri-miss");
    let several =
        ["purge", "--soft", "--prefix", "http://cdn.example/b/", "--surrogate-key", "none"];
    cache.run(
        &several,
        0,
        &["stale from now on: http://cdn.example/b/*\n", "surrogate key none"],
        &[],
    );
    assert_eq!(
        ["/b/1", "/b/2", "/c"].map(|target| cache.get(target)),
        ["fwd=stale", "fwd=stale", "hit"]
    );
    cache.run(&["purge", "--all", "--json"], 0, &["\"all\": true", "\"responses\": null"], &[]);
    assert_eq!(cache.get("/c"), "fwd=uri-miss");
    assert_eq!(cache.requests.load(Relaxed), 8);
    let server = &cache.server;
    assert_eq!(server.scraped("cache_purges_total"), 4);
    until("purges are applied", || server.scraped("cache_purges_pending") == 0);
    assert!(server.scraped("cache_purged_total") >= 5);
    assert_eq!(server.scraped("cache_fetched_bytes_total{route=\"ads\"}"), 8 * 5);
    assert_eq!(server.scraped("cache_hit_bytes_total{route=\"ads\"}"), 2 * 5);
    assert_eq!(server.scraped("cache_origin_seconds_count{route=\"ads\"}"), 8);
}

#[test]
fn wrong_commands_say_what_is_wrong() {
    let cache = CacheServer::start();
    cache.run(&["purge"], 64, &[], &["required"]);
    cache.run(&["purge", "/a"], 64, &[], &["`url`: needs the form \"http://host/path\""]);
    cache.run(&["purge", "http://other/"], 66, &[], &["no route has the host `other`"]);
    cache.run(&["purge", "--prefix", "cdn"], 64, &[], &["`prefix`: needs the form"]);
    cache.run(&["purge", "--surrogate-key", "a b"], 64, &[], &["needs one name, without spaces"]);
    cache.run(&["hot", "--count", "0"], 64, &[], &["needs a number from 1 to 1000"]);
    let without = Server::start_without_exchange(
        "[live]\nlisten = \"127.0.0.1:0\"\ntrust_loopback = true\n[record]\ndirectory = \"log\"\n",
    );
    let admin = format!("http://{}", without.logged("metrics and health at http://"));
    let mut command = vickrey(&["cache", "stat", "--admin", &admin]);
    check(&mut command, 69, &[], &["there is no cache here: add [cache]"]);
}

#[test]
fn a_hammer_checks_what_an_origin_answers_through_the_cache() {
    let mut command =
        vickrey(&["origin", "--surrogate-keys", "4", "--fault", "short-body", "--json"]);
    // Without validators, so that the cache cannot ask for the rest.
    let mut origin = Running::start(command.args(["--fault-share", "200000", "--unvalidated"]));
    let mut line = String::new();
    BufReader::new(origin.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url: serde_json::Value = serde_json::from_str(&line).unwrap();
    let server = Server::start_without_exchange(&format!(
        "[cache]\nlisten = \"127.0.0.1:0\"\n[[cache.route]]\nid = \"all\"\norigin = {url}\n",
        url = url["url"]
    ));
    let address = format!("http://{}/", server.logged("the cache is at "));
    let hammer = |args: &[&str], exit: i32, want: &[&str]| {
        let count = ["--warm-up", "0s", "--count", "200", "--in-flight", "4"];
        let mut command = vickrey(&["hammer", "cache", "--url", &address]);
        check(command.args(count).args(args), exit, want, &[]);
    };
    // The hammer notices truncated bodies; the cache stores none.
    hammer(
        &["--keys", "20", "--order", "scan", "--errors-max", "0"],
        1,
        &["MISSED", "not valid        0"],
    );
    hammer(&["--keys", "20", "--errors-max", "0"], 0, &["200 fresh, 0 stale"]);
    hammer(&["--order", "new", "--bytes", "9"], 0, &["0 fresh, 0 stale"]);
    origin.signal("-INT");
    let (code, out) = origin.wait();
    let stats: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0));
    assert!(stats["faults"].as_u64().unwrap() > 0, "{stats}");
    check(
        &mut vickrey(&["hammer", "cache", "--url", "ftp://x"]),
        64,
        &[],
        &["only http is supported"],
    );
    let query = ["hammer", "cache", "--url", "http://127.0.0.1:1/?a=b"];
    check(&mut vickrey(&query), 64, &[], &["numbers follow it: no query"]);
    check(&mut vickrey(&["hammer", "cache", "--keys", "0"]), 64, &[], &["at least one key"]);
}

#[test]
fn answers_are_as_documented() {
    let cache = CacheServer::start();
    cache.get("/a");
    let (server, resource) = (&cache.server, "/v1/cache/resource");
    let get = |path: &'static str, query: &str| {
        ("GET", path, server.ask("GET", &format!("{path}{query}"), ""))
    };
    let purges = "/v1/cache/purges";
    let purge = |body| ("POST", purges, server.send("POST", purges, &body));
    let answers = [
        get("/v1/cache", ""),
        get("/v1/cache/hot", ""),
        get("/v1/cache/hot", "?count=x"),
        get(resource, "?url=http://cdn.example/a"),
        get(resource, "?url=http://cdn.example/none"),
        get(resource, ""),
        purge(json!({ "url": "http://cdn.example/a", "soft": true })),
        purge(json!({ "prefix": "http://cdn.example/" })),
        purge(json!({ "url": "http://none/" })),
        purge(json!({ "url": "http://cdn.example/", "all": true })),
        purge(json!({ "tag": "a" })),
    ];
    let statuses = answers.each_ref().map(|(.., answer)| answer.status);
    assert_eq!(statuses, [200, 200, 400, 200, 404, 400, 200, 200, 404, 400, 400]);
    let without = Server::start_without_exchange(
        "[live]\nlisten = \"127.0.0.1:0\"\ntrust_loopback = true\n[record]\ndirectory = \"log\"\n",
    );
    let absent =
        ["/v1/cache", "/v1/cache/hot"].map(|path| ("GET", path, without.ask("GET", path, "")));
    let answers: Vec<_> = answers.into_iter().chain(absent).collect();
    check_cache(server, &answers);
}
